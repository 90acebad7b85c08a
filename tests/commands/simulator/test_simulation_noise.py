"""Noise of the steps and speculative decoding: drawn outside of the simulation, once for each step and each decode."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from math import exp
from random import Random

import pytest

from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.commands.simulator.simulation import SimulatedRequest, Simulation


COSTS = Costs(step_seconds=0.004, per_sequence_seconds=1e-4, per_kv_token_seconds=1e-7, per_prompt_token_seconds=1e-4)
ROOMY = Limits(max_num_seqs=8, max_num_batched_tokens=512, max_model_len=4096, kv_blocks=4096)
TIGHT = Limits(max_num_seqs=8, max_num_batched_tokens=512, max_model_len=1024, kv_blocks=80)


def noise(seed: int) -> Callable[[], float]:
    rng = Random(f"{seed}/noise")
    return lambda: exp(rng.gauss(0.0, 0.2))


def accepted(seed: int) -> Callable[[], int]:
    rng = Random(f"{seed}/accepted")
    return lambda: 1 + rng.randrange(4)


def arrivals(seed: int) -> list[tuple[float, int, int]]:
    rng, at, found = Random(seed), 0.0, []
    for _ in range(25):
        at += rng.uniform(0.0, 0.2)
        found.append((at, rng.randint(1, 700), rng.randint(1, 120)))
    return found


def step_by_step(simulation: Simulation, load: list[tuple[float, int, int]]) -> list[SimulatedRequest]:
    """Play from event to event, so that no two steps are ever played at once."""
    todo, played = list(load), []
    while True:
        event_at = simulation.next_event_at()
        if todo and (event_at is None or todo[0][0] <= event_at):
            played.append(simulation.arrive(*todo.pop(0)))
        elif event_at is None:
            return played
        else:
            simulation.advance(event_at)


@pytest.mark.parametrize("limits", [ROOMY, TIGHT], ids=["roomy", "tight"])
@pytest.mark.parametrize("speculates", [False, True], ids=["one token a step", "several tokens a step"])
def test_noise_does_not_depend_on_how_many_steps_are_played_at_once(limits: Limits, *, speculates: bool) -> None:
    for seed in range(10):
        at_once = Simulation(limits, COSTS, noise(seed), accepted(seed) if speculates else None)
        one_by_one = Simulation(limits, COSTS, noise(seed), accepted(seed) if speculates else None)

        for one, other in zip(at_once.run(arrivals(seed)), step_by_step(one_by_one, arrivals(seed)), strict=True):
            assert one.token_instants == pytest.approx(other.token_instants, abs=1e-9)
            assert one.preemptions == other.preemptions


def test_without_noise_and_speculation_nothing_changes() -> None:
    """A factor of 1 and 1 token a step are the same as none, to the last bit for the factor."""
    load = arrivals(3)
    plain = [request.token_instants for request in Simulation(TIGHT, COSTS).run(load)]

    still = [request.token_instants for request in Simulation(TIGHT, COSTS, lambda: 1.0).run(load)]
    lone = [request.token_instants for request in Simulation(TIGHT, COSTS, None, lambda: 1).run(load)]

    assert still == plain
    assert [instant for each in lone for instant in each] == pytest.approx(
        [instant for each in plain for instant in each], abs=1e-9
    )


def test_noise_is_drawn_once_for_each_step_and_stretches_it() -> None:
    """A request of two prompt chunks and five tokens takes six steps, the second, fourth and sixth of double length."""
    drawn: list[float] = []

    def draw() -> float:
        drawn.append(1.0 if len(drawn) % 2 == 0 else 2.0)
        return drawn[-1]

    costs = Costs(step_seconds=0.01)
    request = Simulation(ROOMY, costs, draw).run([(0.0, 800, 5)])[0]

    assert drawn == [1.0, 2.0] * 3
    assert request.token_instants == pytest.approx([0.03, 0.04, 0.06, 0.07, 0.09])


def test_a_decode_gets_several_tokens_at_one_instant_and_never_more_than_it_lacks() -> None:
    """The first token comes alone. Of the other nine, each step brings four, and the last step the one that is left."""
    simulation = Simulation(ROOMY, Costs(step_seconds=0.01), None, lambda: 4)

    request = simulation.run([(0.0, 100, 10)])[0]

    assert list(Counter(request.token_instants).values()) == [1, 4, 4, 1]
    assert request.token_instants[-1] == pytest.approx(0.04)
    assert simulation.totals.generation_tokens == 10
    assert simulation.pool.used == 0


def test_several_tokens_a_step_take_as_many_blocks_as_one_by_one() -> None:
    """In the middle of the answer the request holds the blocks of its prompt and of the tokens that it has."""
    simulation = Simulation(ROOMY, COSTS, None, lambda: 4)
    request = simulation.arrive(0.0, 100, 400)
    simulation.advance(0.3)

    assert 100 < len(request.token_instants) < 400
    tokens = request.prompt_tokens + len(request.token_instants)
    assert simulation.pool.used in (ROOMY.blocks_for(tokens - 4), ROOMY.blocks_for(tokens))


def test_several_tokens_a_step_lose_none_when_blocks_run_out() -> None:
    simulation = Simulation(TIGHT, COSTS, None, accepted(1))

    first, second = simulation.run([(0.0, 600, 200), (0.0, 600, 200)])

    assert (len(first.token_instants), len(second.token_instants)) == (200, 200)
    assert (first.preemptions, second.preemptions) == (0, 1)
    assert simulation.pool.used == 0


def test_any_mixture_of_aborts_and_knobs_ends_with_an_empty_replica() -> None:
    for seed in range(10):
        rng = Random(seed)
        simulation = Simulation(TIGHT, COSTS, noise(seed), accepted(seed))
        played: list[SimulatedRequest] = []
        at = 0.0
        for _ in range(100):
            at += rng.expovariate(20.0)
            match rng.randrange(4):
                case 0 if played:
                    simulation.abort(at, rng.choice(played))
                case 1:
                    simulation.adjust(at, slots=rng.choice([1, None]), kv_blocks=rng.choice([64, None]))
                case _:
                    played.append(simulation.arrive(at, rng.randint(1, 640), rng.randint(1, 100)))

        simulation.adjust(at, slots=None, kv_blocks=None)
        simulation.advance(at + 10_000)

        assert all(request.finished != (request.aborted_at is not None) for request in played)
        assert all(earlier <= later for each in played for earlier, later in pairwise(each.token_instants))
        assert (len(simulation.running), len(simulation.waiting), simulation.pool.used) == (0, 0, 0)
