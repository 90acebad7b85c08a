"""Both sides' answers of a Prometheus, set beside each other lane by lane. Pure: queries and answers are data.

It knows how a side is asked for (label matchers and a stretch of time), and the document that the command prints. It
refuses to know sockets, flags and columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sidecar.commands.compare.gate_questions import BLOCK_MINUTES, Counted, Grown
from sidecar.commands.compare.intervals import Change, Estimate, Sums, change, estimate
from sidecar.commands.compare.measures import ENGINE_MEASURES, MEASURES, Measure, Unit


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

    measure: Measure
    old: Estimate
    new: Estimate
    change: Change

    @property
    def verdict(self) -> str:
        """`better`, `worse` or `other` if the interval excludes 0; else `no change seen`."""
        if not self.change.sure:
            return "no change seen"
        if not self.measure.judged:
            return "other"
        return "worse" if (self.change.value > 0) == self.measure.more_is_worse else "better"


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
    return {
        (of.get(_BY[0], ""), of.get(_BY[1], "")): {at: value * BLOCK_SECONDS for at, value in column.items()}
        for of, column in answer
    }


Columns = Mapping[Counted, Mapping[Lane, Column]]


def compared(old: Columns, new: Columns) -> Comparison:
    """Each lane that both sides have, with the numbers that both sides have, and those of the engine."""
    lanes = [{lane for each in side.values() for lane in each} for side in (old, new)]
    made = (Compared(*lane, tuple(_rows(MEASURES, old, new, lane))) for lane in sorted(lanes[0] & lanes[1]))
    engine = _rows(ENGINE_MEASURES, old, new, _NO_LANE)
    return Comparison([one for one in made if one.rows], tuple(engine))


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
        "verdict": row.verdict,
        "expected": row.measure.name in expected,
    }
