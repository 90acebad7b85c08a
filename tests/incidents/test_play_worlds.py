"""Each unkindness of a world does what its docstring says, and none of them changes the kind world."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import pairwise
from statistics import fmean

import pytest

from bench.incidents.engines import CHUNKS_2048, DECODE_HEAVY
from bench.incidents.fault import Episode, Fault, Hop
from bench.incidents.play import (
    HEALTHY_SECONDS,
    LUNCH_SECONDS,
    NO_INCIDENT,
    Incident,
    healthy,
    pair_of,
    play,
    play_both,
)
from bench.incidents.pod import ERROR_SECONDS
from bench.incidents.replica import SECOND_MODEL
from bench.incidents.request import Request, Run
from bench.incidents.traffic import Day
from bench.incidents.world import KIND_WORLD, Throttle, Topology, World
from sidecar.timeline.outcome import Outcome


pytestmark = pytest.mark.bench

QUIET = 0.3
"""Load factor of most runs here: enough requests to count, few enough to be quick."""
HARSH = Throttle(0.01)


def incident(fault: Fault, ends: float | None = None, setup: Fault | None = None) -> Incident:
    return Incident((Episode(fault, 0.0, ends),), Fault() if setup is None else setup)


@cache
def quiet(world: World = KIND_WORLD) -> Run:
    """A healthy run of ten minutes."""
    return healthy(CHUNKS_2048, 3, 600.0, Day([1.0], 600.0), world=world, factor=QUIET)


def during(run: Run, pod: int = 0) -> list[Request]:
    return [each for each in run.of_pod(pod).requests if run.fault_at <= each.received_at < run.recovers_at]


def done(run: Run) -> list[Request]:
    """Requests with a whole answer, streamed."""
    return [each for each in run.requests if each.outcome is Outcome.OK and each.ended_at is not None and each.reads]


def as_data(requests: Sequence[Request]) -> list[dict[str, object]]:
    return [{**asdict(each), "number": 0} for each in requests]


def pace(request: Request) -> float:
    return (request.reads[-1] - request.reads[0]) / (request.output_tokens - 1)


# --- fleets -----------------------------------------------------------------------------------------------------------


def test_one_pod_of_a_fleet_lives_as_if_it_were_alone() -> None:
    """The first pod's run is the run of the kind world, to the last bit, whatever the others do."""
    faults = incident(Fault(load={"code": 3.0}, knobs={"prefill_factor": 2.0}))
    alone = play(CHUNKS_2048, 7, faults, factor=QUIET)
    assert alone == play(CHUNKS_2048, 7, faults, world=World(), factor=QUIET)

    first = play(CHUNKS_2048, 7, faults, world=World(pods=3), factor=QUIET).of_pod(0)

    assert as_data(first.requests) == as_data(alone.requests)
    assert first.states == alone.states


def test_requests_of_all_pods_are_in_one_order_and_no_two_pods_have_the_same() -> None:
    run = quiet(World(pods=4))

    assert [each.number for each in run.requests] == list(range(len(run.requests)))
    assert all(one.received_at <= other.received_at for one, other in pairwise(run.requests))
    assert all(one.at <= other.at for one, other in pairwise(run.states))
    counts = Counter(each.pod for each in run.requests)
    assert sorted(counts) == sorted({state.pod for state in run.states}) == [0, 1, 2, 3]
    assert max(counts.values()) < 1.3 * min(counts.values())
    assert len({each.received_at for each in run.requests}) == len(run.requests)


def test_a_fault_hits_the_pods_at_fault_and_a_setup_hits_all() -> None:
    """Pods that are not at fault have the same requests as in the pair, to the last bit."""
    world = World(pods=4, at_fault=2)
    faults = incident(Fault(load={"code": 3.0}), setup=Fault(outputs={"interactive": 2.0}))
    run, pair = (play(CHUNKS_2048, 5, each, world=world, factor=QUIET) for each in (faults, pair_of(faults)))

    def code(of: Run, pod: int) -> int:
        return sum(each.lane == "code" for each in during(of, pod))

    for pod in (0, 1):
        assert code(run, pod) == pytest.approx(3 * code(pair, pod), rel=0.25)
    for pod in (2, 3):
        assert as_data(run.of_pod(pod).requests) == as_data(pair.of_pod(pod).requests)
        lengths = [each.output_tokens for each in run.of_pod(pod).requests if each.lane == "interactive"]
        assert fmean(lengths) == pytest.approx(2 * CHUNKS_2048.lane("interactive").output_tokens, rel=0.1)
    assert (run.pods, run.at_fault) == (4, (0, 1))


