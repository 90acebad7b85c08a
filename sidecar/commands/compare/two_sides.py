"""Both sides' answers of a Prometheus, set beside each other lane by lane. Pure: queries and answers are data.

It knows how a side is asked for (label matchers and a stretch of time), and the document that the command prints. It
refuses to know sockets, flags and columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sidecar.commands.compare.gate_query import Counted, Grown
from sidecar.commands.compare.intervals import Change, Estimate, Sums, change, estimate
from sidecar.commands.compare.measures import ENGINE_MEASURES, MEASURES, TAILS, Measure, Tail, Unit
from sidecar.commands.compare.sequential import BLOCK_MINUTES
from sidecar.commands.compare.tails import Cells, cells, needed, tail, tail_change, tail_ratio


BLOCK_SECONDS = 60 * BLOCK_MINUTES
"""Between the instants that are asked for: one block follows the other."""
MOST_BLOCKS = 11_000
"""Points that Prometheus answers at most in one query of a range."""
COMPARISON_VERSION = 1
_BY = ("model", "lane")

Lane = tuple[str, str]
"""Model and lane."""
_NO_LANE: Lane = ("", "")
"""The engine's own counts have neither label."""
Column = Mapping[float, float]
"""Unix time of a block's end to its value."""


class Part(NamedTuple):
    """One of the two sides: which pods, and when, in unix time."""

    pods: tuple[str, ...]
    """Matchers of labels that every metric of the sidecar has."""
    lanes: tuple[str, ...]
    """Matchers of model and lane, which the engine's own counts have not."""
    begins_at: float
    ends_at: float
    words: str
    """As it is printed, such as `pod=llm-0`."""

    @property
    def matchers(self) -> tuple[str, ...]:
        return (*self.pods, *self.lanes)

    def instants(self) -> tuple[float, float]:
        """First and last end of a block: blocks end at multiples of their length, so the window may lie that much earlier."""
        last = self.ends_at // BLOCK_SECONDS * BLOCK_SECONDS
        blocks = (self.ends_at - self.begins_at) // BLOCK_SECONDS
        return last - (blocks - 1) * BLOCK_SECONDS, last


class Moved(NamedTuple):
    """One number on both sides."""

    measure: Measure | Tail
    old: Estimate
    new: Estimate
    change: Change
    ratio: Change | None = None
    """The change as a share of old, of a p99."""

    @property
    def verdict(self) -> str:
        """`better`, `worse` or `other` if the interval excludes 0, of a p99 that of the ratio; else `no change seen`."""
        if not (self.ratio or self.change).sure:
            return "no change seen"
        if not self.measure.judged:
            return "other"
        return "worse" if (self.change.value > 0) == self.measure.more_is_worse else "better"

    @property
    def needed(self) -> float | None:
        """Requests of each side for a change of `TOLD`; None of all but a p99 with an interval."""
        return None if self.ratio is None else needed(self.ratio, min(self.old.of, self.new.of))


class Compared(NamedTuple):
    model: str
    lane: str
    rows: tuple[Moved, ...]


class Comparison(NamedTuple):
    lanes: list[Compared]
    engine: tuple[Moved, ...]
    """The engine's own counts, over all lanes."""


def queries(part: Part) -> dict[Counted, str]:
    """Counter to the query for its growth within a block, by model and lane."""
    grown = Grown(", ".join(_BY))
    return {
        counted: grown.sum(counted, matchers)
        for measures, matchers in ((MEASURES, part.matchers), (ENGINE_MEASURES, part.pods))
        for measure in measures
        for counted in measure.question[:2]
    }


def columns(answer: Sequence[tuple[Mapping[str, str], Column]]) -> dict[Lane, Column]:
    """The answer to one of these queries, lane by lane: growth within each block."""
    return {_lane(of): {at: value * BLOCK_SECONDS for at, value in column.items()} for of, column in answer}


def _lane(of: Mapping[str, str]) -> Lane:
    return of.get(_BY[0], ""), of.get(_BY[1], "")


Columns = Mapping[Counted, Mapping[Lane, Column]]
Tails = Mapping[Tail, Mapping[Lane, Sequence[Cells]]]
"""Native histograms of each block; none where they are classic."""


class Answers(NamedTuple):
    """The answers of a Prometheus about one side, lane by lane."""

    columns: Columns
    tails: Tails


def tail_queries(part: Part) -> dict[Tail, str]:
    """P99 to the query for its native histograms' growth within a block, by model and lane.

    As in `Grown`, of two readings at the ends of a block: what came between the scrapes of two blocks would else be in none.
    Prometheus has no `irate` of a histogram; `increase` extrapolates the difference over the 1 ms that the window is longer.
    """
    of, between = ",".join(part.matchers), f"[{BLOCK_MINUTES}m1ms:{BLOCK_MINUTES}m]"
    return {one: f"sum by ({', '.join(_BY)}) (increase({one.histogram}{{{of}}}{between}))" for one in TAILS}


