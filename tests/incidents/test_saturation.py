"""The load at which an engine is full is measured, and a healthy engine keeps the objectives that it is given."""

from dataclasses import replace

import pytest

from bench.incidents.drawn import drawn
from bench.incidents.engines import CHUNKS_2048, ENGINES, EngineConfig
from bench.incidents.request import Request, Run
from bench.incidents.saturation import alone, fair, healthy_run, latencies, patient, saturates_at, two_digits_up
from bench.incidents.truth import verdicts
from bench.incidents.world import KIND_WORLD, Topology, World
from sidecar.objectives.objective import Objective


UNKIND = World(step_noise=0.12, length_sigma=0.4, coalesced=0.2, pods=4, at_fault=2, utilisation=0.8)


def test_a_threshold_is_rounded_up_to_two_digits() -> None:
    assert [two_digits_up(seconds) for seconds in (0.0331, 0.033, 0.5, 0.501, 12.2, 99.5, 110.0, 111.0)] == [
        *(0.034, 0.033, 0.5, 0.51, 13.0, 100.0, 110.0, 120.0)
    ]


def test_no_client_of_a_patient_engine_ever_misses_an_objective() -> None:
    """Only thresholds differ: targets, traffic and costs stay."""
    engine = patient(CHUNKS_2048)

    for load, own in zip(engine.lanes, CHUNKS_2048.lanes, strict=True):
        assert not load.aims_by_bucket
        for objective in Objective:
            aim, before = load.aims.aim(objective), own.aims.aim(objective)
            assert (aim is None) == (before is None)
            assert aim is None or before is None or (aim.threshold_seconds, aim.target) == (1e6, before.target)
        assert replace(load, aims=own.aims, aims_by_bucket=own.aims_by_bucket) == own


def test_a_pod_is_measured_alone() -> None:
    assert alone(UNKIND) == replace(UNKIND, pods=1, at_fault=1, utilisation=None)


def test_a_request_has_the_latencies_of_its_objectives() -> None:
    streamed = Request(0, "code", 100, 3, True, 10.0, reads=[11.0, 12.0, 13.0], events=[1, 1, 1], ended_at=13.0)
    whole = Request(1, "batch", 100, 3, False, 10.0, ended_at=14.0, flushed_at=14.5)
    waiting = Request(2, "code", 100, 3, True, 10.0)
    last = replace(whole, received_at=150.0)

    told = [list(latencies(request, 200.0)) for request in (streamed, whole, waiting, last)]

    assert told == [
        [(Objective.TTFT, 1.0), (Objective.TPOT, 1.0)],
        [(Objective.E2E, 4.5)],
        [(Objective.TTFT, 190.0)],
        [],
    ]


def used(engine: EngineConfig, run: Run) -> dict[tuple[str, str], float]:
    """Lane and objective to the share of its allowed misses that a run used."""
    shares = {}
    for (lane, objective), each in verdicts(run, engine.objectives()).items():
        aim = engine.lane(lane).aims.aim(Objective(objective))
        assert aim is not None
        shares[lane, objective] = sum(verdict.missed for verdict in each) / len(each) / aim.allowed_misses
    return shares


@pytest.mark.bench
@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_the_named_engines_are_full_where_they_say(engine: EngineConfig) -> None:
    assert saturates_at(engine, KIND_WORLD) == pytest.approx(engine.saturates_at, rel=0.1)


@pytest.mark.bench
def test_the_queue_grows_beyond_that_load_and_not_below_it() -> None:
    engine = drawn("tests", 1)
    full_at = saturates_at(engine, UNKIND)

    def waiting(share: float) -> float:
        states = healthy_run(patient(engine), 5, 3600.0, UNKIND, share * full_at).states
        return sum(state.waiting for state in states[-60:]) / 60

    assert waiting(0.8) < 10
    assert waiting(1.15) > 50


@pytest.mark.bench
def test_two_ranks_carry_twice_the_load_of_one() -> None:
    one, two = (saturates_at(CHUNKS_2048, World(topology=each)) for each in (Topology.ONE, Topology.RANKS))

    assert two == pytest.approx(2 * one, rel=0.15)


@pytest.mark.bench
def test_a_named_engine_keeps_its_own_objectives_where_it_can() -> None:
    assert fair(CHUNKS_2048, KIND_WORLD, 1.0).lane("code") == CHUNKS_2048.lane("code")


@pytest.mark.bench
@pytest.mark.parametrize("engine", [CHUNKS_2048, drawn("tests", 3)], ids=lambda engine: engine.name)
def test_fair_objectives_are_kept_by_another_healthy_hour(engine: EngineConfig) -> None:
    factor = 0.85 * saturates_at(engine, UNKIND)

    promised = fair(engine, UNKIND, factor)

    assert max(used(promised, healthy_run(promised, 9, 3600.0, UNKIND, factor)).values()) < 1.0


@pytest.mark.bench
def test_a_named_engine_is_never_given_a_lower_threshold_than_its_own() -> None:
    promised = fair(CHUNKS_2048, UNKIND, 0.5)

    for load, own in zip(promised.lanes, CHUNKS_2048.lanes, strict=True):
        for bucket, aims in promised.objectives().by_lane[load.lane].items():
            before = CHUNKS_2048.objectives().aims(own.lane, bucket)
            for objective in Objective:
                aim, was = aims.aim(objective), before.aim(objective)
                assert aim is None or was is None or aim.threshold_seconds >= was.threshold_seconds
