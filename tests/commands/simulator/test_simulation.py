"""Invariants of a replica with continuous batching, for any load."""

from itertools import pairwise
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.commands.simulator.simulation import SimulatedRequest, Simulation


COSTS = Costs(
    step_seconds=0.004,
    per_sequence_seconds=1e-4,
    per_kv_token_seconds=1e-7,
    per_prompt_token_seconds=1e-4,
    per_prompt_token_context_seconds=2e-8,
    front_end_request_seconds=0.002,
    front_end_token_seconds=1e-6,
    delivery_seconds=0.001,
)
ROOMY = Limits(max_num_seqs=8, max_num_batched_tokens=512, max_model_len=4096, kv_blocks=4096)
TIGHT = Limits(max_num_seqs=8, max_num_batched_tokens=512, max_model_len=1024, kv_blocks=80)


class Asked(NamedTuple):
    """One request of a generated load."""

    gap_seconds: float
    prompt_tokens: int
    output_tokens: int


loads = st.lists(
    st.builds(Asked, st.floats(0, 0.2), st.integers(1, 700), st.integers(1, 60)),
    min_size=1,
    max_size=25,
)


def arrivals_of(load: list[Asked]) -> list[tuple[float, int, int]]:
    at = 0.0
    arrivals = []
    for asked in load:
        at += asked.gap_seconds
        arrivals.append((at, asked.prompt_tokens, asked.output_tokens))
    return arrivals


def watched(simulation: Simulation, arrivals: list[tuple[float, int, int]]) -> list[SimulatedRequest]:
    """Run event by event, as the HTTP face does, and check the pool after each."""
    played = []
    todo = list(arrivals)
    while True:
        event_at = simulation.next_event_at()
        if todo and (event_at is None or todo[0][0] <= event_at):
            played.append(simulation.arrive(*todo.pop(0)))
        elif event_at is None:
            return played
        else:
            simulation.advance(event_at)
        pool = simulation.pool
        assert 0 <= pool.used <= pool.blocks
        assert pool.used + len(pool._idle) <= pool.blocks
        assert pool.used == sum(request.private + len(request.shared) for request in simulation.running)


@given(loads, st.sampled_from([ROOMY, TIGHT]))
@settings(max_examples=60)
def test_nothing_is_lost_and_nothing_is_invented(load: list[Asked], limits: Limits) -> None:
    """Output tokens equal the tokens asked for, phases add up to the whole request, no block stays held, the pool is
    never overdrawn."""
    simulation = Simulation(limits, COSTS)

    played = watched(simulation, arrivals_of(load))

    assert [asked.output_tokens for asked in load] == [len(request.token_instants) for request in played]
    assert sum(asked.output_tokens for asked in load) == simulation.totals.generation_tokens
    assert sum(asked.prompt_tokens for asked in load) == simulation.totals.prompt_tokens
    assert simulation.pool.used == 0
    assert len(load) == simulation.totals.finished
    for request in played:
        phases = request.phases
        parts = (phases.front_end_seconds, phases.queue_seconds, phases.prefill_seconds, phases.decode_seconds)
        assert min(parts) >= 0
        assert request.token_instants == sorted(request.token_instants)
        assert request.token_instants[-1] - request.arrived_at == pytest.approx(sum(parts))


@given(loads, st.sampled_from([ROOMY, TIGHT]))
@settings(max_examples=40)
def test_played_in_real_time_or_run_to_the_end_the_requests_are_the_same(load: list[Asked], limits: Limits) -> None:
    """Taking many decode steps at once is an optimisation: the instants are the same as step by step."""
    at_once = Simulation(limits, COSTS).run(arrivals_of(load))

    step_by_step = watched(Simulation(limits, COSTS), arrivals_of(load))

    for one, other in zip(at_once, step_by_step, strict=True):
        assert one.token_instants == pytest.approx(other.token_instants, abs=1e-9)
        assert one.scheduled_at == pytest.approx(other.scheduled_at, abs=1e-9)
        assert one.preemptions == other.preemptions


