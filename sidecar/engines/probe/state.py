"""The engine's state, read from its own page of metrics: waiting and running requests, KV cache. Pure; bytes in, state out.

It reads a dozen names (`state_names.py` has each engine's): the page is scanned in steps, line by line, without objects for
the thousands of samples that are not needed. It refuses to guess: if one number of a name cannot be read, the whole name is
unknown (a sum without a rank would be wrong), and a page that breaks off is not used. Nothing here raises, whatever the
bytes. Counters become growth since the first reading, because the engine's counts before that belong to the time before
this process.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.engines.probe.page_lines import WholeLines
from sidecar.engines.probe.state_names import Count, Name, StateNames


STEP_BYTES = 16_384
"""Bytes per step: it takes under 1 ms even if every line is needed."""
MAX_SAMPLES = 2048
"""A dozen names times a hundred ranks; no engine's page has more."""
RESTART_SECONDS = 1.0
"""Seconds by which the start time of another process differs: it is computed from the boot time and rounded."""

STARTED = "process_start_time_seconds"

# What follows a name. It may be the beginning of another's (num_requests_waiting_by_reason): then labels or a blank do
# not follow. Possessive quantifiers, so that no line can make the search go back and forth.
_SAMPLE = re.compile(rb'(?=[{ \t])(\{(?:[^"}\n]|"(?:[^"\\\n]|\\.)*+")*+\})?+[ \t]*+([^ \t\r\n]*+)')
_FIRST_LINE = re.compile(rb"\s*+(?:#|[a-zA-Z_:][a-zA-Z0-9_:]*+(?:\{|[ \t]++[-+.0-9IN]))")
"""A comment or a sample."""
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 64

Series = Mapping[bytes, float]
"""The label text of each rank's series to its value."""


@dataclass(frozen=True, slots=True)
class EngineState:
    """One reading of the page; None, or an empty mapping, for values that it does not state."""

    requests_waiting: float | None = None
    """In the scheduler's queue, summed over ranks with queues of their own."""
    requests_running: float | None = None
    """In the running batch, summed over ranks with batches of their own."""
    kv_cache_usage_ratio: float | None = None
    """0 to 1, of the fullest rank: that one preempts first."""
    counters: Mapping[Count, Series] = field(default_factory=dict)
    """The engine's own counts since its start, by series."""
    started_at_unix: float | None = None
    """When the engine's process began, by its own clock; only ever compared with itself. Absent with several API servers."""
    requests_before_workers: float | None = None
    """In front of workers with queues of their own (`worker_pages.py`)."""
    asleep: bool = False
    """It says that it sleeps."""


