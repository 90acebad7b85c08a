"""The truth about a run, its misses and its phases at fault, is computed from its simulated requests alone."""

from collections.abc import Callable
from random import Random

import pytest

from bench.incidents.engines import BUCKETS, CHUNKS_2048, EngineConfig
from bench.incidents.fault import Episode, Fault
from bench.incidents.kinds import BY_NAME, KINDS, MORE
from bench.incidents.play import Incident, pair_of, play
from bench.incidents.request import Request, Run, State, TruePhases
from bench.incidents.truth import Truth, truth_of, verdicts
from sidecar.objectives.objective import Aim, Aims, Objectives
from sidecar.timeline.outcome import Outcome


QUIET = TruePhases(0.01, 0.02, 0.10, 1.0, 0.0, 0.004)


def request(number: int, at: float, ttft: float | None, phases: TruePhases = QUIET) -> Request:
    """One streamed request of the interactive lane, 11 tokens, 10 ms apart."""
    made = Request(number, "interactive", 2000, 11, True, at)
    if ttft is not None:
        made.reads = [at + ttft + step * 0.01 for step in range(11)]
        made.events = [1] * 11
        made.ended_at = made.flushed_at = made.reads[-1]
        made.phases = phases
    return made


def over(number: int, at: float, ended_at: float, outcome: Outcome) -> Request:
    """A request that ended without a token."""
    made = request(number, at, None)
    made.ended_at, made.flushed_at, made.outcome = ended_at, ended_at, outcome
    return made


def run_of(
    requests: list[Request], states: list[State] | None = None, *, pods: int = 1, at_fault: tuple[int, ...] = (0,)
) -> Run:
    return Run(requests, states or [], 600.0, 1200.0, 1500.0, pods=pods, at_fault=at_fault)


def of_pods(pods: int, late: Callable[[int, int], bool]) -> list[Request]:
    """A request every second on pods in turn; it is late if `late` says so of its pod and second."""
    requests = []
    for number in range(1500):
        pod = number % pods
        made = request(number, float(number), 3.3 if late(pod, number) else 0.15)
        made.pod = pod
        requests.append(made)
    return requests


def usual() -> Run:
    return run_of([request(number, float(number), 0.15) for number in range(1500)])


def truth(run: Run, kind: str = "burst", engine: EngineConfig = CHUNKS_2048) -> Truth:
    return truth_of(engine, [BY_NAME[kind]], run, usual())


def test_a_lane_in_which_half_miss_must_page_and_its_excess_is_where_they_waited() -> None:
    queued = TruePhases(0.01, 3.0, 0.2, 1.0, 0.0, 0.004)
    requests = [
        request(number, float(number), 3.3, queued)
        if 600 <= number < 900 and number % 5
        else request(number, float(number), 0.15)
        for number in range(1500)
    ]

    found = truth(run_of(requests)).lanes["interactive", "ttft"]

    assert (found.must_page, found.may_page, found.proximate) == (True, True, "queue")
    assert found.root == {"queue"}
    assert found.misses == 240
    assert found.burns_at is not None
    assert 600 < found.burns_at < 720


def test_a_lane_that_keeps_its_promises_may_not_page() -> None:
    found = truth(usual()).lanes["interactive", "ttft"]

    assert (found.must_page, found.may_page, found.must_ticket, found.misses) == (False, False, False, 0)
    assert found.proximate is None


def test_a_burn_of_four_times_is_a_ticket() -> None:
    """A target of 95 % allows one miss in twenty; here one request in five misses, until the end of the run."""
    requests = [
        request(number, float(number), 2.5 if number >= 600 and number % 5 == 0 else 0.15) for number in range(2400)
    ]

    found = truth(Run(requests, [], 600.0, 2400.0, 2400.0)).lanes["interactive", "ttft"]

    assert (found.must_page, found.must_ticket) == (False, True)


def test_a_miss_falls_at_its_deadline_even_if_no_token_ever_comes() -> None:
    """During two minutes of silence every request misses, at its deadline two seconds later."""
    requests = [request(number, float(number), None if 600 <= number < 720 else 0.15) for number in range(1500)]

    found = truth(run_of(requests), "hang").lanes["interactive", "ttft"]

    assert (found.misses, found.must_page) == (120, True)


