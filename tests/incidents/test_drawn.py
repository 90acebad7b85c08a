"""A drawn engine can be played: it is valid, affordable, the same each time, and unlike the others."""

import pytest

from bench.incidents.drawn import (
    LEAST_PER_SECOND,
    MOST_PER_SECOND,
    MOST_RUNNING,
    drawn,
    full_batch,
    most_per_second,
)
from bench.incidents.engines import ENGINES, EngineConfig
from sidecar.commands.simulator.simulation import Simulation
from sidecar.objectives.objective import Objective


MANY = [drawn("tests", number) for number in range(200)]


def per_second(engine: EngineConfig) -> float:
    return sum(load.per_second for load in engine.lanes)


def test_every_drawn_engine_takes_its_longest_usual_request() -> None:
    """The length fits into max_model_len and the KV pool, in a simulation with the engine's own limits."""
    for engine in MANY:
        for load in engine.lanes:
            own = (load.prompt_tokens - load.shared_tokens) * (1 + load.spread)
            prompt, output = round(load.shared_tokens + own), round(load.output_tokens * (1 + load.spread))
            simulation = Simulation(engine.limits, engine.costs)
            simulation.adjust(0.0, slots=engine.slots)

            longest = simulation.arrive(0.0, prompt, output)
            simulation.advance(float("inf"))

            assert longest.finished
            assert longest.preemptions == 0


def test_every_drawn_engine_can_be_afforded() -> None:
    """Few requests a second, and few sequences at once when it is full."""
    for engine in MANY:
        assert LEAST_PER_SECOND <= per_second(engine) <= MOST_PER_SECOND
        assert full_batch(engine) <= MOST_RUNNING
        assert engine.slots <= engine.limits.max_num_seqs


def test_every_drawn_engine_has_the_lanes_that_incidents_name_and_objectives_for_each() -> None:
    for engine in MANY:
        assert {load.lane for load in engine.lanes} - {"agents"} == {"interactive", "code", "batch"}
        assert min(load.shared_tokens for load in engine.lanes if load.lane in ("interactive", "code")) > 0
        for load in engine.lanes:
            assert load.shared_tokens < load.prompt_tokens
            assert load.aims.ttft is not None
            assert load.aims.tpot is not None
            assert (load.aims.e2e is not None) == (load.unstreamed > 0)
            for objective in Objective:
                aim = load.aims.aim(objective)
                assert aim is None or aim.threshold_seconds > 0


def test_the_same_seed_and_number_draw_the_same_engine_and_others_another_one() -> None:
    assert drawn("tests", 7) == MANY[7]
    assert drawn("others", 7).costs != MANY[7].costs
    assert len({engine.costs for engine in MANY}) == len(MANY)
    assert len({engine.name for engine in MANY}) == len(MANY)


def test_the_draws_span_what_was_published() -> None:
    """Every token budget and whole prompts, a few slots and many, with and without agents, streamed and not."""
    budgets = {engine.limits.max_num_batched_tokens for engine in MANY if engine.limits.chunked_prefill}
    assert budgets == {512, 1024, 2048, 4096, 8192}
    assert 10 < sum(not engine.limits.chunked_prefill for engine in MANY) < 60
    assert {engine.slots for engine in MANY} >= {8, 32, 256}
    steps = [engine.costs.step_seconds for engine in MANY]
    assert (min(steps) < 8e-3, max(steps) > 30e-3) == (True, True)
    assert 50 < sum(len(engine.lanes) == 4 for engine in MANY) < 150
    assert 50 < sum(engine.lane("batch").unstreamed > 0 for engine in MANY) < 180


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_the_formula_for_the_rate_of_a_full_engine_is_right_where_it_was_measured(engine: EngineConfig) -> None:
    assert most_per_second(engine) / per_second(engine) == pytest.approx(engine.saturates_at, rel=0.12)