def test_a_run_and_its_pair_may_be_played_together() -> None:
    """The same runs as apart; pods without the fault are played once, and their requests are numbered in each."""
    world = World(pods=3, at_fault=1)
    faults = incident(Fault(load={"code": 3.0}))

    run, pair = play_both(CHUNKS_2048, 5, faults, world=world, factor=QUIET)

    assert run == play(CHUNKS_2048, 5, faults, world=world, factor=QUIET)
    assert pair == play(CHUNKS_2048, 5, pair_of(faults), world=world, factor=QUIET)


def test_the_sidecars_of_the_pods_at_fault_restart() -> None:
    world = World(pods=4, at_fault=2, sidecar_restarts_after_seconds=90.0)

    run = quiet(world)

    assert run.sidecar_restarts_at == dict.fromkeys((0, 1), run.fault_at + 90.0)
    assert quiet().sidecar_restarts_at == {}


def test_all_engines_of_a_fleet_report_in_time_or_all_late() -> None:
    for seed in range(6):
        run = healthy(CHUNKS_2048, seed, 120.0, Day([1.0], 120.0), world=World(pods=4), factor=QUIET)
        late = {each.report_late_seconds > 0 for each in run.requests if each.report is not None}
        assert len(late) == 1


def test_the_load_of_a_world_is_a_share_of_saturation() -> None:
    run = play(CHUNKS_2048, 3, NO_INCIDENT, world=World(utilisation=0.2))

    factor = len(run.requests) / run.ends_at / sum(load.per_second for load in CHUNKS_2048.lanes)
    assert factor == pytest.approx(0.2 * CHUNKS_2048.saturates_at, rel=0.1)


# --- engines ----------------------------------------------------------------------------------------------------------


def test_noise_changes_each_steps_length_and_not_their_mean() -> None:
    noisy, still = quiet(World(step_noise=0.2)), quiet()

    def gaps(run: Run) -> list[float]:
        return [later - earlier for each in done(run) for earlier, later in pairwise(each.reads)]

    assert [each.received_at for each in noisy.requests] == [each.received_at for each in still.requests]
    assert len({round(gap, 6) for gap in gaps(noisy)}) > 2 * len({round(gap, 6) for gap in gaps(still)})
    assert fmean(gaps(noisy)) == pytest.approx(fmean(gaps(still)), rel=0.03)


def test_a_speculating_engine_writes_fewer_events_than_tokens_and_is_faster() -> None:
    speculating, plain = quiet(World(tokens_a_step=1.8)), quiet()

    tokens = sum(each.output_tokens - 1 for each in done(speculating))
    events = sum(sum(each.events) - 1 for each in done(speculating))
    assert tokens / events == pytest.approx(1.8, rel=0.05)
    assert all(sum(each.events) == each.output_tokens for each in done(plain))
    fast, slow = (fmean(pace(each) for each in done(run)) for run in (speculating, plain))
    assert fast == pytest.approx(slow / 1.8, rel=0.1)


@pytest.mark.parametrize("topology", list(Topology))
def test_every_topology_serves_its_requests_and_loses_them_in_a_crash(topology: Topology) -> None:
    world = World(topology=topology, step_noise=0.1)
    run = play(CHUNKS_2048, 5, incident(Fault(down=True), 60.0), world=world, factor=QUIET)

    assert {each.outcome for each in during(run) if each.received_at < run.fault_at + 60.0} == {
        Outcome.ENGINE_UNREACHABLE
    }
    early = [each for each in run.requests if each.received_at < run.fault_at - 60.0]
    assert {each.outcome for each in early} == {Outcome.OK}
    for each in done(run):
        assert sum(each.events) == each.output_tokens
        assert each.phases is not None
        parts = (each.phases.front_end, each.phases.queue, each.phases.prefill, each.phases.decode)
        assert min(parts) >= 0.0
        assert each.reads[-1] - each.received_at == pytest.approx(sum(parts) + each.phases.delivery)
    assert {state.process for state in run.states if state.at > run.fault_at + 61.0} == {1}


def test_only_the_lane_of_the_second_model_asks_it() -> None:
    run = quiet(World(topology=Topology.MODELS))

    models = {(each.lane, each.model) for each in run.requests}
    assert models == {("interactive", "llama"), ("code", "llama"), ("batch", SECOND_MODEL)}
    assert {each.model for each in quiet().requests} == {"llama"}


