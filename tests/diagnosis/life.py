"""One process with counters that grow as a scenario demands, minute by minute, and the history that the diagnosis reads."""

from collections.abc import Mapping
from typing import Any

from sidecar.diagnosis.live import LiveDiagnosis
from sidecar.diagnosis.measured import EngineDown, Measured
from sidecar.history.ring import History
from sidecar.history.slices import run_now
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics


STEP_SECONDS = 15.0
MODEL, LANE, BUCKET = "llama", "chat", "0-512"


class Life:
    """One process with counters that grow as a scenario demands, minute by minute."""

    def __init__(self) -> None:
        self.metrics = Metrics(lanes=["chat", "batch"], prompt_buckets=["0-512"], models=["llama"])
        self.at = 1000.0
        self.history = History(self.metrics, at=self.at)
        self.diagnosis = LiveDiagnosis(self.history)
        for objective, seconds in (("ttft", 1.0), ("tpot", 0.08)):
            self.metrics.gauge(c.SLO_THRESHOLD_SECONDS).child(LANE, BUCKET, objective).set(seconds)

    def minutes(self, minutes: float, **told: Any) -> None:
        for _ in range(round(minutes * 60 / STEP_SECONDS)):
            self.at += STEP_SECONDS
            self._pass(STEP_SECONDS, **told)
            self.diagnosis.learn(run_now(self.history.tick(self.at)))

    def _pass(
        self,
        seconds: float,
        *,
        rate: float = 4.0,
        missing: float = 0.0,
        queue: float = 0.1,
        prefill: float = 0.1,
        tokens: float = 300.0,
        cached: float = 100.0,
        root: str = "queue",
        cause: str = "load",
        certain: float = 1.0,
        parts: Mapping[tuple[str, str], float] | None = None,
    ) -> None:
        """`missing`: share of the requests that miss; all wait in queue. `certain`: share of these with this root and cause. `parts`: phase and
        part to the seconds that the engine states of each request, the rest among them.

        The other misses have no root, as evidence is unclear.
        """
        m, who = self.metrics, (MODEL, LANE)
        requests = round(rate * seconds)
        missed = requests * missing
        objective = (MODEL, LANE, BUCKET, "ttft")
        m.counter(c.SLO_REQUESTS_TOTAL).child(*objective).inc(requests)
        m.counter(c.SLO_ALLOWED_MISSES_TOTAL).child(*objective).inc(0.05 * requests)
        m.counter(c.SLO_MISSES_TOTAL).child(*objective).inc(missed)
        m.counter(c.SLO_BLAMED_MISSES_TOTAL).child(*who, "ttft", "queue").inc(missed)
        for phase, of, share in ((root, cause, certain), ("unattributed", "unclear", 1.0 - certain)):
            m.counter(c.SLO_ROOT_MISSES_TOTAL).child(*who, "ttft", phase).inc(missed * share)
            m.counter(c.SLO_ROOT_CAUSE_MISSES_TOTAL).child(MODEL, phase, of).inc(missed * share)
        m.counter(c.REQUESTS_RECEIVED_TOTAL).child(*who).inc(requests)
        m.counter(c.UNCACHED_PROMPT_TOKENS_TOTAL).child(*who).inc(requests * (tokens - cached))
        m.counter(c.CACHED_PROMPT_TOKENS_TOTAL).child(*who).inc(requests * cached)
        for _ in range(requests):
            m.histogram(c.TIME_TO_FIRST_TOKEN_SECONDS).child(*who, BUCKET).observe(queue + prefill)
            m.histogram(c.REQUEST_SECONDS).child(*who, BUCKET, "true").observe(queue + prefill + 1.0)
            m.histogram(c.PROMPT_TOKENS).child(*who).observe(tokens)
            m.histogram(c.OUTPUT_TOKENS).child(*who).observe(50)
            for phase, spent in (("queue", queue), ("prefill", prefill), ("decode", 1.0)):
                m.histogram(c.REQUEST_PHASE_SECONDS).child(*who, BUCKET, "true", phase, "engine").observe(spent)
            for part, spent in (parts or {}).items():
                m.histogram(c.REQUEST_PHASE_PART_SECONDS).child(*who, *part).observe(spent)
            m.histogram(c.INTER_TOKEN_SECONDS).child(*who).observe(0.02)

    def lanes(self) -> list[Measured]:
        return run_now(self.diagnosis.lanes(run_now(self.history.now(self.at))))

    def engine_down(self) -> EngineDown | None:
        return self.diagnosis.engine_down(run_now(self.history.now(self.at)))

    def now(self) -> Measured:
        (lane,) = self.lanes()
        return lane
