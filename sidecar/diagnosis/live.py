"""The diagnosis of one running process, from its own history: what every lane that had traffic has lost, and where.

Pure: snapshots come in. It remembers what recording rules keep as well: the evidence's baseline, frozen while objectives are
missed, and the verdict of a moment ago.
"""

from collections.abc import Mapping

from sidecar.diagnosis import engine_evidence as evidence
from sidecar.diagnosis import facts
from sidecar.diagnosis.engine_evidence import Baseline
from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.verdict import LaneObjective, Verdict, decide
from sidecar.history.growth import Windows
from sidecar.history.ring import History
from sidecar.history.slices import Sliced
from sidecar.history.snapshot import Snapshot
from sidecar.slo.objective import Objective


VERDICTS_PER_SLICE = 10


class LiveDiagnosis:
    def __init__(self, history: History) -> None:
        self._history = history
        self._baselines: dict[str, Baseline] = {}
        self._verdicts: dict[LaneObjective, Verdict] = {}

    def learn(self, now: Snapshot) -> Sliced[None]:
        """Call it with every tick of the history: what is usual is learned, and the next verdict knows this one."""
        windows = yield from self._history.windows(now)
        for model in self._history.metrics.models.shown():
            yield
            baseline = self._baselines.setdefault(model, Baseline())
            disturbed = evidence.disturbed(windows, model)
            baseline.learn(now.at, evidence.now(windows, model), disturbed=disturbed)
        self._verdicts = yield from self._decided(windows, (yield from self._compared(windows)))

    def lanes(self, now: Snapshot, *, engine: str | None = None, hints: tuple[str, ...] = ()) -> Sliced[list[Measured]]:
        """Numbers and verdicts of every lane that had traffic or missed. `engine`: its kind; `hints`: see `Measured`."""
        windows = yield from self._history.windows(now)
        compared = yield from self._compared(windows)
        verdicts = yield from self._decided(windows, compared)
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
            found.append(facts.measured(windows, who, verdicts, known))
        return found

    def _decided(
        self, windows: Windows, compared: Mapping[str, facts.Comparison]
    ) -> Sliced[dict[LaneObjective, Verdict]]:
        # On this pod stand all of its misses.
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