def test_who_leaves_before_the_threshold_counts_nowhere_and_who_fails_is_a_miss() -> None:
    requests = [request(number, float(number), 0.15) for number in range(700)]
    requests += [over(700, 700.0, 701.0, Outcome.CLIENT_CANCELLED), over(701, 701.0, 701.1, Outcome.ENGINE_UNREACHABLE)]

    found = truth(run_of(requests), "crash").lanes["interactive", "ttft"]

    assert (found.misses, found.requests) == (1, 101)
    assert found.proximate == "engine"


def test_a_pool_that_ran_full_while_requests_waited_makes_the_engine_right_too() -> None:
    full = [State(float(at), True, 5, 8, 1.0, 0, 0, 0, 0) for at in range(600, 1200, 5)]
    roomy = [State(float(at), True, 5, 8, 0.5, 0, 0, 0, 0) for at in range(600, 1200, 5)]
    requests = usual().requests

    assert truth(run_of(requests, full)).lanes["interactive", "ttft"].root == {"queue", "engine"}
    assert truth(run_of(requests, roomy)).lanes["interactive", "ttft"].root == {"queue"}
    assert truth(run_of(requests, full), "hop").lanes["interactive", "ttft"].root == {"stream"}


def test_the_pool_that_ran_full_is_that_of_a_pod_at_fault() -> None:
    """Pod 1 runs full; it counts if the fault hits it, and not if it is a bystander."""
    states = [
        State(float(at), True, 5, 8, 1.0 if pod == 1 else 0.5, 0, 0, 0, 0, pod)
        for at in range(600, 1200, 5)
        for pod in range(4)
    ]
    requests = of_pods(4, lambda _pod, _at: False)

    hit, beside = (run_of(requests, states, pods=4, at_fault=(pod,)) for pod in (1, 0))
    assert truth(hit).lanes["interactive", "ttft"].root == {"queue", "engine"}
    assert truth(beside).lanes["interactive", "ttft"].root == {"queue"}


def test_each_lane_has_three_sets_of_right_phases() -> None:
    """S2 is the injected cause's phase on every objective; S1 lies between it and the lenient set."""
    found = truth(usual(), "prefill-slow").lanes

    assert {key[1]: lane.phases for key, lane in found.items()} == {"ttft": {"prefill"}, "tpot": {"prefill"}}
    for lane in found.values():
        assert lane.phases <= lane.strict
        assert lane.strict <= lane.root


def test_a_truth_knows_its_heal_its_pods_and_those_at_fault() -> None:
    found = truth(run_of(usual().requests, pods=4, at_fault=(0, 1)))

    assert (found.heals_at, found.pods, found.at_fault) == (1200.0, 4, (0, 1))


# --- one bad pod of many -------------------------------------------------------------------------------------------------


def test_one_bad_pod_of_many_must_page_although_the_fleet_burns_too_slowly() -> None:
    """One of four pods is late, so a quarter of all requests; a target of 95 % pages at a half."""
    run = run_of(of_pods(4, lambda pod, at: pod == 0 and 600 <= at < 1200), pods=4)

    found = truth(run).lanes["interactive", "ttft"]

    assert (found.must_page, found.burns, found.may_page, found.bad_pods) == (True, True, True, (0,))
    assert found.burns_at is not None
    assert 600 < found.burns_at < 800


