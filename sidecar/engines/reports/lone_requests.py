"""Takes the times of one request from the growth of an engine's sums, if only that request ended meanwhile. Pure.

Some engines do not report single requests, but their page has sums and counts over all finished requests: queue, prefill,
decode and whole time (`Histogram`; the engine's file has their names). If each count grew by exactly one between two
readings, the growth of the sums is that one request's. It must also be a request of this sidecar, because other clients may
bypass it and the page has no ids. So exactly one request must have ended here in between, no other can have been counted in
its place, and the engine's whole time and prompt length must fit what was measured here. If the engine counted more than
ended here, other clients bypass the sidecar, and no growth is used for `UNSAFE_SECONDS`.
Falling sums and negative growth are refused: engines observe a negative time if an instant is missing.

Other pages have sums of queue and whole time alone, and one count of finished requests for each model. Then the growth is a request's if
the engine's whole time is the one measured here, within CLOCK_TOLERANCE_SECONDS or WHOLE_TIME_RATIO, and the difference is its front end. An
engine that takes a request in and answers later counts no whole time: of its requests only the queue is known, and that only
where no other request was there from one reading to the next. A request that passed several models states nothing.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from sidecar.engines.probe.page_lines import WholeLines
from sidecar.ledger.report import EngineReport, KeyedReport, RequestKey
from sidecar.timeline.marks import Marks


UNSAFE_SECONDS = 600.0
"""Seconds after a sign of other clients for which no growth is used."""
SETTLE_SECONDS = 0.2
"""Seconds from a request's end until the page has it: a task of its own writes it some ms after the last chunk."""
CLOCK_TOLERANCE_SECONDS = 0.02
"""Between the engine's whole time and the one measured here: its finish is stamped when the last token is passed on."""
WHOLE_TIME_RATIO = 0.05
"""As CLOCK_TOLERANCE_SECONDS, of long requests: a server's own work on the answer's pieces lies outside the engine's time."""
MAX_ENDED = 1024
"""Ends kept between two readings: with more than one there is no report, but their number shows if clients bypass us."""

_SUM_LINE = (
    rb"^(%b)%b(\{(?:[^\"}\n]|\"(?:[^\"\\\n]|\\.)*+\")*+\})?[ \t]++(-?[0-9.]{1,40}(?:[eE][+-]?[0-9]{1,4})?)[ \t]*\r?$"
)


class Ending(msgspec.Struct, frozen=True):
    """One inference request that is over, in whatever way: reports are fetched only when a request waits for one."""

    keys: tuple[RequestKey, ...]
    """By which a report finds it (`ledger/pending.py`)."""
    marks: Marks
    streaming: bool
    at: float
    """Its last byte was accepted by its client, in monotonic seconds."""
    waits: bool
    """Its ledger is open until a report comes."""


class Histogram(StrEnum):
    """The histograms that are read: seconds, and the tokens of the prompt."""

    QUEUE = "queue"
    PREFILL = "prefill"
    DECODE = "decode"
    WHOLE = "whole"
    PROMPT = "prompt"


Sums = Mapping[Histogram, tuple[float, float]]
"""One rank's sums: histogram to (sum, count)."""


