"""All that the histories know of the inside: a pod in memory, and what comes to it beside requests. When a wall moves, this file follows."""

from typing import Any, BinaryIO

from sidecar.config.schema import Config, LogConfig
from sidecar.diagnosis.document import one
from sidecar.diagnosis.live import LiveDiagnosis
from sidecar.diagnosis.tree import diagnose
from sidecar.engines.engine import Engine
from sidecar.engines.span import Span
from sidecar.history.ring import History
from sidecar.history.slices import run_now
from sidecar.ledger.report import EngineReport, KeyedReport, response_key
from sidecar.logs.setup import Logs
from sidecar.objectives.objective import Aim, Aims, Objectives
from tests.support.configs import section_of
from tests.support.memory import limits_with
from tests.support.slo_walk import BUCKETS
from tests.support.walk import Walk


def _objectives(promises: dict[str, tuple[float, float]]) -> Objectives:
    aims = Aims(**{objective: Aim(*promise) for objective, promise in promises.items()})  # type: ignore[arg-type]
    return Objectives({lane: dict.fromkeys(BUCKETS, aims) for lane in ("interactive", "voice")})


class Inside(Walk):
    def __init__(self, text: BinaryIO, promises: dict[str, tuple[float, float]], **limits: int) -> None:
        roomy, engine = limits_with(**limits), Engine("vllm", ["tiny"])
        super().__init__(engine=engine, mints=True, objectives=_objectives(promises), estimate=True, limits=roomy)
        self.logs = Logs(LogConfig(level="debug", format="json"), text, self.clock)
        self.settlement.log = self.logs.request
        self.history = History(self.metrics, at=self.clock.now)
        self.live = LiveDiagnosis(self.history)

    def tick(self) -> None:
        while self.settlement.expire(self.clock.now):
            pass

    def diagnosed(self, *, told: bool) -> list[dict[str, Any]]:
        self.live.learn(now := run_now(self.history.tick(self.clock.now)))
        return [one(diagnose(each)) for each in run_now(self.live.lanes(now, engine="vllm"))] if told else []

    def reported(self, response_id: str, queue: float | None, prefill: float | None, decode: float | None) -> None:
        self.settlement.reported(KeyedReport((response_key(response_id),), EngineReport(queue, prefill, decode)))

    def spans_awaited(self) -> list[tuple[str, str]]:  # trace and parent
        return [(each.trace_id, each.span_id) for each in self.settlement.minted.values()]

    def span(self, trace: str, parent: str, told: dict[str, float]) -> None:
        self.settlement.span(Span(trace, "00000000000000bb", parent, "llm_request", 10**18, 10**18 + 10**9, told))

    def reloaded(self, said: dict[str, Any], promises: dict[str, tuple[float, float]]) -> None:
        self.instruments.recorder.admit_lanes((config := section_of(Config, said)).lanes.declared)
        self.slo.replace(_objectives(promises))
        self.observers.apply(config)

    def engine_restarted(self) -> None:
        self.slo.engine_restarted()
        self.instruments.estimates.forget()  # type: ignore[union-attr]  # it estimates
