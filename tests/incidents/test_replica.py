"""The engine behind one port gives every request all its tokens in each topology."""

from dataclasses import replace
from random import Random

import pytest

from bench.incidents.engines import CHUNKS_2048, EngineConfig
from bench.incidents.replica import (
    Replica,
)
from bench.incidents.world import KIND_WORLD, Topology


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