def test_a_pod_that_is_no_worse_than_the_others_must_not_page_alone() -> None:
    run = run_of(of_pods(4, lambda pod, at: 600 <= at < 1200 and (at // 4 + pod) % 4 == 0), pods=4)

    found = truth(run).lanes["interactive", "ttft"]

    assert (found.must_page, found.bad_pods) == (False, ())


def test_a_pod_that_the_fault_does_not_hit_is_no_bad_pod() -> None:
    run = run_of(of_pods(4, lambda pod, at: pod == 3 and 600 <= at < 1200), pods=4, at_fault=(0,))

    assert truth(run).lanes["interactive", "ttft"].bad_pods == ()


def test_where_the_fault_hits_every_pod_the_lane_is_one() -> None:
    run = run_of(of_pods(2, lambda _pod, at: 600 <= at < 1200), pods=2, at_fault=(0, 1))

    found = truth(run).lanes["interactive", "ttft"]

    assert (found.must_page, found.bad_pods) == (True, ())


def test_each_of_two_bad_pods_of_four_is_compared_with_those_that_are_well() -> None:
    run = run_of(of_pods(4, lambda pod, at: pod < 2 and 600 <= at < 1200), pods=4, at_fault=(0, 1))

    assert truth(run).lanes["interactive", "ttft"].bad_pods == (0, 1)


# --- little traffic ------------------------------------------------------------------------------------------------------


def test_a_lane_with_one_request_a_minute_must_page_when_six_minutes_of_them_miss() -> None:
    requests = [
        request(number, at, 3.3 if at >= 600 else 0.15)
        for number, at in enumerate(float(second) for second in range(0, 1500, 60))
    ]

    found = truth(run_of(requests)).lanes["interactive", "ttft"]

    assert (found.must_page, found.burns, found.may_page) == (True, True, True)


def test_a_lane_with_four_requests_a_minute_has_no_such_tier() -> None:
    """Seven misses in two minutes, and nothing else: six minutes of a lane with one request a minute."""
    requests = [request(number, float(number * 15), 3.3 if 600 <= number * 15 < 705 else 0.15) for number in range(100)]

    found = truth(run_of(requests)).lanes["interactive", "ttft"]

    assert (found.must_page, found.burns) == (False, False)


def test_of_two_faults_at_once_either_is_right() -> None:
    """A drawn incident names its two faults, and each is a kind of the table. The phase of either is right."""
    for seed in range(20):
        incident = BY_NAME["two-faults"].sample(CHUNKS_2048, 0.7, 0.5, Random(seed))
        assert len(incident.made_of) == 2
        assert set(incident.made_of) < set(BY_NAME)

    both = truth_of(CHUNKS_2048, [BY_NAME["prefill-slow"], BY_NAME["tokeniser"]], usual(), usual())
    assert both.lanes["interactive", "ttft"].root == {"prefill", "first_token"}


@pytest.mark.bench
@pytest.mark.parametrize(
    ("fault", "objective", "phase"),
    [
        (Fault(knobs={"front_end_extra_seconds": 3.0}), "ttft", "first_token"),
        (Fault(knobs={"decode_factor": 8.0}), "tpot", "decode"),
        (Fault(load={"interactive": 5.0, "code": 5.0, "batch": 5.0}), "ttft", "queue"),
    ],
    ids=["front end", "decode", "load"],
)
def test_a_known_delay_is_found_in_its_phase(fault: Fault, objective: str, phase: str) -> None:
    """Runs the real simulation with the fault, and compares it with the paired run without it."""
    incident = Incident((Episode(fault),))
    run, pair = play(CHUNKS_2048, 2, incident, factor=0.6), play(CHUNKS_2048, 2, pair_of(incident), factor=0.6)

    found = truth_of(CHUNKS_2048, [BY_NAME["overload"]], run, pair).lanes["interactive", objective]

    assert (found.proximate, found.must_page) == (phase, True)


def test_a_stream_that_stands_still_is_missed_at_its_threshold_without_the_pauses_of_its_client() -> None:
    """Each of four stands still for 5 s behind its sixth output, or at its end; two of their clients pause meanwhile."""
    objectives = Objectives({"interactive": dict.fromkeys(BUCKETS.labels, Aims(stall=Aim(2.0, 0.99)))})
    stands = [request(number, 100.0 * number, 0.1) for number in range(5)]
    for made in stands[1:4]:
        made.reads[6:] = [at + 5.0 for at in made.reads[6:]]
        made.ended_at = made.reads[-1]
    began = [made.received_at + 0.15 for made in stands]
    stands[2].pauses = [(began[2] + 1.0, began[2] + 3.5), (began[2] + 4.0, began[2] + 4.9)]
    stands[3].pauses = [(began[3] + 1.0, began[3] + 3.5)]
    stands[4].ended_at = stands[4].reads[-1] + 5.0

    found = verdicts(run_of(stands), objectives)["interactive", "stall"]

    assert [each.missed for each in found] == [False, True, False, True, True]
    assert [found[1].at - began[1], found[3].at - began[3]] == pytest.approx([2.0, 4.5])


def test_every_kind_says_what_is_right_for_every_objective_in_words_of_one_closed_set() -> None:
    phases = {"queue", "prefill", "first_token", "unattributed", "decode", "stream", "engine", "sidecar"}

    assert len(BY_NAME) == len([*KINDS, *MORE])
    for kind in BY_NAME.values():
        if not kind.causes:
            # It is made of other kinds.
            continue
        for roots in (kind.roots, *kind.own_lane.values()):
            assert set(roots) == {"ttft", "tpot", "e2e", "stall"}
            assert all(labels and labels <= phases for labels in roots.values())
