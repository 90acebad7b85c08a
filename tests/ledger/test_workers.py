"""One report of several workers': put together only where each is told apart, waited for where it may come, and never another's."""

import dataclasses
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.ledger import workers as workers_module
from sidecar.ledger.phase_parts import Part, StatedPart
from sidecar.ledger.report import NO_REPORT, EngineReport, KeyedReport, SpanRequest, span_key
from sidecar.ledger.workers import BELIEVED_AFTER, SHARED_SECONDS, Workers
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks


STREAM = Marks(
    accepted_at=10.0,
    received_at=10.0,
    first_token_at=11.0,
    last_token_at=13.0,
    ended_at=13.0,
    flushed_at=13.0,
    output_events=30,
)
WHOLE = Marks(accepted_at=10.0, received_at=10.0, ended_at=13.0, flushed_at=13.0, usage=Usage(600, None, 40))
ONE = EngineReport(0.3, 0.6, 2.0, usage=Usage(600, None, 40), ttft_seconds=0.95)
PREFILL = EngineReport(0.1, 0.4, 0.0, usage=Usage(600, None, 1), ttft_seconds=0.52)
DECODE = EngineReport(0.2, 0.05, 2.0, usage=Usage(600, None, 40), ttft_seconds=0.3)
BOTH = EngineReport(
    *(0.1, 0.4, 2.0),
    untold_seconds=0.2,
    parts=(StatedPart(Part.PREFILL_QUEUE, 0.1), StatedPart(Part.COMPUTE, 0.4)),
)
ROUTER = EngineReport(parts=(StatedPart(Part.ROUTER, 0.4),))


def told(*reports: EngineReport, marks: Marks = STREAM, parts: int = 1, last: bool = False) -> EngineReport | None:
    return Workers().put_together(reports, parts, marks, 0.0, last=last)


@pytest.mark.parametrize("marks", [STREAM, WHOLE])
@pytest.mark.parametrize("last", [False, True])
def test_a_worker_that_did_all_of_it_is_believed_at_once(marks: Marks, last: bool) -> None:
    assert told(ONE, marks=marks, last=last) == ONE


@pytest.mark.parametrize("marks", [STREAM, WHOLE])
def test_of_two_workers_each_states_its_own(marks: Marks) -> None:
    """The tokens of both, as their usage, are those of the worker that made them."""
    for order in permutations((PREFILL, DECODE)):
        both = told(*order, marks=marks)

        assert both == BOTH
        assert both.usage == DECODE.usage


@pytest.mark.parametrize("marks", [STREAM, WHOLE])
@pytest.mark.parametrize("half", [PREFILL, DECODE])
def test_one_of_two_waits_for_the_other(marks: Marks, half: EngineReport) -> None:
    assert told(half, marks=marks) is None


def test_a_worker_of_the_prefill_that_stays_alone_states_no_time() -> None:
    found = told(PREFILL, last=True)

    assert found == NO_REPORT
    assert found.usage == PREFILL.usage


def test_behind_a_slow_hop_ledgers_wait_for_another_worker_only_at_first() -> None:
    """An overloaded front end makes every request late: each ledger would close ten seconds after its end for nothing."""
    workers = Workers()

    def late(*reports: EngineReport, last: bool = False) -> EngineReport | None:
        return workers.put_together(reports or (DECODE,), 1, STREAM, 0.0, last=last)

    waited = [(late(), late(last=True)) for _ in range(BELIEVED_AFTER)]
    assert waited == [(None, DECODE)] * BELIEVED_AFTER
    assert late() == DECODE

    assert late(PREFILL, DECODE) == BOTH
    assert late() is None


def test_a_late_worker_that_stays_alone_is_doubted_for_an_hour_after_others_shared() -> None:
    """Before it nothing says that there was another: a slow hop in front of one engine looks the same."""
    workers = Workers()

    def late(at: float) -> EngineReport | None:
        return workers.put_together([DECODE], 1, STREAM, at, last=True)

    before = late(0.0)
    workers.put_together([PREFILL], 1, STREAM, 0.0, last=False)
    after, much_later = late(SHARED_SECONDS - 1.0), late(SHARED_SECONDS)

    assert (before, after, much_later) == (DECODE, NO_REPORT, DECODE)


def test_answers_are_doubted_once_two_workers_were_heard_of_in_one_request() -> None:
    """Not where one worker reported on each of its choices, nor where a client asks for single tokens, nor of an answer that began in time."""
    request = SpanRequest(ended_at_unix=0.0, ttft_seconds=0.1, e2e_seconds=1.0, usage=Usage(600), max_tokens=1)
    workers, doubts = Workers(), []
    for span_id, max_tokens in (("a", 1), ("a", 1), ("b", 50), ("b", 50), ("a", 50)):
        workers.heard(
            KeyedReport((span_key(span_id),), DECODE, request=dataclasses.replace(request, max_tokens=max_tokens)), 0.0
        )
        doubts.append(workers.are_doubted(DECODE, STREAM, 1.0))

    assert doubts == [False, False, False, False, True]
    assert not workers.are_doubted(ONE, STREAM, 1.0)
    assert not workers.are_doubted(EngineReport(merged=True), STREAM, 1.0)
    assert not workers.are_doubted(DECODE, STREAM, SHARED_SECONDS)