class SumsScan:
    """Reads one page in steps. Lines of another format are skipped; a page that breaks off is not used."""

    def __init__(
        self,
        names: Mapping[Histogram, bytes],
        *,
        counted_by: bytes = b"",
        per_second: float = 1.0,
        inside: tuple[bytes, ...] = (),
    ) -> None:
        """As in `LoneSums`."""
        self._histograms: dict[bytes, Histogram | None] = {name: histogram for histogram, name in names.items()}
        if counted_by:
            self._histograms[counted_by] = None
        self._per_second = per_second
        what = b"()" if counted_by else b"_(sum|count)"
        self._line = re.compile(_SUM_LINE % (b"|".join(map(re.escape, self._histograms)), what), re.MULTILINE)
        self._lines = WholeLines()
        self._found: dict[bytes, dict[tuple[Histogram | None, bytes], float]] = {}
        self._inside = re.compile(b"^(?:%b)" % b"|".join(map(re.escape, inside)), re.MULTILINE) if inside else None
        self.shows_inside = False
        """The page has names of an engine inside this server."""

    def feed(self, data: bytes) -> None:
        """The next bytes, at most `STEP_BYTES` of them, cut anywhere."""
        lines = self._lines.feed(data)
        self.shows_inside = self.shows_inside or (self._inside is not None and self._inside.search(lines) is not None)
        for name, what, labels, value in self._line.findall(lines):
            key, number = (self._histograms[name], what), _number(value)
            if number is None:
                self._found.setdefault(labels, {}).pop(key, None)
            else:
                self._found.setdefault(labels, {})[key] = number

    def finish(self) -> dict[bytes, Sums] | None:
        """Label text of each rank that states all sums and counts; None where the page broke off or has none."""
        if self._lines.cut:
            return None
        each_key = {
            each: ((each, b""), (None, b""))
            if None in self._histograms.values()
            else ((each, b"sum"), (each, b"count"))
            for each in self._histograms.values()
            if each is not None
        }
        ranks: dict[bytes, Sums] = {
            labels: {each: (found[total] / self._per_second, found[count]) for each, (total, count) in each_key.items()}
            for labels, found in self._found.items()
            if all(key in found for keys in each_key.values() for key in keys)
        }
        return ranks or None


@dataclass(frozen=True, slots=True)
class PageReading:
    ranks: Mapping[bytes, Sums]
    asked_at: float
    """Our clock, before the question and after the answer: the page was made somewhere in between."""
    answered_at: float
    in_flight: int
    """Our requests in flight when the answer had come."""
    shows_inside: bool = False
    """The page has names of an engine inside this server."""


@dataclass(slots=True)
class Judgement:
    """The result of comparing two readings."""

    report: KeyedReport | None = None
    refused: bool = False
    """A request waited, and it is not certain that the growth on the page is its own."""
    bypassed: bool = False
    """More requests finished in the engine than here."""


@dataclass(slots=True)
class LoneRequests:
    """Compares each reading with the one before."""

    has_phases: bool = True
    """The page states prefill and decode; else queue and whole time alone, once for each model that a request passed."""
    _before: PageReading | None = None
    _ended: list[Ending] = field(default_factory=list)
    _unsafe_until: float = float("-inf")

    @property
    def idle(self) -> bool:
        """There is a reading to compare the next one with, and no request has ended since."""
        return self._before is not None and not self._ended

    def end(self, ending: Ending) -> None:
        if len(self._ended) < MAX_ENDED:
            self._ended.append(ending)

    def unknown(self) -> None:
        """The page could not be read: the next reading has no earlier one to compare with."""
        self._before = None
        self._ended = []

    def read(self, reading: PageReading) -> Judgement:
        before, ended = self._before, self._ended
        # Who ended while the page was made may stand on it or not: these two readings decide nothing, and the next begins with it.
        late = [ending for ending in ended if ending.at > reading.asked_at - SETTLE_SECONDS]
        self._before, self._ended = reading, late
        if before is None:
            return Judgement()
        judgement = Judgement()
        grown = _grown(before.ranks, reading.ranks)
        waiting = [ending for ending in ended if ending.waits]
        if grown is None:
            judgement.refused = bool(waiting)
            return judgement
        steps = [each for each in grown if each[1]]
        counted = (sum if self.has_phases else max)((count for _, count in grown))
        if counted > len(ended) + reading.in_flight and len(ended) < MAX_ENDED:
            judgement.bypassed = True
            self._unsafe_until = reading.answered_at + UNSAFE_SECONDS
        if late or len(ended) != 1 or not waiting or counted != 1 or len(steps) != 1:
            judgement.refused = bool(waiting) and not late and counted > 0
            return judgement
        (ending,), ((sums, _),) = ended, steps
        alone = before.in_flight <= 1 and reading.in_flight == 0
        begun_after = ending.marks.accepted_at >= before.answered_at
        safe = ending.at > before.answered_at > self._unsafe_until and (alone or begun_after)
        report = None
        if safe and sums is not None:
            quiet = begun_after and before.in_flight == reading.in_flight == 0
            report = _report_of(ending, sums) if self.has_phases else _queue_of(ending, sums, reading, quiet=quiet)
        if report is None:
            judgement.refused = True
        else:
            judgement.report = KeyedReport(ending.keys, report)
        return judgement


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _grown(
    before: Mapping[bytes, Sums], now: Mapping[bytes, Sums]
) -> list[tuple[Mapping[Histogram, float] | None, float]] | None:
    """Growth of each rank: of its sums (None if it is not that of one request) and of finished requests; None after a restart."""
    if before.keys() != now.keys():
        return None
    grown: list[tuple[Mapping[Histogram, float] | None, float]] = []
    for labels, ranks in now.items():
        each = {
            name: (ranks[name][0] - total, ranks[name][1] - count) for name, (total, count) in before[labels].items()
        }
        counts = {count for _, count in each.values()}
        if min(counts) < 0:
            return None
        # One page is not made in one instant: a request may stand in one histogram and not yet in the next.
        one = counts == {1.0} and all(total >= 0 for total, _ in each.values())
        grown.append(({name: total for name, (total, _) in each.items()} if one else None, max(counts)))
    return grown