@given(loads)
@settings(max_examples=40)
def test_without_preemption_the_first_request_is_scheduled_first(load: list[Asked]) -> None:
    played = Simulation(ROOMY, COSTS).run(arrivals_of(load))

    assert sum(request.preemptions for request in played) == 0
    scheduled = [request.scheduled_at for request in played if request.scheduled_at is not None]
    assert scheduled == sorted(scheduled)
    assert len(scheduled) == len(load)


def test_when_blocks_run_out_the_youngest_goes_and_comes_back() -> None:
    """Two requests grow until the pool is full; the second is recomputed and still gets every token."""
    simulation = Simulation(TIGHT, COSTS)

    first, second = simulation.run([(0.0, 600, 200), (0.0, 600, 200)])

    assert (first.preemptions, second.preemptions) == (0, 1)
    assert simulation.totals.preemptions == 1
    assert second.token_instants[-1] > first.token_instants[-1]
    assert len(second.token_instants) == 200


def test_a_preempted_request_keeps_its_first_scheduling() -> None:
    """As in vLLM, a preempted request's second wait is not queue; it is part of decode."""
    first, second = Simulation(TIGHT, COSTS).run([(0.0, 600, 200), (0.0, 600, 200)])

    assert second.phases.queue_seconds < 0.2
    assert second.phases.decode_seconds > first.phases.decode_seconds


def test_a_step_costs_what_is_in_it() -> None:
    """A prompt of two chunks alone: each step pays its base and its own tokens, the second chunk its longer context."""
    request = Simulation(ROOMY, COSTS).run([(0.0, 800, 2)])[0]

    whole_prompt = 800 * 1e-4 + 2e-8 * 800 * 400
    assert request.phases.prefill_seconds == pytest.approx(2 * 0.004 + whole_prompt)
    assert request.phases.decode_seconds == pytest.approx(0.004 + 1e-4 + 1e-7 * 800)
    assert request.phases.front_end_seconds == pytest.approx(0.002 + 800e-6)
    assert request.phases.delivery_seconds == 0.001


def test_chunked_prefill_lets_others_decode_in_between() -> None:
    """A long prompt arrives beside a stream: with chunks the stream's longest gap is one chunk, without chunks it is
    the whole prompt."""
    whole = Limits(
        max_num_seqs=8, max_num_batched_tokens=4096, max_model_len=4096, kv_blocks=4096, chunked_prefill=False
    )
    gaps = {}
    for name, limits in (("chunked", ROOMY), ("whole", whole)):
        stream = Simulation(limits, COSTS).run([(0.0, 16, 200), (0.1, 3800, 1)])[0]
        instants = stream.token_instants
        gaps[name] = max(later - earlier for earlier, later in pairwise(instants))

    assert COSTS.chunk(3800, 0) < gaps["whole"] < COSTS.chunk(3800, 0) + 0.01
    assert gaps["chunked"] < gaps["whole"] / 4


def test_without_chunks_a_prompt_waits_for_a_step_that_holds_it_whole() -> None:
    """Two prompts of 60 % of the budget take two steps, not one and a half."""
    limits = Limits(
        max_num_seqs=8, max_num_batched_tokens=1000, max_model_len=1000, kv_blocks=4096, chunked_prefill=False
    )

    first, second = Simulation(limits, Costs(0.01, per_prompt_token_seconds=1e-4)).run([(0.0, 600, 1), (0.0, 600, 1)])

    assert pytest.approx([first.token_instants[0], second.token_instants[0]]) == [0.07, 0.14]


