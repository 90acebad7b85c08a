"""The diagnosis of one running process from its own history: numbers and verdicts of every lane that had traffic.

Pure: snapshots are passed in. Like the recording rules it keeps the baseline of the evidence, frozen while objectives are
missed, and the verdict of a moment ago. It also keeps the instant at which the engine went down, and whether it was ever up.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise

from sidecar.diagnosis import engine_evidence as evidence
from sidecar.diagnosis import facts
from sidecar.diagnosis.engine_evidence import Baseline
from sidecar.diagnosis.judging import MISSES_BEYOND_CHANCE
from sidecar.diagnosis.measured import COMING_UP_SECONDS, EngineDown, Measured
from sidecar.diagnosis.verdict import FEWEST_MISSES, LaneObjective, Verdict, decide
from sidecar.history.growth import Windows
from sidecar.history.ring import MINUTE_SECONDS, History
from sidecar.history.series import LONG_SECONDS, SHOWN_SECONDS
from sidecar.history.slices import Sliced
from sidecar.history.snapshot import Snapshot
from sidecar.metrics import slo_metrics as slo
from sidecar.metrics.catalogue import ENGINE_UP
from sidecar.slo.objective import Objective


VERDICTS_PER_SLICE = 10
"""Verdicts that are decided without a break: well under 2 ms."""


class LiveDiagnosis:
    def __init__(self, history: History) -> None:
        self._history = history
        self._baselines: dict[str, Baseline] = {}
        self._verdicts: dict[LaneObjective, Verdict] = {}
        self._down_at: float | None = None
        """Instant of the first snapshot with an engine that is down now."""
        self._was_up = False
        """Whether the engine passed a health check since this process began."""

    def learn(self, now: Snapshot) -> Sliced[None]:
        """Update the baselines and keep the verdicts for the next ones. Call it with every tick of the history."""
        if _is_down(now):
            self._down_at = now.at if self._down_at is None else self._down_at
        else:
            self._down_at = None
        self._was_up = self._was_up or now.gauges[ENGINE_UP.name].get(()) == 1
        windows = yield from self._history.windows(now)
        for model in self._history.metrics.models.shown():
            yield
            baseline = self._baselines.setdefault(model, Baseline())
            disturbed = evidence.disturbed(windows, model)
            baseline.learn(now.at, evidence.now(windows, model), disturbed=disturbed)
        self._verdicts = yield from self._decided(windows, (yield from self._compared(windows)))

    def engine_down(self, now: Snapshot) -> EngineDown | None:
        """The engine, if it fails its health checks as of this snapshot."""
        if not _is_down(now):
            return None
        return EngineDown(
            seconds=None if self._down_at is None else now.at - self._down_at,
            coming_up=not self._was_up and now.at - self._history.began_at < COMING_UP_SECONDS,
        )

    def lanes(self, now: Snapshot, *, engine: str | None = None, hints: tuple[str, ...] = ()) -> Sliced[list[Measured]]:
        """Numbers and verdicts of every lane that had traffic or missed. `engine`: its kind; `hints`: see `Measured`."""
        windows = yield from self._history.windows(now)
        compared = yield from self._compared(windows)
        verdicts = yield from self._decided(windows, compared)
        missed_until = yield from self._missed_until(windows, now)
        found = []
        for who in facts.lanes(windows):
            yield
            baseline = self._baselines.get(who.model, Baseline())
            known = Measured(
                source="sidecar",
                ratios=compared.get(who.model, facts.Comparison()).ratios,
                baseline=bool(baseline.usual.model),
                baseline_is_young=baseline.is_young,
                engine=engine,
                hints=hints,
            )
            found.append(facts.measured(windows, who, verdicts, known, missed_until=missed_until))
        return found

    def _decided(
        self, windows: Windows, compared: Mapping[str, facts.Comparison]
    ) -> Sliced[dict[LaneObjective, Verdict]]:
        # The source is one pod, so the share of the misses on a pod with a full KV cache is 0 or 1.
        faulty, kv_full = facts.faults(windows), float(facts.kv_full(windows))
        found: dict[LaneObjective, Verdict] = {}
        for number, who in enumerate(facts.missed(windows), 1):
            if number % VERDICTS_PER_SLICE == 0:
                yield
            case = facts.case(
                windows,
                who,
                compared.get(who.model, facts.Comparison()),
                faulty,
                kv_full=kv_full if who.objective is not Objective.TPOT else 0.0,
                kv_full_pods=kv_full,
            )
            before = self._verdicts.get(who)
            verdict = decide(case, None if before is None else before.phase)
            if verdict is not None:
                found[who] = verdict
        return found

    def _compared(self, windows: Windows) -> Sliced[dict[str, facts.Comparison]]:
        found = {}
        for model, baseline in list(self._baselines.items()):
            yield
            found[model] = evidence.compared(windows, model, evidence.now(windows, model), baseline.usual)
        return found

    def _missed_until(self, windows: Windows, now: Snapshot) -> Sliced[dict[LaneObjective, float]]:
        """Seconds since the last minute with too many misses, of objectives that were missed and are met now."""
        minutes = range(1, round(LONG_SECONDS / MINUTE_SECONDS) + 1)
        marks = [now, *(self._history.before(now, MINUTE_SECONDS * minute) for minute in minutes)]
        found = {}
        for who in facts.missed(windows):
            yield
            shown, long = (_burn(windows.growth[window].counted, who) for window in (SHOWN_SECONDS, LONG_SECONDS))
            misses = windows.growth[LONG_SECONDS].counted(slo.SLO_MISSES_TOTAL, *who) or 0.0
            if shown < 1.0 <= long and misses >= FEWEST_MISSES:
                ended_at = next((newer.at for newer, older in pairwise(marks) if _burned(newer, older, who)), None)
                if ended_at is not None:
                    found[who] = now.at - ended_at
        return found


def _is_down(now: Snapshot) -> bool:
    return now.gauges[ENGINE_UP.name].get(()) == 0


def _burn(counted: Callable[..., float | None], who: LaneObjective) -> float:
    missed, allowed = counted(slo.SLO_MISSES_TOTAL, *who), counted(slo.SLO_ALLOWED_MISSES_TOTAL, *who)
    return facts.over(missed, allowed) or 0.0


def _burned(newer: Snapshot, older: Snapshot, who: LaneObjective) -> bool:
    """Whether more requests missed between the two snapshots than the target allows, and more than by chance."""
    missed, allowed = (
        newer.counters[name].get(who, 0.0) - older.counters[name].get(who, 0.0)
        for name in (slo.SLO_MISSES_TOTAL.name, slo.SLO_ALLOWED_MISSES_TOTAL.name)
    )
    return 0.0 < allowed <= missed and missed >= MISSES_BEYOND_CHANCE
