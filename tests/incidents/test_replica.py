"""The engine behind one port: how two schedulers divide its work in each topology, and how it looks from outside."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import fmean, pstdev
from typing import Any

import pytest

from bench.incidents.engines import CHUNKS_2048, EngineConfig
from bench.incidents.replica import (
    DRAFTED,
    SECOND_MODEL,
    SECOND_MODEL_COST,
    TRANSFER_TOKEN_SECONDS,
    Accepted,
    Replica,
    Served,
    noise_of,
    of_world,
)
from bench.incidents.world import KIND_WORLD, Topology, World
from sidecar.commands.simulator.simulation import Simulation


COSTS = CHUNKS_2048.costs
EVERY_TOPOLOGY = pytest.mark.parametrize("topology", list(Topology))


def replica(topology: Topology, engine: EngineConfig = CHUNKS_2048) -> Replica:
    found = Replica(engine, replace(KIND_WORLD, topology=topology), "seed")
    found.adjust(0.0, {"slots": engine.slots})
    return found


def lone(topology: Topology, transfer_seconds: float = 0.0, **knobs: Any) -> Served:
    """One request of 3,000 prompt tokens and 50 output tokens, alone in the engine."""
    engine = replica(topology)
    engine.adjust(0.0, {"slots": CHUNKS_2048.slots, **knobs}, transfer_seconds)
    served = engine.arrive(1.0, "interactive", 3000, 50)
    engine.advance(100.0)
    return served


def pace(instants: Sequence[float]) -> float:
    return (instants[-1] - instants[0]) / (len(instants) - 1)


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


def test_one_scheduler_is_the_simulation_itself() -> None:
    engine, simulation = replica(Topology.ONE), Simulation(CHUNKS_2048.limits, COSTS)
    simulation.adjust(0.0, slots=CHUNKS_2048.slots)
    mine = [engine.arrive(at / 5, "code", 900, 40) for at in range(30)]
    its = [simulation.arrive(at / 5, 900, 40) for at in range(30)]
    engine.advance(60.0)
    simulation.advance(60.0)

    assert [each.token_instants for each in mine] == [each.token_instants for each in its]


def test_two_ranks_get_requests_in_turn_with_all_slots_each() -> None:
    """Twice as many requests run as one scheduler would admit; KV usage is that of the fuller rank."""
    engine = replica(Topology.RANKS)
    for _ in range(3 * CHUNKS_2048.slots):
        engine.arrive(0.0, "interactive", 2000, 1200)
    engine.advance(15.0)
    one = replica(Topology.ONE)
    for _ in range(3 * CHUNKS_2048.slots // 2):
        one.arrive(0.0, "interactive", 2000, 1200)
    one.advance(15.0)

    assert (engine.reading().running, one.reading().running) == (2 * CHUNKS_2048.slots, CHUNKS_2048.slots)
    assert engine.reading().waiting == CHUNKS_2048.slots
    assert engine.reading().kv_usage == pytest.approx(one.reading().kv_usage, rel=0.05)


def test_two_models_do_not_wait_for_each_other_and_the_second_is_cheaper() -> None:
    """The lane decides. An engine in whose lanes the models are named behaves the same."""
    for config in (CHUNKS_2048, of_world(CHUNKS_2048, World(topology=Topology.MODELS))):
        engine = replica(Topology.MODELS, config)
        others = [engine.arrive(0.0, "interactive", 3000, 100) for _ in range(10)]
        batch = engine.arrive(0.0, "batch", 3000, 100)
        engine.advance(100.0)

        assert batch.token_instants[-1] < others[1].token_instants[-1]
        alone = Simulation(CHUNKS_2048.limits, COSTS).run([(0.0, 3000, 100)])[0]
        assert pace(batch.token_instants) == pytest.approx(SECOND_MODEL_COST * pace(alone.token_instants))


def test_an_engine_of_a_world_with_two_models_names_the_second_in_its_lane() -> None:
    two = of_world(CHUNKS_2048, World(topology=Topology.MODELS))

    assert {load.lane: load.model for load in two.lanes} == {
        "interactive": "llama",
        "batch": SECOND_MODEL,
        "code": "llama",
    }
    assert of_world(CHUNKS_2048, KIND_WORLD) == CHUNKS_2048


def test_a_request_fills_twice_the_share_of_a_pipelines_half() -> None:
    usage = []
    for topology in (Topology.ONE, Topology.PIPELINE):
        engine = replica(topology)
        engine.arrive(0.0, "batch", 8000, 1000)
        engine.advance(5.0)
        usage.append(engine.reading().kv_usage)

    assert usage[1] == pytest.approx(2 * usage[0])


def test_a_pipeline_divides_its_slots_and_overlaps_its_steps() -> None:
    """As many requests run as in one batch, and they have more tokens, as each half does its own steps."""
    engine, one = replica(Topology.PIPELINE), replica(Topology.ONE)
    served = [
        [each.arrive(0.0, "interactive", 2000, 1200) for _ in range(3 * CHUNKS_2048.slots)] for each in (engine, one)
    ]
    engine.advance(10.0)
    one.advance(10.0)

    assert engine.reading().running == one.reading().running == CHUNKS_2048.slots
    overlapped, alone = (sum(len(each.token_instants) for each in of) for of in served)
    assert overlapped > 1.2 * alone
    assert lone(Topology.PIPELINE).token_instants == lone(Topology.ONE).token_instants


@pytest.mark.parametrize("slots", [1, 2, 7])
def test_a_pipeline_has_a_slot_in_each_half_however_few_there_are(slots: int) -> None:
    engine = replica(Topology.PIPELINE)
    engine.adjust(0.0, {"slots": slots, "kv_blocks": 1100})
    served = [engine.arrive(0.0, "code", 500, 20) for _ in range(10)]
    engine.advance(0.5)
    assert engine.reading().running == max(2, slots)

    engine.advance(100.0)

    assert all(each.finished for each in served)


def test_a_disaggregated_decode_is_not_slowed_by_prefill_and_a_prefill_not_by_decode() -> None:
    usual = lone(Topology.DISAGGREGATED)
    slow_prefill = lone(Topology.DISAGGREGATED, prefill_factor=4.0)
    slow_decode = lone(Topology.DISAGGREGATED, decode_factor=4.0)

    def first(served: Served) -> float:
        return served.token_instants[0] - served.arrived_at

    assert first(slow_prefill) > 3.5 * first(usual)
    assert pace(slow_prefill.token_instants) == pytest.approx(pace(usual.token_instants))
    assert first(slow_decode) == pytest.approx(first(usual))
    assert pace(slow_decode.token_instants[1:]) == pytest.approx(4.0 * pace(usual.token_instants[1:]))


def test_streams_of_a_disaggregated_engine_do_not_stand_still_while_prompts_are_computed() -> None:
    """Five long prompts arrive beside a stream: its longest gap is far below that of an engine with one scheduler."""
    longest = {}
    for topology in (Topology.ONE, Topology.DISAGGREGATED):
        engine = replica(topology)
        stream = engine.arrive(0.0, "interactive", 500, 300)
        engine.advance(1.0)
        for _ in range(5):
            engine.arrive(1.0, "batch", 6000, 2)
        engine.advance(60.0)
        instants = stream.token_instants[2:]
        longest[topology] = max(later - earlier for earlier, later in pairwise(instants))

    assert longest[Topology.ONE] > 0.3
    assert longest[Topology.DISAGGREGATED] < 0.05


def test_the_transfer_of_a_kv_cache_is_time_before_the_second_token() -> None:
    usual, slow = lone(Topology.DISAGGREGATED), lone(Topology.DISAGGREGATED, transfer_seconds=0.5)

    assert slow.token_instants[0] == usual.token_instants[0]
    assert usual.token_instants[1] - usual.token_instants[0] > TRANSFER_TOKEN_SECONDS * 3000
    later = [other - one for one, other in zip(usual.token_instants[1:], slow.token_instants[1:], strict=True)]
    assert later == pytest.approx([0.5] * 49)


def test_a_request_whose_kv_cache_is_on_its_way_is_waiting_until_its_client_leaves() -> None:
    engine = replica(Topology.DISAGGREGATED)
    engine.adjust(0.0, {}, 100.0)
    served = engine.arrive(0.0, "code", 500, 20)
    engine.advance(10.0)
    assert engine.reading()[:2] == (1, 0)

    engine.abort(10.0, served)
    engine.advance(200.0)

    assert engine.reading()[:2] == (0, 0)
    assert len(served.token_instants) == 1


def test_noise_has_a_mean_of_one_and_speculation_its_own() -> None:
    noise, accepted = noise_of(0.2, Random(1)), Accepted(2.6, Random(1))
    assert noise is not None

    factors, tokens = [noise() for _ in range(20_000)], [accepted() for _ in range(20_000)]

    assert (fmean(factors), pstdev(factors)) == pytest.approx((1.0, 0.2), abs=0.01)
    assert fmean(tokens) == pytest.approx(2.6, abs=0.03)
    assert set(tokens) == set(range(1, DRAFTED + 2))
    assert noise_of(0.0, Random(1)) is None


def test_acceptance_falls_while_a_fault_says_so_and_is_the_worlds_again() -> None:
    engine = Replica(CHUNKS_2048, World(tokens_a_step=2.6), "seed")

    def paces() -> float:
        served = engine.arrive(engine_now[0], "code", 500, 200)
        engine_now[0] += 100.0
        engine.advance(engine_now[0])
        return served.token_instants[-1] - served.token_instants[0]

    engine_now = [0.0]
    usual = paces()
    engine.adjust(engine_now[0], {}, 0.0, 1.0)
    slow = paces()
    engine.adjust(engine_now[0], {})

    assert slow > 2.2 * usual
    assert paces() < 1.2 * usual


def test_schedulers_of_one_engine_have_noise_of_their_own() -> None:
    """Otherwise the steps of both ranks would be long at the same time."""
    engine = Replica(CHUNKS_2048, World(topology=Topology.RANKS, step_noise=0.2), "seed")
    one, other = (engine.arrive(0.0, "code", 900, 40) for _ in range(2))
    engine.advance(60.0)

    assert one.token_instants != other.token_instants
