"""What vLLM's own /metrics page says about the engine as a whole: who waits, who runs, how full it is. Pure; bytes in, state out.

It knows seven names (vLLM 0.33, `v1/metrics/loggers.py`) and looks for nothing else: a page is scanned in steps, line by
line, without building the thousands of samples that nobody asked for. It refuses to guess: a number that cannot be read
leaves its whole name unstated (a sum that lacks a rank would be wrong), and a page that breaks off is not believed at
all. Nothing here raises, whatever the bytes. Counters are told as their growth since the first reading: what the engine
had counted before this process began is its history and not ours.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field


STEP_BYTES = 16_384
"""Fed at most so much at a time, a step takes under 1 ms even where every line of it is one that is looked for."""
MAX_LINE_BYTES = 16_384
"""A longer line is passed over: those that are looked for have some 100 bytes, and a model's name is all that varies."""
MAX_SAMPLES = 4096
"""Seven names times several hundred ranks; a page with more of them is not vLLM's."""
RESTART_SECONDS = 1.0
"""By how much a start time must differ to be another process: it is computed from the machine's boot time and rounded."""

WAITING = "vllm:num_requests_waiting"
RUNNING = "vllm:num_requests_running"
KV_CACHE_USAGE = "vllm:kv_cache_usage_perc"
PREFIX_CACHE_QUERIES = "vllm:prefix_cache_queries_total"
PREFIX_CACHE_HITS = "vllm:prefix_cache_hits_total"
PREEMPTIONS = "vllm:num_preemptions_total"
STARTED = "process_start_time_seconds"
COUNTERS = (PREFIX_CACHE_QUERIES, PREFIX_CACHE_HITS, PREEMPTIONS)
NAMES = (WAITING, RUNNING, KV_CACHE_USAGE, *COUNTERS, STARTED)

_NEEDLES = tuple((name, b"\n" + name.encode()) for name in NAMES)
# What follows a name. It may be the beginning of another's (num_requests_waiting_by_reason): then labels or a blank do
# not follow. Possessive quantifiers, so that no line can make the search go back and forth.
_SAMPLE = re.compile(rb'(?=[{ \t])(\{(?:[^"}\n]|"(?:[^"\\\n]|\\.)*+")*+\})?+[ \t]*+([^ \t\r\n]*+)')
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 64

Series = Mapping[bytes, float]
"""The label text of each rank's series to its value."""


@dataclass(frozen=True, slots=True)
class EngineState:
    """One reading of the page; None, or an empty mapping, where it does not say."""

    requests_waiting: float | None = None
    """In the scheduler's queue, summed over ranks (label `engine`)."""
    requests_running: float | None = None
    """In the running batch, summed over ranks."""
    kv_cache_usage_ratio: float | None = None
    """0 to 1, of the fullest rank: that one preempts first."""
    counters: Mapping[str, Series] = field(default_factory=dict)
    """Name (one of COUNTERS) to the engine's own counts since its start, by series."""
    started_at_unix: float | None = None
    """When the engine's process began, by its own clock; only ever compared with itself. Absent with several API servers."""


class PageScan:
    """Reads one page, piece by piece. `feed` in pieces of at most `STEP_BYTES`, with a turn of the loop in between."""

    __slots__ = ("_found", "_rest", "_samples", "_skipping", "_spoiled")

    def __init__(self) -> None:
        self._found: dict[str, dict[bytes, float]] = {name: {} for name in NAMES}
        self._spoiled: set[str] = set()
        self._samples = 0
        self._rest = b""
        self._skipping = False

    def feed(self, data: bytes) -> None:
        """The next bytes of the page, cut anywhere."""
        if self._samples > MAX_SAMPLES:
            return
        if self._skipping:
            _, newline, data = data.partition(b"\n")
            if not newline:
                return
            self._skipping = False
        lines, newline, rest = data.rpartition(b"\n")
        if newline:
            self._read(self._rest + lines)
            self._rest = rest
        else:
            self._rest += rest
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest, self._skipping = b"", True

    def finish(self) -> EngineState | None:
        """What the page said; None where it broke off, or is no page of a vLLM."""
        # Every line of the format ends in LF, the last one too: whatever is left was cut, perhaps within its number.
        if self._rest or self._skipping or self._samples > MAX_SAMPLES:
            return None
        waiting, running, usage = (self._values(name) for name in (WAITING, RUNNING, KV_CACHE_USAGE))
        counters = {name: self._found[name] for name in COUNTERS if name not in self._spoiled and self._found[name]}
        if not (waiting or running or usage or counters):
            return None
        fullest = max(usage, default=None)
        started = self._values(STARTED)
        return EngineState(
            requests_waiting=math.fsum(waiting) if waiting else None,
            requests_running=math.fsum(running) if running else None,
            kv_cache_usage_ratio=fullest if fullest is not None and fullest <= 1.0 else None,
            counters=counters,
            started_at_unix=started[0] if len(started) == 1 else None,
        )

    def _read(self, lines: bytes) -> None:
        lines = b"\n" + lines
        for name, needle in _NEEDLES:
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
        if value is None:
            self._spoiled.add(name)
        else:
            self._found[name][labels] = value

    def _values(self, name: str) -> list[float]:
        return [] if name in self._spoiled else list(self._found[name].values())


def _number(text: bytes) -> float | None:
    """A finite number that is not negative; everything that is looked for is one."""
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) and value >= 0 else None


@dataclass(frozen=True, slots=True)
class Growth:
    """What happened between two readings. Nothing here is ever negative."""

    counters: Mapping[str, float] = field(default_factory=dict)
    """Growth of each counter that both readings state; 0 at the first reading that states it."""
    restarted: bool = False
    """The engine is another process than before, or one of its ranks began anew."""


class GrowthReader:
    """Turns an engine's own counts into growth since this process began.

    After a restart the whole new count is growth; what the old process counted after its last reading is lost, and not
    made up. A series that joins later (another rank) begins at what it says.
    """

    __slots__ = ("_last", "_started_at_unix")

    def __init__(self) -> None:
        self._last: dict[str, dict[bytes, float]] = {}
        self._started_at_unix: float | None = None

    def read(self, state: EngineState) -> Growth:
        """The growth since the reading before this one."""
        restarted = another = self._is_another(state)
        if another:
            # Also for names that this page does not state: the new process counted them from 0.
            self._last = {name: dict.fromkeys(series, 0.0) for name, series in self._last.items()}
        growth: dict[str, float] = {}
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
