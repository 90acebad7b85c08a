"""The diagnosis of one running process from its own history: numbers and verdicts of every lane that had traffic.

Pure: snapshots are passed in. It keeps the instant at which the engine went down, and whether it was ever up. It decides no
root: the counters in the history hold those that were decided for each miss.
"""

from collections.abc import Callable
from itertools import pairwise, takewhile

from sidecar.diagnosis import facts
from sidecar.diagnosis.judging import MISSES_BEYOND_CHANCE
from sidecar.diagnosis.measured import COMING_UP_SECONDS, EngineDown, Measured
from sidecar.diagnosis.verdict import MANY_MISSES, LaneObjective
from sidecar.history.growth import Windows
from sidecar.history.ring import MINUTE_SECONDS, History
from sidecar.history.series import LONG_SECONDS, SHOWN_SECONDS
from sidecar.history.slices import Sliced
from sidecar.history.snapshot import Snapshot
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import ENGINE_STALLED, ENGINE_UP


class LiveDiagnosis:
    def __init__(self, history: History) -> None:
        self._history = history
        self._down_at: float | None = None
        """Instant of the first snapshot with an engine that is down now."""
        self._was_up = False
        """Whether the engine passed a health check since this process began."""

    def learn(self, now: Snapshot) -> None:
        """Note whether the engine is up. Call it with every tick of the history."""
        if _is_down(now):
            self._down_at = now.at if self._down_at is None else self._down_at
        else:
            self._down_at = None
        self._was_up = self._was_up or now.gauges[ENGINE_UP.name].get(()) == 1

    def engine_down(self, now: Snapshot, away: str | None = None) -> EngineDown | None:
        """The engine, if it fails its health checks or is stalled as of this snapshot. `away`: the failure of its last check in words."""
        if not _is_down(now):
            return None
        stalled = now.gauges[ENGINE_STALLED.name].get(()) == 1
        return EngineDown(
            seconds=None if self._down_at is None else now.at - self._down_at,
            coming_up=not self._was_up and now.at - self._history.began_at < COMING_UP_SECONDS,
            stalled=stalled,
            never_up=not self._was_up,
            why=None if stalled else away,
        )

    def lanes(self, now: Snapshot, *, engine: str | None = None, hints: tuple[str, ...] = ()) -> Sliced[list[Measured]]:
        """Numbers and verdicts of every lane that had traffic or missed. `engine`: its kind; `hints`: see `Measured`."""
        windows = yield from self._history.windows(now)
        missed_until = yield from self._missed_until(windows, now)
        found = []
        for who in facts.lanes(windows):
            yield
            known = Measured(source="sidecar", engine=engine, hints=hints)
            found.append(facts.measured(windows, who, known, missed_until))
        return found

    def _missed_until(self, windows: Windows, now: Snapshot) -> Sliced[dict[LaneObjective, float]]:
        """Seconds since the last minute with too many misses, of objectives that were missed and are met now."""
        minutes = range(1, round(LONG_SECONDS / MINUTE_SECONDS) + 1)
        marks = [now, *(self._history.before(now, MINUTE_SECONDS * minute) for minute in minutes)]
        found = {}
        for who in facts.missed(windows):
            yield
            shown, long = (_burn(windows.growth[window].counted, who) for window in (SHOWN_SECONDS, LONG_SECONDS))
            misses = windows.growth[LONG_SECONDS].counted(c.SLO_MISSES_TOTAL, *who) or 0.0
            if shown < 1.0 <= long and misses >= MANY_MISSES:
                ended_at = next((newer.at for newer, older in pairwise(marks) if _burned(newer, older, who)), None)
                if ended_at is not None:
                    found[who] = now.at - ended_at
        return found


def missed_since(history: History, now: Snapshot, who: LaneObjective) -> float | None:
    """Instant of the first snapshot with a miss of the minutes in a row, up to now, in which more were missed than is allowed.

    None if the last minute is none of these: too few misses, or none. For an objective whose misses open no incident.
    """
    minutes = range(1, round(LONG_SECONDS / MINUTE_SECONDS) + 1)
    found = [now, *(history.before(now, MINUTE_SECONDS * minute) for minute in minutes)]
    marks = [*{one.at: one for one in found}.values()]  # old snapshots are a little more than a minute apart
    row = [*takewhile(lambda pair: _burned(*pair, who), pairwise(marks))]
    if not row:
        return None
    newer, older = row[-1]
    missed = c.SLO_MISSES_TOTAL.name
    seen = older.counters[missed].get(who, 0.0)
    return next(one.at for one in history.between(older, newer) if one.counters[missed].get(who, 0.0) > seen)


def _is_down(now: Snapshot) -> bool:
    return now.gauges[ENGINE_UP.name].get(()) == 0


def _burn(counted: Callable[..., float | None], who: LaneObjective) -> float:
    missed, allowed = counted(c.SLO_MISSES_TOTAL, *who), counted(c.SLO_ALLOWED_MISSES_TOTAL, *who)
    return facts.over(missed, allowed) or 0.0


def _burned(newer: Snapshot, older: Snapshot, who: LaneObjective) -> bool:
    """Whether more requests missed between the two snapshots than the target allows, and more than by chance."""
    missed, allowed = (
        newer.counters[name].get(who, 0.0) - older.counters[name].get(who, 0.0)
        for name in (c.SLO_MISSES_TOTAL.name, c.SLO_ALLOWED_MISSES_TOTAL.name)
    )
    return 0.0 < allowed <= missed and missed >= MISSES_BEYOND_CHANCE