def test_a_prefix_that_was_computed_is_not_computed_again() -> None:
    simulation = Simulation(ROOMY, COSTS)
    hashes = [bytes([number]) for number in range(30)]
    cold = simulation.arrive(0.0, 490, 1, hashes)
    simulation.advance(1.0)
    warm = simulation.arrive(1.0, 490, 1, hashes)
    simulation.advance(2.0)

    assert (cold.cached_tokens, warm.cached_tokens) == (0, 480)
    assert warm.phases.prefill_seconds == pytest.approx(COSTS.step_seconds + COSTS.chunk(10, 480))
    assert (simulation.totals.prefix_hits, simulation.totals.prefix_queries) == (480, 980)


def test_a_wholly_cached_prompt_still_computes_its_last_block() -> None:
    """The last block is computed again, because the first output token comes from it."""
    simulation = Simulation(ROOMY, COSTS)
    hashes = [bytes([number]) for number in range(30)]
    simulation.arrive(0.0, 480, 1, hashes)
    simulation.advance(1.0)

    warm = simulation.arrive(1.0, 480, 1, hashes)
    simulation.advance(2.0)

    assert warm.cached_tokens == 464
    assert warm.finished


def test_an_abort_frees_the_slot_at_once() -> None:
    """One slot, two requests: the first client leaves in mid-decode, and the second request is scheduled in the very
    next step."""
    limits = Limits(max_num_seqs=1, max_num_batched_tokens=512, max_model_len=4096, kv_blocks=4096)
    simulation = Simulation(limits, COSTS)
    first = simulation.arrive(0.0, 100, 3000)
    second = simulation.arrive(0.0, 100, 2)
    simulation.advance(1.0)
    assert (len(simulation.running), len(simulation.waiting)) == (1, 1)

    simulation.abort(1.0, first)

    assert simulation.pool.used <= limits.blocks_for(100)
    simulation.advance(2.0)
    assert second.finished
    assert second.scheduled_at == pytest.approx(1.0, abs=0.006)
    assert (simulation.totals.aborted, simulation.totals.finished) == (1, 1)


@pytest.mark.parametrize(
    "leaves_at", [0.0, 0.001, 0.01, 0.1, 0.5], ids=["at once", "front end", "prefill", "decode", "later"]
)
def test_an_abort_in_any_phase_leaves_nothing_behind(leaves_at: float) -> None:
    simulation = Simulation(ROOMY, COSTS)
    leaving = simulation.arrive(0.0, 600, 2000)
    staying = simulation.arrive(0.0, 600, 20)
    simulation.advance(leaves_at)

    simulation.abort(leaves_at, leaving)
    simulation.abort(leaves_at, leaving)
    simulation.advance(10.0)

    assert staying.finished
    assert not leaving.finished
    assert (len(simulation.running), len(simulation.waiting), simulation.pool.used) == (0, 0, 0)
    assert simulation.totals.aborted == 1
    assert simulation.next_event_at() is None


def one_request(**knobs: float) -> SimulatedRequest:
    simulation = Simulation(ROOMY, COSTS)
    simulation.adjust(0.0, **knobs)
    request = simulation.arrive(0.0, 500, 50)
    simulation.advance(100.0)
    return request


def test_each_knob_moves_its_own_phase_and_no_other() -> None:
    healthy = one_request().phases
    slow_front_end = one_request(front_end_extra_seconds=0.3).phases
    slow_prefill = one_request(prefill_factor=3.0).phases
    slow_decode = one_request(decode_factor=2.0).phases

    assert slow_front_end.front_end_seconds - healthy.front_end_seconds == pytest.approx(0.3)
    assert slow_front_end.prefill_seconds == pytest.approx(healthy.prefill_seconds)
    assert slow_prefill.prefill_seconds - healthy.prefill_seconds == pytest.approx(2 * COSTS.chunk(500, 0))
    assert slow_prefill.decode_seconds == pytest.approx(healthy.decode_seconds)
    assert slow_decode.decode_seconds == pytest.approx(2 * healthy.decode_seconds)
    assert slow_decode.queue_seconds == healthy.queue_seconds == 0


