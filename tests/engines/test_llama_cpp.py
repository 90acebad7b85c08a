"""Times that llama.cpp states, and the queue that follows from them and from the wire."""

import pytest
from msgspec.structs import replace

from sidecar.engines.kind import Wire
from sidecar.engines.llama_cpp import LlamaCpp
from sidecar.ledger.account import Reason, Source
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.timeline.marks import Marks


TIMINGS = {"timings": {"prompt_n": 500, "prompt_ms": 1000.0, "predicted_n": 5, "predicted_ms": 400}}


def wire(
    *,
    headers: float | None,
    first_token: float | None = 3.0,
    flushed: float | None = None,
    streaming: bool = True,
    choices: int = 1,
) -> Wire:
    """A body received at 10 and sent 10 ms later; the other instants are seconds after it was received."""
    marks = Marks(
        accepted_at=9.5,
        received_at=10.0,
        sent_at=10.01,
        headers_at=None if headers is None else 10 + headers,
        first_token_at=None if first_token is None else 10 + first_token,
        flushed_at=None if flushed is None else 10 + flushed,
    )
    return Wire(marks, streaming, (), choices)


def queue(seen: Wire) -> float | None:
    report = LlamaCpp().in_band(TIMINGS, seen)
    assert report is not None
    assert (report.prefill_seconds, report.decode_seconds, report.queue_source) == (1.0, 0.4, Source.DERIVED)
    return None if report.queue_seconds is None else round(report.queue_seconds, 6)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param(1.99, 1.98, id="the head at the slot's start: sent to head, and 10 ms of first_token"),
        pytest.param(2.005, 1.995, id="a head that comes a little late does not make the queue longer than the bound"),
        pytest.param(0.02, 2.0, id="the head at once, as long ago: the bound"),
        pytest.param(3.0, 2.0, id="the head with the first token, as in 2025: the bound"),
        pytest.param(None, 2.0, id="no head: the bound"),
    ],
)
def test_the_head_is_the_slots_start_only_where_the_prefill_proves_it(headers: float | None, expected: float) -> None:
    """Prompt evaluation took 1 s of a TTFT of 3 s."""
    assert queue(wire(headers=headers)) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param(1.7, 1.69, id="the head at the slot's start, and 0.3 s later than that the first text"),
        pytest.param(0.02, 1.7, id="the head at once: the bound leaves room for what was held back"),
    ],
)
def test_a_first_token_that_was_held_back_is_no_longer_queue(headers: float, expected: float) -> None:
    """Half a character waits for the rest: of 0.4 s of decode only 0.1 s passed here. A real one did this, and its
    split was refused.
    """
    seen = wire(headers=headers, first_token=3.0, flushed=3.1)
    report = LlamaCpp().in_band(TIMINGS, seen)
    ledger = close_ledger(replace(seen.marks, last_token_at=seen.marks.flushed_at), streaming=True, report=report)

    assert queue(seen) == expected
    assert ledger is not None
    assert ledger.reason is Reason.IN_BAND
    assert ledger.held_seconds == pytest.approx(0.3)


def test_a_prefill_longer_than_the_ttft_is_left_to_the_ledger_to_judge() -> None:
    """It is a contradiction, and no queue is derived from it."""
    assert queue(wire(headers=0.1, first_token=0.5)) == 0.0


def test_a_whole_answer_has_a_bound_too() -> None:
    """Its head comes when it is complete."""
    assert queue(wire(headers=1.5, first_token=None, streaming=False)) == 0.1
    assert queue(wire(headers=1.3, first_token=None, streaming=False)) == 0.0


def test_a_stream_without_output_has_no_queue() -> None:
    assert queue(wire(headers=0.1, first_token=None)) is None


def test_several_choices_have_no_one_report() -> None:
    """Each choice has timings of its own; the last to come would be taken for all."""
    assert LlamaCpp().in_band(TIMINGS, wire(headers=0.1, choices=2)) is None


@pytest.mark.parametrize("timings", [None, [], "x", {}, {"prompt_ms": None}, {"prompt_ms": -1}, {"prompt_ms": "1"}])
def test_without_a_prefill_nothing_is_derived(timings: object) -> None:
    """A queue derived from an unknown prefill would be a guess."""
    seen = wire(headers=0.1)
    assert LlamaCpp().in_band({"timings": timings}, seen) is None
    assert LlamaCpp().in_band({"timings": {"predicted_ms": 5}}, seen) == EngineReport(decode_seconds=0.005)