def test_a_disaggregated_engines_decode_is_not_slowed_by_its_prefill() -> None:
    """Slow prompts make first tokens late. The rest of each answer comes at the usual pace."""
    slow = incident(Fault(knobs={"prefill_factor": 4.0}))
    world = World(topology=Topology.DISAGGREGATED)
    run, pair = (play(CHUNKS_2048, 5, each, world=world, factor=QUIET) for each in (slow, pair_of(slow)))
    both = [(one, other) for one, other in zip(during(run), during(pair), strict=True) if one.report and other.report]

    assert len(both) > 100
    assert fmean(one.report[1] for one, _ in both if one.report) > 3 * fmean(
        other.report[1] for _, other in both if other.report
    )
    assert fmean(one.report[2] for one, _ in both if one.report) == pytest.approx(
        fmean(other.report[2] for _, other in both if other.report), rel=0.05
    )


def test_a_slow_transfer_of_kv_caches_is_time_of_decode() -> None:
    slow = incident(Fault(transfer_seconds=0.4))
    world = World(topology=Topology.DISAGGREGATED)
    run, pair = (play(CHUNKS_2048, 5, each, world=world, factor=QUIET) for each in (slow, pair_of(slow)))

    more = [
        one.report[2] - other.report[2]
        for one, other in zip(during(run), during(pair), strict=True)
        if one.report and other.report
    ]
    assert fmean(more) == pytest.approx(0.4, abs=0.05)


def test_a_share_of_requests_fails_at_once_with_an_error() -> None:
    run = play(CHUNKS_2048, 5, incident(Fault(errors=0.3)), factor=QUIET)

    failed = [each for each in run.requests if each.outcome is Outcome.ENGINE_ERROR]
    assert all(run.fault_at <= each.received_at < run.recovers_at for each in failed)
    assert len(failed) / len(during(run)) == pytest.approx(0.3, abs=0.05)
    assert {(each.phases, len(each.reads), each.report) for each in failed} == {(None, 0, None)}
    took = [each.ended_at - each.received_at for each in failed if each.ended_at]
    assert took == pytest.approx([ERROR_SECONDS] * len(failed))


def test_a_share_of_requests_is_turned_away_and_is_none_of_those_that_fail() -> None:
    run = play(CHUNKS_2048, 5, incident(Fault(errors=0.3, rejected=0.5)), factor=QUIET)

    outcomes = Counter(each.outcome for each in during(run))
    assert outcomes[Outcome.ENGINE_ERROR] / len(during(run)) == pytest.approx(0.3, abs=0.05)
    assert outcomes[Outcome.REJECTED] / len(during(run)) == pytest.approx(0.35, abs=0.05)


def test_at_lunch_the_load_rises_until_the_fault_has_begun_and_stays() -> None:
    run, steady = (play(CHUNKS_2048, 5, NO_INCIDENT, world=World(lunch=lunch), factor=QUIET) for lunch in (True, False))

    def arrived(of: Run, begins: float, ends: float) -> int:
        return sum(begins <= each.received_at < ends for each in of.requests)

    early = 0.75 * LUNCH_SECONDS
    assert arrived(run, 0.0, HEALTHY_SECONDS - early) < 0.65 * arrived(steady, 0.0, HEALTHY_SECONDS - early)
    late = (HEALTHY_SECONDS + 0.25 * LUNCH_SECONDS + 60.0, run.ends_at)
    assert arrived(run, *late) == pytest.approx(arrived(steady, *late), rel=0.2)


# --- the way from engine to client ------------------------------------------------------------------------------------


def test_events_of_several_tokens_come_with_the_last_of_them() -> None:
    run, plain = quiet(World(stream_interval=10)), quiet()

    for coarse, fine in zip(done(run), done(plain), strict=True):
        assert coarse.reads == [*fine.reads[::10], *fine.reads[-1:]][: len(coarse.reads)]
        assert sum(coarse.events) == len(coarse.reads) < len(fine.reads)
        assert (coarse.reads[-1], coarse.ended_at) == (fine.reads[-1], fine.ended_at)


def test_a_share_of_reads_comes_together_with_the_next() -> None:
    run, plain = quiet(World(coalesced=0.25)), quiet()

    merged, single = sum(len(each.reads) for each in done(run)), sum(len(each.reads) for each in done(plain))
    assert merged / single == pytest.approx(0.75, abs=0.02)
    assert [sum(each.events) for each in done(run)] == [sum(each.events) for each in done(plain)]