def _report_of(ending: Ending, sums: Mapping[Histogram, float]) -> EngineReport | None:
    """The report in the growth of one request's phases; None if they are another's."""
    if not _fits(ending, sums):
        return None
    return EngineReport(sums[Histogram.QUEUE], sums[Histogram.PREFILL], sums[Histogram.DECODE])


def _queue_of(
    ending: Ending, sums: Mapping[Histogram, float], reading: PageReading, *, quiet: bool
) -> EngineReport | None:
    """The report in the growth of queue and whole time; None if they may be another's. `quiet`: there was no other request."""
    marks, queue, whole = ending.marks, sums[Histogram.QUEUE], sums[Histogram.WHOLE]
    if marks.received_at is None or marks.ended_at is None or queue > whole + CLOCK_TOLERANCE_SECONDS:
        return None
    here = marks.ended_at - marks.received_at
    if whole > here + CLOCK_TOLERANCE_SECONDS:
        return None
    if here - whole > max(CLOCK_TOLERANCE_SECONDS, WHOLE_TIME_RATIO * here):
        return EngineReport(queue) if quiet else None
    # Nothing tells whether an engine inside waits or computes in its part of the time.
    return EngineReport(queue, front_end_seconds=None if reading.shows_inside else max(0.0, here - whole))


def _fits(ending: Ending, sums: Mapping[Histogram, float]) -> bool:
    """Whether the engine's sums fit this request as it was measured here."""
    marks = ending.marks
    if marks.received_at is None or marks.ended_at is None:
        return False
    whole, usage = sums[Histogram.WHOLE], marks.usage
    if usage is not None and usage.prompt_tokens is not None and round(sums[Histogram.PROMPT]) != usage.prompt_tokens:
        return False
    if whole > marks.ended_at - marks.received_at + CLOCK_TOLERANCE_SECONDS:
        return False
    least = 0.0
    if marks.first_token_at is not None and marks.last_token_at is not None:
        least = marks.last_token_at - marks.first_token_at - marks.paused_seconds
    phases = sums[Histogram.QUEUE] + sums[Histogram.PREFILL] + sums[Histogram.DECODE]
    return whole >= least - CLOCK_TOLERANCE_SECONDS and phases <= whole + CLOCK_TOLERANCE_SECONDS