class PageScan:
    """Reads one page, piece by piece. `feed` in pieces of at most `STEP_BYTES`, with a turn of the loop in between."""

    def __init__(self, names: StateNames) -> None:
        self._names = names
        ranks = b"|".join(label.encode() for label in names.same_ranks)
        self._rank = re.compile(rb'(?<=[{,])(?:%b)="[^"]*",?' % ranks) if ranks else None
        looked_for = (*names.names(), STARTED)
        self._needles = tuple((name, b"\n" + name.encode()) for name in looked_for)
        self._found: dict[str, dict[bytes, float]] = {name: {} for name in looked_for}
        self._spoiled: set[str] = set()
        self._samples = 0
        self._is_page: bool | None = None
        self._lines = WholeLines()

    def feed(self, data: bytes) -> None:
        """The next bytes of the page, cut anywhere."""
        if self._samples > MAX_SAMPLES:
            return
        if lines := self._lines.feed(data):
            if self._is_page is None:
                self._is_page = _FIRST_LINE.match(lines) is not None
            self._read(lines)

    @property
    def is_whole(self) -> bool:
        """Whether this is a page of metrics, from its first line to its last. It may be empty: an engine may have nothing to state yet."""
        # A page that ends within a line broke off, perhaps within a number.
        return self._is_page is not False and not self._lines.cut and self._samples <= MAX_SAMPLES

    def finish(self) -> EngineState | None:
        """The state on the page; None where it broke off, or has none of the names of this engine."""
        if not self.is_whole:
            return None
        names = self._names
        waiting, running = self._total(names.waiting), self._total(names.running)
        fullest = max(self._series(names.kv_cache_usage).values(), default=None)
        before_workers = self._total(names.before_workers)
        counters = {count: series for count, each in names.counts.items() if (series := self._joined(each))}
        if not counters and all(each is None for each in (waiting, before_workers, running, fullest)):
            return None
        started = self._series(Name(STARTED))
        return EngineState(
            requests_waiting=waiting,
            requests_before_workers=before_workers,
            requests_running=running,
            kv_cache_usage_ratio=fullest if fullest is not None and fullest <= 1.0 else None,
            counters=counters,
            started_at_unix=next(iter(started.values())) if len(started) == 1 else None,
            asleep=self._total(names.awake) == 0.0,
        )

    def _read(self, lines: bytes) -> None:
        lines = b"\n" + lines
        for name, needle in self._needles:
            at = lines.find(needle)
            while at >= 0:
                at += len(needle)
                found = _SAMPLE.match(lines, at)
                if found is not None:
                    self._samples += 1
                    if self._samples > MAX_SAMPLES:
                        return
                    self._sample(name, found[1] or b"", found[2])
                at = lines.find(needle, at)

    def _sample(self, name: str, labels: bytes, text: bytes) -> None:
        value = _number(text)
        found = self._found[name]
        if value is None:
            self._spoiled.add(name)
        elif self._rank is None:
            found[labels] = value
        else:
            once = self._rank.sub(b"", labels)
            found[once] = max(value, found.get(once, value))

    def _series(self, name: Name | None) -> Series:
        """The series of one name that count, each once; none if one of them could not be read."""
        if name is None or name.name in self._spoiled:
            return {}
        series = {labels: value for labels, value in self._found[name.name].items() if name.counts(labels)}
        if self._names.breakdown:
            part, whole = (self._names.breakdown.encode() + quotes for quotes in (b'="', b'=""'))
            series = {
                labels: value for labels, value in series.items() if part not in labels or whole in labels
            } or series
        return series

    def _total(self, name: Name | None) -> float | None:
        series = self._series(name)
        return math.fsum(series.values()) if series else None

    def _joined(self, names: tuple[Name, ...]) -> Series:
        """All series of several names; none if a name is missing, because a partial sum would be wrong."""
        each = [self._series(name) for name in names]
        if len(each) == 1:
            return each[0]
        if not all(each):
            return {}
        return {
            name.name.encode() + labels: value
            for name, series in zip(names, each, strict=True)
            for labels, value in series.items()
        }


def _number(text: bytes) -> float | None:
    """A finite number that is not negative, as all needed values are."""
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) and value >= 0 else None


@dataclass(frozen=True, slots=True)
class Growth:
    """The changes between two readings. Nothing here is ever negative."""

    counters: Mapping[Count, float] = field(default_factory=dict)
    """Growth of each counter that both readings state; 0 at the first reading that states it."""
    restarted: bool = False
    """The engine is another process than before, or one of its ranks restarted."""


class GrowthReader:
    """Turns an engine's own counts into growth since this process began.

    After a restart the whole new count is growth; what the old process counted after its last reading is lost, and not
    made up. A series that joins later (another rank) begins at what it says.
    """

    def __init__(self) -> None:
        self._last: dict[Count, dict[bytes, float]] = {}
        self._started_at_unix: float | None = None

    def read(self, state: EngineState) -> Growth:
        """The growth since the reading before this one."""
        restarted = another = self._is_another(state)
        if another:
            # Also for names that this page does not state: the new process counted them from 0.
            self._last = {name: dict.fromkeys(series, 0.0) for name, series in self._last.items()}
        growth: dict[Count, float] = {}
        for name, series in state.counters.items():
            before = self._last.get(name, series)
            grown = 0.0
            for labels, value in series.items():
                base = before.get(labels, 0.0 if another else value)
                if value < base:
                    restarted = True
                    base = 0.0
                grown += value - base
            growth[name] = grown
            self._last[name] = dict(series)
        return Growth(growth, restarted)

    def _is_another(self, state: EngineState) -> bool:
        before, now = self._started_at_unix, state.started_at_unix
        if now is not None:
            self._started_at_unix = now
        return before is not None and now is not None and abs(now - before) > RESTART_SECONDS