def histograms(answer: Mapping[str, Any]) -> list[tuple[Mapping[str, str], Mapping[float, Cells]]]:
    """The native histograms in an answer to a range query, by unix time. Raises KeyError, ValueError or IndexError for another form."""
    if answer["status"] != "success" or answer["data"]["resultType"] != "matrix":
        raise ValueError("no range vectors")
    return [
        (item["metric"], {at: cells(told.get("buckets", ())) for at, told in item.get("histograms", ())})
        for item in answer["data"]["result"]
    ]


def of_lanes(answer: Sequence[tuple[Mapping[str, str], Mapping[float, Cells]]]) -> dict[Lane, Sequence[Cells]]:
    """The answer to one of these queries, lane by lane: each block's histogram."""
    return {_lane(of): list(blocks.values()) for of, blocks in answer}


def compared(old: Answers, new: Answers) -> Comparison:
    """Each lane that both sides have, with the numbers that both sides have, and those of the engine."""
    lanes = [{lane for each in side.columns.values() for lane in each} for side in (old, new)]
    made = (
        Compared(*lane, (*_rows(MEASURES, old.columns, new.columns, lane), *_tails(old.tails, new.tails, lane)))
        for lane in sorted(lanes[0] & lanes[1])
    )
    engine = _rows(ENGINE_MEASURES, old.columns, new.columns, _NO_LANE)
    return Comparison([one for one in made if one.rows], tuple(engine))


def _tails(old: Tails, new: Tails, lane: Lane) -> Iterator[Moved]:
    for one in TAILS:
        before, after = (tail(side.get(one, {}).get(lane, ())) for side in (old, new))
        if before is not None and after is not None:
            yield Moved(one, before.estimate, after.estimate, tail_change(before, after), tail_ratio(before, after))


def _rows(measures: Sequence[Measure], old: Columns, new: Columns, lane: Lane) -> Iterator[Moved]:
    for measure in measures:
        share = measure.unit is Unit.SHARE
        sides = [estimate(_blocks(side, measure, lane), share=share) for side in (old, new)]
        if sides[0] is not None and sides[1] is not None and not _is_empty(measure, sides[0], sides[1]):
            yield Moved(measure, sides[0], sides[1], change(sides[0], sides[1]))


def _is_empty(measure: Measure, old: Estimate, new: Estimate) -> bool:
    """A phase that no request of either side spent time in, lanes without objectives, which have no good requests, or a rarity."""
    may_be_zero = measure.unit is Unit.SHARE and measure.question.more_is_worse and not measure.rare
    return not may_be_zero and old.value == new.value == 0


def _blocks(side: Columns, measure: Measure, lane: Lane) -> list[Sums]:
    counted, of = (side.get(each, {}).get(lane, {}) for each in measure.question[:2])
    return [Sums(counted.get(at, 0.0), whole) for at, whole in of.items()]


def comparison_document(found: Comparison, old: Part, new: Part, expected: Sequence[str]) -> dict[str, Any]:
    """The JSON document. Times are unix times, values in their unit."""
    return {
        "schema_version": COMPARISON_VERSION,
        "old": _side(old),
        "new": _side(new),
        "block_seconds": BLOCK_SECONDS,
        "expected": list(expected),
        "lanes": [
            {"model": one.model, "lane": one.lane, "measures": [_row(row, expected) for row in one.rows]}
            for one in found.lanes
        ],
        "engine": {"measures": [_row(row, expected) for row in found.engine]},
    }


def _side(part: Part) -> dict[str, Any]:
    return {"of": part.words, "begins_timestamp_seconds": part.begins_at, "ends_timestamp_seconds": part.ends_at}


def _row(row: Moved, expected: Sequence[str]) -> dict[str, Any]:
    return {
        "name": row.measure.name,
        "unit": row.measure.unit,
        "old": row.old.value,
        "new": row.new.value,
        "old_of": row.old.of,
        "new_of": row.new.of,
        "change": row.change.value,
        "low": row.change.low,
        "high": row.change.high,
        **_ratio(row),
        "verdict": row.verdict,
        "expected": row.measure.name in expected,
    }


def _ratio(row: Moved) -> dict[str, Any]:
    if row.ratio is None:
        return {}
    ends = {"low_ratio": row.ratio.low, "high_ratio": row.ratio.high}
    return {"change_ratio": row.ratio.value, **ends, "requests_needed_for_a_tenth": row.needed}
