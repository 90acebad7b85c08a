"""The last half hour of one process: what its counters say, and what they said before, become what is known of a lane."""

import pytest

from sidecar.diagnosis.findings import Confidence
from sidecar.diagnosis.measured import Measured, Regime
from sidecar.diagnosis.ring import DiagnosisRing
from sidecar.diagnosis.tree import diagnose
from sidecar.diagnosis.verdict import Cause, Evidence
from sidecar.metrics import catalogue as c
from sidecar.metrics import promises as p
from sidecar.metrics.registry import Metrics
from sidecar.objectives.blame import Blame
from sidecar.objectives.objective import Objective


STEP_SECONDS = 15.0
MODEL, LANE, BUCKET = "llama", "chat", "0-512"


class Life:
    """One process whose counters grow as a story tells it, minute by minute."""

    def __init__(self) -> None:
        self.metrics = Metrics(lanes=["chat", "batch"], prompt_buckets=["0-512"], models=["llama"])
        self.at = 1000.0
        self.ring = DiagnosisRing(self.metrics, at=self.at)
        for objective, seconds in (("ttft", 1.0), ("tpot", 0.08)):
            self.metrics.gauge(p.SLO_THRESHOLD_SECONDS).child(LANE, BUCKET, objective).set(seconds)

    def minutes(self, minutes: float, **told: float) -> None:
        for _ in range(round(minutes * 60 / STEP_SECONDS)):
            self.at += STEP_SECONDS
            self._pass(STEP_SECONDS, **told)
            self.ring.look(self.at)

    def _pass(
        self,
        seconds: float,
        *,
        rate: float = 4.0,
        missing: float = 0.0,
        queue: float = 0.1,
        prefill: float = 0.1,
        cost: float = 1.0,
        tokens: float = 300.0,
        cached: float = 100.0,
        votes_queue: float = 1.0,
    ) -> None:
        """`missing`: the share that misses; `votes_queue`: the share of those that blame the queue, the rest prefill."""
        m, who = self.metrics, (MODEL, LANE)
        requests = round(rate * seconds)
        missed = requests * missing
        objective = (MODEL, LANE, BUCKET, "ttft")
        m.counter(p.SLO_REQUESTS_TOTAL).child(*objective).inc(requests)
        m.counter(p.SLO_ALLOWED_MISSES_TOTAL).child(*objective).inc(0.05 * requests)
        m.counter(p.SLO_MISSES_TOTAL).child(*objective).inc(missed)
        m.counter(p.SLO_BLAMED_MISSES_TOTAL).child(*who, "ttft", "queue").inc(missed * votes_queue)
        m.counter(p.SLO_BLAMED_MISSES_TOTAL).child(*who, "ttft", "prefill").inc(missed * (1 - votes_queue))
        m.counter(p.REQUESTS_RECEIVED_TOTAL).child(*who).inc(requests)
        m.counter(p.RECEIVED_MEASURED_REQUESTS_TOTAL).child(*who).inc(requests)
        m.counter(p.RECEIVED_PROMPT_TOKENS_TOTAL).child(*who).inc(requests * tokens)
        m.counter(p.UNCACHED_PROMPT_TOKENS_TOTAL).child(*who).inc(requests * (tokens - cached))
        m.counter(c.CACHED_PROMPT_TOKENS_TOTAL).child(*who).inc(requests * cached)
        m.counter(p.PREFILL_EXPECTED_SECONDS_TOTAL).child(MODEL).inc(requests * prefill)
        m.counter(p.PREFILL_OWN_SECONDS_TOTAL).child(MODEL).inc(requests * prefill * cost)
        for _ in range(requests):
            m.histogram(c.TIME_TO_FIRST_TOKEN_SECONDS).child(*who, BUCKET).observe(queue + prefill)
            m.histogram(c.REQUEST_SECONDS).child(*who, BUCKET, "true").observe(queue + prefill + 1.0)
            m.histogram(c.PROMPT_TOKENS).child(*who).observe(tokens)
            m.histogram(c.OUTPUT_TOKENS).child(*who).observe(50)
            for phase, spent in (("queue", queue), ("prefill", prefill), ("decode", 1.0)):
                m.histogram(c.REQUEST_PHASE_SECONDS).child(*who, BUCKET, "true", phase, "engine").observe(spent)
            m.histogram(c.INTER_TOKEN_SECONDS).child(*who).observe(0.02)

    def now(self) -> Measured:
        (lane,) = self.ring.lanes(self.at)
        return lane


def test_a_quiet_lane_is_told_as_it_is() -> None:
    life = Life()
    life.minutes(8)

    found = life.now()

    assert (found.model, found.lane, found.window_seconds) == (MODEL, LANE, 300.0)
    assert found.load.arrivals_per_second == pytest.approx(4.0)
    assert (found.load.prompt_mean_tokens, found.load.output_mean_tokens) == (300.0, 50.0)
    assert found.load.cached == pytest.approx(1 / 3)
    assert {phase: time.mean_seconds for phase, time in found.phases.items()} == pytest.approx(
        {Blame.QUEUE: 0.1, Blame.PREFILL: 0.1, Blame.DECODE: 1.0}
    )
    assert (found.ttft.samples, found.ttft.threshold_seconds, found.ttft.misses) == (1200, 1.0, 0.0)
    assert found.inter_token.p99_seconds == pytest.approx(0.02, rel=0.3)
    assert (found.verdicts, found.regime, found.baseline) == ({}, None, True)
    assert found.ratios == pytest.approx(
        {Evidence.PREFILL: 1.0, Evidence.UNCACHED: 1.0, Evidence.LOAD: 1.0, Evidence.PROMPTS: 1.0, Evidence.DECODE: 1.0}
    )