def test_a_throttled_sidecar_does_nothing_while_it_stands_still() -> None:
    """All that it does in a period, it does in the first 60 ms of it, and each pod has periods of its own."""
    run = quiet(World(throttle=Throttle(0.06), pods=2))

    begins = []
    for pod in range(2):
        instants = [at for each in run.of_pod(pod).requests for at in (each.received_at, each.ended_at, *each.reads)]
        # The periods' beginnings: the instant of a period at which most reads come.
        begins.append(Counter(round(at % 0.1, 4) % 0.1 for at in instants if at is not None).most_common(1)[0][0])
        inside = [(at - begins[pod]) % 0.1 for at in instants if at is not None]
        assert sum(0.0605 < each < 0.0995 for each in inside) == 0
    assert begins[0] != begins[1]
    assert run.throttled == dict.fromkeys((0, 1), Throttle(0.06))


def test_a_harsh_quota_of_a_fault_makes_reads_late_on_the_pods_at_fault() -> None:
    """The engine's own report shows no delay."""
    harsh = incident(Fault(throttle=HARSH))
    world = World(pods=2, throttle=Throttle(0.06))
    run, pair = (play(CHUNKS_2048, 5, each, world=world, factor=QUIET) for each in (harsh, pair_of(harsh)))

    def reads_a_second(of: Run, pod: int) -> float:
        streams = [each for each in during(of, pod) if len(each.reads) > 20]
        return fmean(len(each.reads) / (each.reads[-1] - each.reads[0]) for each in streams)

    assert reads_a_second(run, 0) < 0.5 * reads_a_second(pair, 0)
    assert reads_a_second(run, 1) == reads_a_second(pair, 1)
    decodes = [fmean(each.report[2] for each in during(of) if each.report) for of in (run, pair)]
    assert decodes[0] == pytest.approx(decodes[1], rel=0.05)
    assert run.throttled == {0: HARSH, 1: Throttle(0.06)}
    assert pair.throttled == {0: Throttle(0.06), 1: Throttle(0.06)}


def test_a_client_that_left_before_the_sidecar_ran_has_given_up() -> None:
    """The sidecar stands still for a minute at a time, which is longer than any client waits that gives up."""
    run = play(CHUNKS_2048, 5, incident(Fault(throttle=Throttle(0.5, 60.0))), factor=QUIET)

    left = [each for each in run.requests if each.outcome is Outcome.CLIENT_CANCELLED]
    assert len(left) / len(during(run)) == pytest.approx(0.2, abs=0.06)
    assert all(each.ended_at is not None and each.ended_at >= each.received_at for each in left)


def test_a_connection_that_breaks_loses_what_was_not_read() -> None:
    """Tokens that a hop still holds when the engine dies never come, and nothing is read after the end."""
    faults = Incident((Episode(Fault(hop=Hop(1000, 60.0))), Episode(Fault(down=True), 300.0, 400.0)))
    run = play(DECODE_HEAVY, 5, faults, world=World(throttle=HARSH, coalesced=0.3), factor=0.8)

    broken = [each for each in run.requests if each.outcome in (Outcome.ENGINE_ERROR, Outcome.ENGINE_TRUNCATED)]
    assert broken
    for each in broken:
        assert each.ended_at is not None
        assert all(at <= each.ended_at + 0.01 for at in each.reads)


def test_all_unkindnesses_together_give_a_run_that_is_the_same_each_time() -> None:
    world = World(
        utilisation=0.25,
        step_noise=0.2,
        length_sigma=0.7,
        coalesced=0.2,
        throttle=Throttle(0.06),
        stream_interval=4,
        tokens_a_step=1.8,
        topology=Topology.RANKS,
        pods=2,
    )
    faults = incident(Fault(load={"code": 2.0}, knobs={"decode_factor": 2.0}))

    one, other = (play(CHUNKS_2048, 9, faults, world=world) for _ in range(2))

    assert one == other
    assert one != play(CHUNKS_2048, 9, faults, world=replace(world, step_noise=0.1))
    for each in done(one):
        assert each.reads[0] >= each.received_at
        assert all(earlier < later for earlier, later in pairwise(each.reads))
        assert each.ended_at is not None
        assert each.flushed_at is not None
        assert each.reads[-1] <= each.ended_at <= each.flushed_at
