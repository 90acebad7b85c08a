"""The slowest one percent of each lane is taken apart exactly: every phase, by each latency, and nothing from too few requests."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.accounts.account_ring import AccountRing
from sidecar.accounts.account_row import LATENCIES, NUMBER_OF_REASON, ONE_CHOICE, ROW, STREAMED
from sidecar.accounts.slowest import LEAST_REQUESTS, ROWS_AT_ONCE, Slowest, SlowestQuestion, parts_of, slowest_of
from sidecar.history.slices import run_now
from sidecar.ledger.account import Phase, Reason
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.objectives.objective import Objective
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from tests.accounts.closed import ring_of, streamed, whole


def asked(ring: AccountRing) -> dict[tuple[str, str], Slowest]:
    return {(one.lane, one.objective.value): one for one in run_now(slowest_of(ring, 100.0)).of}


def test_the_slowest_of_each_latency_are_taken_apart() -> None:
    """Two of 200 streams waited long, and two others decoded slowly: each pair is the slowest by its own latency."""
    usual = [streamed(0.25) for _ in range(196)]
    ring = ring_of([streamed(4.0), streamed(6.0), *usual, streamed(0.25, gap=1.0), streamed(0.25, gap=2.0)])

    found = asked(ring)

    assert found["chat", "ttft"] == Slowest(
        lane="chat",
        objective=Objective.TTFT,
        requests=200,
        slowest=2,
        least_seconds=4.75,
        mean_seconds=5.75,
        phases={Phase.QUEUE: 5.0, Phase.PREFILL: 0.5, Phase.FIRST_TOKEN: 0.25},
        missed=2,
        prompt_tokens=700.0,
        cached_tokens=512.0,
        completion_tokens=9.0,
    )
    pace = found["chat", "tpot"]
    assert (pace.least_seconds, pace.mean_seconds, pace.phases, pace.missed) == (1.0, 1.5, {Phase.DECODE: 1.5}, 0)
    assert ("chat", "e2e") not in found


def test_lanes_and_answers_that_are_not_streamed_stand_apart() -> None:
    """One lane's slow requests are not hidden by another's, and a whole answer has no first token."""
    ring = ring_of([*(whole(2.0 + number / 64) for number in range(100)), *(streamed(0.5, lane="batch"),) * 150])

    found = asked(ring)

    assert list(found) == [("batch", "ttft"), ("batch", "tpot"), ("chat", "e2e")]
    slow = found["chat", "e2e"]
    assert (slow.requests, slow.slowest, slow.mean_seconds) == (100, 1, 2.0 + 99 / 64)
    assert slow.phases == {Phase.QUEUE: slow.mean_seconds / 2, Phase.UNATTRIBUTED: slow.mean_seconds / 2}


def test_from_a_hundred_requests_on_there_is_an_answer() -> None:
    """One percent of 99 requests is none: the answer is their number, and no time."""
    too_few = asked(ring_of([streamed(1.0)] * (LEAST_REQUESTS - 1)))["chat", "ttft"]
    enough = asked(ring_of([streamed(1.0)] * LEAST_REQUESTS))["chat", "ttft"]
    one_more = asked(ring_of([streamed(1.0)] * (LEAST_REQUESTS + 1)))["chat", "ttft"]

    assert too_few == Slowest("chat", Objective.TTFT, 99)
    assert (enough.slowest, one_more.slowest) == (1, 2)


def test_only_requests_that_ended_well_count() -> None:
    failed = replace(streamed(9.0), outcome=Outcome.ENGINE_TRUNCATED, ledger=None)

    assert asked(ring_of([failed] * 200)) == {}


def test_an_answer_before_the_end_of_its_upload_has_no_latency() -> None:
    """Its outcome is ok and its time is not known: it was neither fast nor slow."""
    early = replace(whole(9.0), marks=Marks(accepted_at=0.0, ended_at=9.0, flushed_at=9.0), ledger=None)
    usual = [whole(2.0 + number / 64) for number in range(150)]

    assert asked(ring_of([*usual, early, early])) == asked(ring_of(usual))


def test_a_first_token_that_a_hop_held_back_is_stream() -> None:
    """The engine decoded before the first token came here: that time is no queue, no prefill and no front end."""
    ring = ring_of([streamed(0.5, held=2.0)] * 100)

    assert asked(ring)["chat", "ttft"].phases == {
        Phase.QUEUE: 0.5,
        Phase.PREFILL: 0.5,
        Phase.FIRST_TOKEN: 0.25,
        Phase.STREAM: 2.0,
    }


def test_time_before_the_first_token_that_no_source_splits_is_unattributed() -> None:
    """It is exported as it is, and an answer that was held back takes no decode into its time to first token."""
    unsplit = asked(ring_of([streamed(0.5, split=False)] * 100))
    held_back = ring_of([streamed(0.5, gap=1e-6, tokens=400, split=False)])

    assert unsplit["chat", "ttft"].phases == {Phase.UNATTRIBUTED: 1.25}
    assert parts_of(held_back.row(0), Objective.TTFT) == {Phase.UNATTRIBUTED: 1.25}
    assert asked(held_back)["chat", "ttft"].requests == 1
    assert ("chat", "tpot") not in asked(held_back)


def test_a_time_in_which_the_client_did_not_read_is_stream() -> None:
    account = streamed(0.5)
    ledger = close_ledger(
        replace(account.marks, paused_seconds=1.0), streaming=True, report=EngineReport(0.5, 0.5, None)
    )
    ring = ring_of([replace(account, ledger=ledger)])

    assert parts_of(ring.row(0), Objective.TPOT) == {Phase.DECODE: 1.0 / 8, Phase.STREAM: 1.0 / 8}


def test_estimated_phases_are_counted() -> None:
    account = streamed(0.5)
    assert account.ledger is not None
    ring = ring_of([replace(account, ledger=replace(account.ledger, reason=Reason.ESTIMATED))] * 200)

    assert asked(ring)["chat", "ttft"].estimated == 2


QUEUES = st.lists(st.integers(0, 400).map(lambda number: number / 8), min_size=LEAST_REQUESTS, max_size=450)


@pytest.mark.long
@given(QUEUES)
def test_it_is_what_sorting_all_of_them_would_give(queues: list[float]) -> None:
    """Any order, any ties: number, limit and mean of the slowest are those of a sorted list."""
    found = asked(ring_of([streamed(queue) for queue in queues]))["chat", "ttft"]

    slowest = sorted(queue + 0.75 for queue in queues)[-ceil(len(queues) / 100) :]
    assert (found.requests, found.slowest, found.least_seconds) == (len(queues), len(slowest), slowest[0])
    assert found.mean_seconds == pytest.approx(sum(slowest) / len(slowest))
    assert found.phases is not None
    assert sum(found.phases.values()) == pytest.approx(found.mean_seconds)


def test_rows_may_be_overwritten_while_it_is_answered() -> None:
    """Requests that close meanwhile are not in the answer, and those that they overwrite are gone: no row is read twice."""
    rows = 4 * ROWS_AT_ONCE
    ring = ring_of([streamed(8.0)] * rows, rows=rows)
    asking = slowest_of(ring, 100.0)
    next(asking)
    for _ in range(2 * ROWS_AT_ONCE):
        ring.add(streamed(30.0), 10.0, ())

    found = {one.objective: one for one in run_now(asking).of}[Objective.TTFT]

    assert found.requests == rows - ROWS_AT_ONCE, "the first slice was read before, and the second one is gone"
    assert found.mean_seconds == 8.75


def test_the_span_is_the_time_for_which_all_requests_are_kept() -> None:
    """As long as nothing is overwritten, it is the time since the process began; else since the end of the oldest kept."""
    ring = AccountRing(2 * ROW.size, began_at=40.0)
    spans = []
    for at in (50.0, 60.0, 70.0):
        marks = Marks(accepted_at=at - 5.0, received_at=at - 5.0)
        ring.add(replace(streamed(1.0), marks=marks, ledger=None, outcome=Outcome.ENGINE_ERROR), at, ())
        spans.append(run_now(slowest_of(ring, 100.0)).span_seconds)

    assert spans == [60.0, 60.0, 40.0]


def test_an_answer_is_given_again_for_some_seconds() -> None:
    """Ten people who watch cost as much as one; a fuller ring is asked less often."""
    ring = ring_of([streamed(1.0)] * 100)
    question = SlowestQuestion(ring)
    first = run_now(question.ask(100.0))
    ring.add(streamed(1.0), 101.0, ())

    again, later = run_now(question.ask(104.9)), run_now(question.ask(105.1))

    assert again is first
    assert (first.requests, later.requests) == (100, 101)


def test_the_short_way_of_reading_a_row_reads_the_same() -> None:
    ring = ring_of([streamed(0.5)])
    row = ring.row(0)

    ((decode, ttft, whole_seconds, output, completion, lane, flags, reason),) = ring.read(0, 1, LATENCIES)

    assert (LATENCIES.size, decode, ttft) == (ROW.size, row.phases[Phase.DECODE], row.ttft_seconds)
    assert (whole_seconds, output, completion) == (row.whole_seconds, row.output_seconds, row.completion_tokens)
    assert (ring.lanes[lane], flags, reason) == (
        "chat",
        STREAMED | ONE_CHOICE | 1 << list(Objective).index(Objective.TTFT),
        NUMBER_OF_REASON[Reason.IN_BAND],
    )