def test_nobody_came_and_nothing_is_known() -> None:
    life = Life()
    life.minutes(8, rate=0)

    assert life.ring.lanes(life.at) == []


def test_a_burst_is_the_queues_with_load_as_its_cause_and_a_spike() -> None:
    life = Life()
    life.minutes(20)
    life.minutes(5, rate=8, missing=0.6, queue=2.0)

    found = diagnose(life.now())

    assert (found.phase, found.cause, found.regime) == (Blame.QUEUE, Cause.LOAD, Regime.SPIKE)
    assert found.measured.verdicts[Objective.TTFT].votes == pytest.approx(8 * 300 * 0.6)


def test_what_lasts_for_half_an_hour_is_steady() -> None:
    life = Life()
    life.minutes(40, missing=0.4, queue=2.0)

    assert diagnose(life.now()).regime is Regime.STEADY


def test_dearer_prefill_moves_what_waited_in_the_queue() -> None:
    life = Life()
    life.minutes(15)
    life.minutes(5, missing=0.5, queue=2.0, cost=2.0)

    found = diagnose(life.now())

    assert (found.phase, found.cause) == (Blame.PREFILL, Cause.PREFILL)
    assert found.measured.verdicts[Objective.TTFT].waited_in == {Blame.QUEUE: 1.0}
    assert found.measured.ratios[Evidence.PREFILL] == pytest.approx(2.0)


def test_a_lost_cache_is_prefills_too() -> None:
    life = Life()
    life.minutes(15, cached=250)
    life.minutes(5, missing=0.5, queue=2.0, cached=50)

    found = diagnose(life.now())

    assert (found.phase, found.cause) == (Blame.PREFILL, Cause.UNCACHED)
    assert found.measured.ratios[Evidence.UNCACHED] == pytest.approx(5.0)


def test_a_lanes_own_longer_prompts_are_its_prefill() -> None:
    life = Life()
    life.minutes(15, cached=0)
    life.minutes(5, missing=0.5, queue=2.0, tokens=900, cached=0)

    found = diagnose(life.now())

    assert (found.phase, found.cause) == (Blame.PREFILL, Cause.PROMPTS)


def test_a_baseline_of_two_minutes_decides_and_is_doubted() -> None:
    """A process that has just begun is not blind; who reads it is told how little it has seen."""
    life = Life()
    life.minutes(2)
    life.minutes(3, missing=0.5, queue=2.0, cost=2.0)

    found = diagnose(life.now())

    assert (found.phase, found.cause, found.confidence) == (Blame.PREFILL, Cause.PREFILL, Confidence.FAIR)
    assert "The baseline is made of less than three minutes of calm." in found.because


def test_the_baseline_stands_still_while_objectives_are_missed() -> None:
    """Or an hour of trouble would be the new usual."""
    life = Life()
    life.minutes(15)
    life.minutes(90, missing=0.5, cost=2.0)

    assert life.now().ratios[Evidence.PREFILL] == pytest.approx(2.0)
    assert life.now().baseline_is_young is False


def test_a_new_leader_of_six_points_does_not_take_over() -> None:
    life = Life()
    life.minutes(10, missing=0.5, votes_queue=0.8)
    life.minutes(10, missing=0.5, votes_queue=0.47)

    assert diagnose(life.now()).phase is Blame.QUEUE
    life.minutes(10, missing=0.5, votes_queue=0.2)
    assert diagnose(life.now()).phase is Blame.PREFILL


def test_an_engine_that_went_down_is_the_verdict() -> None:
    life = Life()
    life.minutes(10)
    life.metrics.gauge(c.ENGINE_UP).child().set(0)
    life.minutes(2, missing=0.9)

    found = diagnose(life.now())

    assert (found.phase, found.cause) == (Blame.ENGINE, Cause.DOWN)


def test_a_full_cache_with_a_queue_is_the_engines() -> None:
    life = Life()
    life.minutes(10)
    life.metrics.gauge(c.ENGINE_KV_CACHE_USAGE_RATIO).child().set(0.97)
    life.metrics.gauge(c.ENGINE_REQUESTS_WAITING).child().set(12)
    life.minutes(3, missing=0.5, queue=2.0)

    found = diagnose(life.now())

    assert (found.phase, found.cause, found.measured.load.waiting) == (Blame.ENGINE, Cause.KV, 12)


def test_half_an_hour_of_looks_stays_small() -> None:
    life = Life()
    life.minutes(120, rate=1)

    assert len(life.ring._looks) <= 22 + 27
    assert life.ring._looks[-1].at - life.ring._looks[0].at >= 1800.0


def test_a_minute_is_five_looks_and_each_counts_once() -> None:
    """As Prometheus has it; who counted the last one twice would see a full cache before the page does."""
    life = Life()
    waiting = life.metrics.gauge(c.ENGINE_REQUESTS_WAITING).child()
    waiting.set(0)
    life.minutes(10)
    waiting.set(10)
    life.minutes(0.25)

    assert life.now().load.waiting == pytest.approx(2.0)
