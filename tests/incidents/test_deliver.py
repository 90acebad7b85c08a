"""The way from engine to client in each world: the order of its parts, the sidecar's quota, and repeated deliveries."""

from dataclasses import replace
from itertools import pairwise

import pytest

from bench.incidents.deliver import Delivery, Quota
from bench.incidents.fault import NOTHING, Episode, Fault, Hop, SlowClients
from bench.incidents.request import Run
from bench.incidents.traffic import Active, Asked
from bench.incidents.world import KIND_WORLD, Throttle, World


FAULT_AT, RECOVERS_AT = 100.0, 200.0
ASKED = Asked(
    at=150.0, lane="code", prompt_tokens=100, output_tokens=200, streaming=True, prefix="", shared_tokens=0, luck=0.5
)
SENT = [150.5 + number * 0.01 for number in range(200)]
MILD, HARSH = Throttle(0.06), Throttle(0.01)
EVERY_UNKINDNESS = World(coalesced=0.3, throttle=MILD, stream_interval=3, tokens_a_step=1.8)


def active(fault: Fault = NOTHING) -> Active:
    run = Run([], [], FAULT_AT, RECOVERS_AT, 300.0)
    return Active([] if fault == NOTHING else [Episode(fault)], run)


def test_in_the_kind_world_each_token_is_read_when_it_is_sent() -> None:
    answer = Delivery(KIND_WORLD, active(), "1").delivered(0, ASKED, SENT, complete=True)

    assert (answer.reads, answer.events, answer.pauses) == (SENT, [1] * 200, [])
    assert answer.last_read_at == SENT[-1] < answer.flushed_at


def test_an_event_of_several_tokens_comes_with_its_last() -> None:
    answer = Delivery(World(stream_interval=10), active(), "1").delivered(0, ASKED, SENT, complete=True)

    assert answer.reads == [*SENT[::10], SENT[-1]]
    assert sum(answer.events) == 21


def test_tokens_of_one_step_are_one_event_if_the_engine_speculates() -> None:
    sent = [at for at in SENT for _ in range(3)]

    one_event = Delivery(World(tokens_a_step=1.8), active(), "1").delivered(0, ASKED, sent, complete=True)
    own_events = Delivery(KIND_WORLD, active(), "1").delivered(0, ASKED, sent, complete=True)

    assert one_event.reads == own_events.reads == SENT
    assert (one_event.events, own_events.events) == ([1] * 200, [3] * 200)


def test_merged_reads_lose_no_event_and_differ_between_requests() -> None:
    delivery = Delivery(World(coalesced=0.3), active(), "1")

    one, other = (delivery.delivered(number, ASKED, SENT, complete=True) for number in range(2))

    assert sum(one.events) == sum(other.events) == 200
    assert len(one.reads) == pytest.approx(140, abs=25)
    assert one.reads != other.reads


@pytest.mark.parametrize("fault", [NOTHING, Fault(hop=Hop(8, 5.0))], ids=["without a hop", "with a hop"])
def test_an_answer_that_is_delivered_again_when_it_has_grown_begins_the_same(fault: Fault) -> None:
    """The last reads of an unfinished answer may still change; all others are the same in the finished one."""
    delivery = Delivery(EVERY_UNKINDNESS, active(fault), "1")
    whole = delivery.delivered(7, ASKED, SENT, complete=True)

    assert delivery.delivered(7, ASKED, SENT, complete=True) == whole
    for made in (40, 90, 160):
        part = delivery.delivered(7, ASKED, SENT[:made], complete=False)
        settled = max(0, len(part.reads) - 3)
        assert part.reads[:settled] == whole.reads[:settled]
        assert part.events[:settled] == whole.events[:settled]


@pytest.mark.parametrize(
    "fault",
    [NOTHING, Fault(hop=Hop(8, 5.0)), Fault(slow_clients={"code": SlowClients(1.0, 20.0)}), Fault(throttle=HARSH)],
    ids=["no fault", "hop", "slow client", "harsh quota"],
)
def test_with_every_unkindness_reads_are_in_order_and_each_once(fault: Fault) -> None:
    answer = Delivery(EVERY_UNKINDNESS, active(fault), "1").delivered(3, ASKED, SENT, complete=True)

    assert all(earlier < later for earlier, later in pairwise(answer.reads))
    assert all(began < ended for began, ended in answer.pauses)
    assert len(answer.reads) == len(answer.events)
    assert SENT[0] <= answer.reads[0] <= answer.last_read_at == answer.reads[-1] < answer.flushed_at
    assert answer.last_read_at >= SENT[-1]


def test_a_hop_and_a_slow_client_hold_tokens_and_not_events() -> None:
    """With ten tokens in each event, a hop of 50 tokens passes on five events, and a client's pace is in tokens."""
    world = replace(KIND_WORLD, stream_interval=10)
    fault = Fault(hop=Hop(50, 60.0))
    slow = Fault(slow_clients={"code": SlowClients(1.0, 20.0)})

    hopped = Delivery(world, active(fault), "1").delivered(0, ASKED, SENT, complete=True)
    slowly = Delivery(world, active(slow), "1").delivered(0, ASKED, SENT, complete=True)

    assert hopped.events[0] == 5
    assert slowly.flushed_at - SENT[0] == pytest.approx(200 / 20.0, rel=0.1)


def test_an_answer_that_is_not_streamed_is_read_once_when_the_sidecar_runs() -> None:
    delivery = Delivery(World(throttle=HARSH), active(), "1")

    answer = delivery.delivered(0, replace(ASKED, streaming=False), SENT, complete=True)

    assert (answer.reads, answer.events) == ([], [])
    assert answer.last_read_at == delivery.quota.runs_at(SENT[-1]) > SENT[-1]


def test_a_quota_of_a_fault_holds_while_the_fault_lasts() -> None:
    """Before and after, the sidecar has the quota of its world, or none."""
    quota = Quota(active(Fault(throttle=HARSH)), None, 0.0)

    assert quota.runs_at(FAULT_AT - 0.05) == FAULT_AT - 0.05
    assert quota.runs_at(FAULT_AT + 0.05) == pytest.approx(FAULT_AT + 0.1)
    assert quota.runs_at(RECOVERS_AT + 0.05) == RECOVERS_AT + 0.05
    mild = Quota(active(Fault(throttle=HARSH)), MILD, 0.0)
    assert mild.runs_at(FAULT_AT - 0.07) == FAULT_AT - 0.07
    assert mild.runs_at(FAULT_AT - 0.02) == pytest.approx(FAULT_AT)


def test_reads_across_the_end_of_a_quota_lose_no_event_and_stay_in_order() -> None:
    """Until the fault is over a read comes with each period, then one with each token."""
    instants = [RECOVERS_AT - 1.0 + number * 0.01 for number in range(200)]
    quota = Quota(active(Fault(throttle=HARSH)), None, 0.033)

    reads, counts = quota.reads(instants, [1] * 200)

    assert sum(counts) == 200
    assert all(earlier < later for earlier, later in pairwise(reads))
    assert sum(at < RECOVERS_AT for at in reads) < 25
    assert sum(at >= RECOVERS_AT for at in reads) > 90