def test_requests_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "MOST_HEARD", 2)
    request = SpanRequest(ended_at_unix=0.0, ttft_seconds=0.1, e2e_seconds=1.0, usage=Usage(600), max_tokens=1)
    workers = Workers()
    for span_id in ("a", "b", "c"):
        workers.heard(KeyedReport((span_key(span_id),), PREFILL, request=request), 0.0)

    workers.heard(KeyedReport((span_key("a"),), DECODE, request=dataclasses.replace(request, max_tokens=50)), 0.0)

    assert not workers.are_doubted(DECODE, STREAM, 1.0)


def test_the_wire_s_own_count_is_held_against_a_worker_s() -> None:
    """A decode in pieces: each worker made some of the tokens, and one of them is not the request's."""
    piece = replace(ONE, usage=Usage(600, None, 20))

    assert (told(piece, marks=WHOLE), told(piece, marks=WHOLE, last=True)) == (None, NO_REPORT)
    assert told(PREFILL, replace(DECODE, usage=Usage(600, None, 20)), marks=WHOLE) is None


def test_a_single_token_for_the_client_too_is_not_told_apart() -> None:
    marks = Marks(
        accepted_at=10.0, received_at=10.0, first_token_at=11.0, last_token_at=11.0, flushed_at=11.0, output_events=1
    )
    short = replace(DECODE, usage=Usage(600, None, 1))

    assert told(PREFILL, short, marks=marks, last=True) == NO_REPORT


def test_choices_are_put_together_once_each_has_its_report() -> None:
    """More reports than choices are of several workers, and are not told apart."""
    first, second = replace(ONE, usage=Usage(600, None, 20)), replace(ONE, usage=Usage(600, None, 20), spoke_at=None)

    assert told(first, parts=2) is None
    assert told(first, second, parts=2) == replace(ONE, decode_seconds=None)
    assert told(PREFILL, PREFILL, DECODE, DECODE, parts=2, last=True) == NO_REPORT


def test_a_router_that_states_both_phases_as_one_number_is_no_wait_alone() -> None:
    """Dynamo's trace: the parts of its report stand beside that number."""
    merged = EngineReport(merged=True, merged_seconds=0.5, parts=(StatedPart(Part.ROUTER, 0.1),))

    assert told(merged) == merged


def test_the_routers_wait_is_before_all_workers() -> None:
    """It states no split alone, and where it fills the time before a worker, no other one is waited for."""
    assert (told(ROUTER), told(ROUTER, last=True)) == (None, None)
    one = told(ROUTER, replace(ONE, queue_seconds=0.0, prefill_seconds=0.5, ttft_seconds=0.52))
    both = told(PREFILL, ROUTER, DECODE)

    assert one is not None
    assert both is not None
    assert (one.queue_seconds, one.parts) == (0.4, (StatedPart(Part.ROUTER, 0.4),))
    assert (both.queue_seconds, both.parts) == (0.5, (StatedPart(Part.ROUTER, 0.4), *BOTH.parts))


SECONDS = st.none() | st.floats(0.0, 1.0)
USAGE = st.none() | st.builds(Usage, st.none() | st.integers(599, 601), st.none(), st.none() | st.integers(0, 3))
REPORTS = st.lists(
    st.builds(EngineReport, SECONDS, SECONDS, SECONDS, usage=USAGE, ttft_seconds=SECONDS)
    | st.builds(lambda seconds: EngineReport(parts=(StatedPart(Part.ROUTER, seconds),)), st.floats(0.0, 1.0)),
    max_size=4,
)


@given(REPORTS, st.booleans(), st.sampled_from([1, 2]))
def test_in_whatever_order_they_come_the_same_is_told(reports: list[EngineReport], last: bool, parts: int) -> None:
    """And each number that is told is one that a worker stated of this very phase, behind the wait of the routers."""
    found = [told(*order, last=last, parts=parts) for order in permutations(reports)]
    waits = sum(report.least_queue_seconds for report in reports)

    assert all((one is None) == (found[0] is None) for one in found)
    for one in found:
        if one is not None and one.queue_seconds is not None:
            assert any(one.queue_seconds == pytest.approx(waits + (report.queue_seconds or 0.0)) for report in reports)
            assert one.prefill_seconds in [report.prefill_seconds for report in reports]
            assert one.decode_seconds in [None, *(report.decode_seconds for report in reports)]
