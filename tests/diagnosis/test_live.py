"""The diagnosis of one process: its counters now, and what they were before, become what is known of a lane."""

import pytest

from sidecar.diagnosis.findings import Confidence
from sidecar.diagnosis.measured import Regime
from sidecar.diagnosis.tree import diagnose
from sidecar.metrics import catalogue as c
from sidecar.slo.attribution import Blame
from sidecar.slo.causes import Cause
from sidecar.slo.objective import Objective
from tests.diagnosis.life import LANE, MODEL, Life


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
        {Cause.PREFILL_COST: 1.0, Cause.UNCACHED: 1.0, Cause.LOAD: 1.0, Cause.PROMPT_MIX: 1.0, Cause.DECODE_COST: 1.0}
    )


def test_nobody_came_and_nothing_is_known() -> None:
    life = Life()
    life.minutes(8, rate=0)

    assert life.lanes() == []


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

    assert (found.phase, found.cause) == (Blame.PREFILL, Cause.PREFILL_COST)
    assert found.measured.verdicts[Objective.TTFT].waited_in == {Blame.QUEUE: 1.0}
    assert found.measured.ratios[Cause.PREFILL_COST] == pytest.approx(2.0)


def test_a_lost_cache_is_prefills_too() -> None:
    life = Life()
    life.minutes(15, cached=250)
    life.minutes(5, missing=0.5, queue=2.0, cached=50)

    found = diagnose(life.now())

    assert (found.phase, found.cause) == (Blame.PREFILL, Cause.UNCACHED)
    assert found.measured.ratios[Cause.UNCACHED] == pytest.approx(5.0)


def test_a_lanes_own_longer_prompts_are_its_prefill() -> None:
    life = Life()
    life.minutes(15, cached=0)
    life.minutes(5, missing=0.5, queue=2.0, tokens=900, cached=0)

    found = diagnose(life.now())

    assert (found.phase, found.cause) == (Blame.PREFILL, Cause.PROMPT_MIX)


def test_a_baseline_of_two_minutes_decides_and_is_doubted() -> None:
    """A process that has just begun is not blind; who reads it is told how little it has seen."""
    life = Life()
    life.minutes(2)
    life.minutes(3, missing=0.5, queue=2.0, cost=2.0)

    found = diagnose(life.now())

    assert (found.phase, found.cause, found.confidence) == (Blame.PREFILL, Cause.PREFILL_COST, Confidence.FAIR)
    assert "The baseline is made of less than three minutes of calm." in found.because


def test_the_baseline_stands_still_while_objectives_are_missed() -> None:
    """Or an hour of trouble would be the new usual."""
    life = Life()
    life.minutes(15)
    life.minutes(90, missing=0.5, cost=2.0)

    assert life.now().ratios[Cause.PREFILL_COST] == pytest.approx(2.0)
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


def test_a_minute_is_five_looks_and_each_counts_once() -> None:
    """As Prometheus has it; who counted the last one twice would see a full cache before the page does."""
    life = Life()
    waiting = life.metrics.gauge(c.ENGINE_REQUESTS_WAITING).child()
    waiting.set(0)
    life.minutes(10)
    waiting.set(10)
    life.minutes(0.25)

    assert life.now().load.waiting == pytest.approx(2.0)