def test_slots_taken_away_are_time_in_the_queue() -> None:
    simulation = Simulation(ROOMY, COSTS)
    simulation.adjust(0.0, slots=0)
    request = simulation.arrive(0.0, 100, 5)
    simulation.advance(2.0)
    assert request.scheduled_at is None
    assert simulation.next_event_at() is None

    simulation.adjust(2.0, slots=None)
    simulation.advance(3.0)

    assert request.phases.queue_seconds == pytest.approx(2.0 - request.submitted_at)


def test_a_hang_stops_the_step_in_flight_and_what_follows() -> None:
    """After five silent seconds everything continues from the same state."""
    undisturbed = Simulation(ROOMY, COSTS).run([(0.0, 100, 50)])[0]
    simulation = Simulation(ROOMY, COSTS)
    request = simulation.arrive(0.0, 100, 50)
    simulation.advance(0.1)
    before = len(request.token_instants)

    simulation.adjust(0.1, hung=True)
    assert simulation.advance(5.0)[before:] == []
    assert simulation.next_event_at() is None
    simulation.adjust(5.1, hung=False)
    simulation.advance(20.0)

    assert 0 < before == sum(instant <= 0.1 for instant in undisturbed.token_instants)
    expected = [instant + (5.0 if instant > 0.1 else 0.0) for instant in undisturbed.token_instants]
    assert expected == pytest.approx(request.token_instants)


def test_a_pool_that_shrinks_preempts_until_it_fits() -> None:
    simulation = Simulation(Limits(8, 512, 1024, 400), COSTS)
    played = [simulation.arrive(0.0, 500, 300) for _ in range(5)]
    simulation.advance(0.5)
    assert simulation.pool.used > 100

    simulation.adjust(0.5, kv_blocks=70)

    assert simulation.pool.used <= 70
    assert simulation.totals.preemptions > 0
    simulation.advance(1000.0)
    assert [len(request.token_instants) for request in played] == [300] * 5


def test_any_mixture_of_faults_ends_with_an_empty_replica() -> None:
    """Submissions, aborts and knobs come at random instants; at the end every request has ended exactly once."""
    for seed in range(20):
        rng = Random(seed)
        simulation = Simulation(TIGHT, COSTS)
        hashes = [bytes([number]) for number in range(40)]
        played: list[SimulatedRequest] = []
        at = 0.0
        for _ in range(150):
            at += rng.expovariate(20.0)
            match rng.randrange(6):
                case 0 if played:
                    simulation.abort(at, rng.choice(played))
                case 1:
                    simulation.adjust(at, slots=rng.choice([0, 1, None]), kv_blocks=rng.choice([64, 80, None]))
                case 2:
                    simulation.adjust(at, hung=rng.random() < 0.5, decode_factor=rng.choice([1.0, 3.0]))
                case _:
                    prompt = rng.randint(1, 640)
                    played.append(
                        simulation.arrive(at, prompt, rng.randint(1, 100), hashes[: rng.randint(0, prompt // 16)])
                    )
            assert 0 <= simulation.pool.used <= simulation.pool.blocks

        simulation.adjust(at, hung=False, slots=None, kv_blocks=None)
        simulation.advance(at + 10_000)

        assert all(request.finished != (request.aborted_at is not None) for request in played)
        assert simulation.totals.finished + simulation.totals.aborted == len(played)
        assert (len(simulation.running), len(simulation.waiting), simulation.pool.used) == (0, 0, 0)


def test_a_request_longer_than_the_model_is_refused() -> None:
    with pytest.raises(ValueError, match="4096"):
        Simulation(ROOMY, COSTS).arrive(0.0, 4000, 97)


def test_time_does_not_run_backwards() -> None:
    simulation = Simulation(ROOMY, COSTS)
    simulation.advance(1.0)
    with pytest.raises(ValueError, match="earlier than the last"):
        simulation.arrive(0.5, 1, 1)
