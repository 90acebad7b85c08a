"""Engines, worlds, faults and traffic of the incident bench: each is what it claims to be, and comes again from its seed."""

from dataclasses import replace
from random import Random

import pytest

from bench.incidents.drawn import drawn
from bench.incidents.engines import CHUNKS_2048, ENGINES, HIGHEST_LOAD, EngineConfig
from bench.incidents.fault import NOTHING
from bench.incidents.kinds import BY_NAME, KINDS, Kind
from bench.incidents.play import NO_INCIDENT, Incident, play
from bench.incidents.replica import (
    Replica,
)
from bench.incidents.request import Run
from bench.incidents.saturation import fair, healthy_run, saturates_at
from bench.incidents.truth import verdicts
from bench.incidents.world import KIND_WORLD, Topology, World
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause


@pytest.mark.bench
@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_a_healthy_day_at_the_highest_load_spends_less_than_half_of_any_budget(engine: EngineConfig) -> None:
    told = verdicts(play(engine, 40, NO_INCIDENT, factor=HIGHEST_LOAD), engine.objectives())

    for (lane, objective), each in told.items():
        aim = engine.lane(lane).aims.aim(Objective(objective))
        assert aim is not None
        assert sum(verdict.missed for verdict in each) / len(each) < 0.5 * aim.allowed_misses


EVERY_TOPOLOGY = pytest.mark.parametrize("topology", list(Topology))


def replica(topology: Topology, engine: EngineConfig = CHUNKS_2048) -> Replica:
    found = Replica(engine, replace(KIND_WORLD, topology=topology), "seed")
    found.adjust(0.0, {"slots": engine.slots})
    return found


@EVERY_TOPOLOGY
def test_every_request_gets_all_its_tokens_in_order_and_leaves_nothing_behind(topology: Topology) -> None:
    engine, rng, at, served = replica(topology), Random(1), 0.0, []
    for number in range(300):
        at += rng.expovariate(2.0)
        hashes = [f"shared/{block}".encode() for block in range(40)]
        lane = ("interactive", "code", "batch")[number % 3]
        served.append((engine.arrive(at, lane, rng.randint(700, 3000), rng.randint(1, 120), hashes), number))
    gone = [each for each, number in served if number > 290]
    for each in gone:
        engine.abort(at, each)
    engine.advance(at + 1000.0)

    for each, number in served:
        assert each.finished != (number > 290 and len(each.token_instants) < each.output_tokens)
        assert each.token_instants == sorted(each.token_instants)
        if each.finished:
            assert each.scheduled_at is not None
            assert each.arrived_at <= each.submitted_at <= each.scheduled_at < each.token_instants[0]
    assert engine.reading()[:3] == (0, 0, 0.0)


UNKIND = World(step_noise=0.12, length_sigma=0.4, coalesced=0.2, pods=4, at_fault=2, utilisation=0.8)


def used(engine: EngineConfig, run: Run) -> dict[tuple[str, str], float]:
    """Lane and objective to the share of its allowed misses that a run used."""
    shares = {}
    for (lane, objective), each in verdicts(run, engine.objectives()).items():
        aim = engine.lane(lane).aims.aim(Objective(objective))
        assert aim is not None
        shares[lane, objective] = sum(verdict.missed for verdict in each) / len(each) / aim.allowed_misses
    return shares


@pytest.mark.bench
@pytest.mark.parametrize("engine", [CHUNKS_2048, drawn("tests", 3)], ids=lambda engine: engine.name)
def test_fair_objectives_are_kept_by_another_healthy_hour(engine: EngineConfig) -> None:
    factor = 0.85 * saturates_at(engine, UNKIND)

    promised = fair(engine, UNKIND, factor)

    assert max(used(promised, healthy_run(promised, 9, 3600.0, UNKIND, factor)).values()) < 1.0


UTILISATIONS = (0.3, 0.58, 0.75, 0.9)
"""Loads before the fault, as shares of saturation: all that an unkind world draws."""
MAGNITUDES = (0.0, 0.5, 1.0)


def sampled(name: str, engine: EngineConfig, utilisation: float, magnitude: float, seed: int = 1) -> Incident:
    return BY_NAME[name].sample(engine, utilisation * engine.saturates_at, magnitude, Random(seed))


def everywhere(name: str) -> list[tuple[EngineConfig, float, Incident]]:
    """Incidents of one kind on all engines, at all loads, of all magnitudes."""
    return [
        (engine, utilisation, sampled(name, engine, utilisation, magnitude, seed))
        for seed, engine in enumerate(ENGINES)
        for utilisation in UTILISATIONS
        for magnitude in MAGNITUDES
    ]


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_every_fault_changes_something_on_every_engine_at_every_load(kind: Kind) -> None:
    for engine, utilisation, incident in everywhere(kind.name):
        faults = [episode.fault for episode in incident.episodes]
        assert faults
        for fault in faults:
            assert fault != NOTHING
            assert all(factor > 1.0 for factor in fault.load.values()), (engine.name, utilisation)
            assert all(factor > 1.0 for factor in {**fault.prompts, **fault.outputs}.values())
            assert all(stranger.per_second > 0.0 for stranger in fault.strangers)
            assert fault.knobs.get("slots", 0) < engine.slots
            assert all(fault.knobs.get(name, 2.0) > 1.0 for name in ("prefill_factor", "decode_factor"))


WITHOUT_A_KIND = {
    Cause.REJECTED: "the answer itself says so, and no evidence is weighed",
    Cause.SIDECAR_BUDGET: "a limit of the sidecar drops observations; no request is late, so no lane must page",
}


def test_every_cause_is_the_cause_of_some_kind_except_those_with_a_reason() -> None:
    assert {cause for kind in KINDS for cause in kind.causes} | set(WITHOUT_A_KIND) == set(Cause)
    assert not {cause for kind in KINDS for cause in kind.causes} & set(WITHOUT_A_KIND)
