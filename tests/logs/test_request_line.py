"""The line of one ended request: its phases, marks and counts, and no field for an unknown value."""

from msgspec.structs import replace

from sidecar.ledger.account import Ledger, Phase, Reason, Share, Source
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome, Stage
from tests.support.logs import Tape, account


def test_the_canonical_line_of_a_whole_request(tape: Tape) -> None:
    """One request is one line: marks since it was accepted, the phases with their sources, counts, and notes as a
    separate field."""
    shares = (
        Share(Phase.QUEUE, 0.1, Source.ENGINE),
        Share(Phase.PREFILL, 0.2, Source.ENGINE),
        Share(Phase.FIRST_TOKEN, 0.05, Source.DERIVED),
        Share(Phase.DECODE, 0.5, Source.ENGINE),
        Share(Phase.STREAM, 0.0, Source.DERIVED),
    )
    tape.logs.request(
        account(
            marks=Marks(
                1000.0,
                1000.25,
                1000.25,
                1000.3,
                1000.6,
                1001.1,
                1001.1,
                1001.1,
                output_events=7,
                choices=1,
                usage=Usage(12, None, 7),
            ),
            ledger=Ledger(shares, 0.85, 0.35, 0.0, Reason.IN_BAND),
            trace_id="0" * 32,
            notes={"request_id": "r-1", "outcome": "forged"},
        )
    )

    (line,) = tape.lines()
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {
        "level": "info",
        "event": "request",
        "outcome": "ok",
        "lane": "chat",
        "model": "m",
        "prompt_bucket": "0-512",
        "streaming": True,
        "e2e_seconds": 0.85,
        "ttft_seconds": 0.35,
        "phases": {"queue": 0.1, "prefill": 0.2, "first_token": 0.05, "decode": 0.5, "stream": 0.0},
        "sources": {
            "queue": "engine",
            "prefill": "engine",
            "first_token": "derived",
            "decode": "engine",
            "stream": "derived",
        },
        "source": "engine",
        "reason": "in_band",
        "marks": {
            "received_at": 0.25,
            "sent_at": 0.25,
            "headers_at": 0.3,
            "first_token_at": 0.6,
            "last_token_at": 1.1,
            "ended_at": 1.1,
            "flushed_at": 1.1,
        },
        "output_events": 7,
        "prompt_tokens": 12,
        "completion_tokens": 7,
        "trace_id": "0" * 32,
        "notes": {"request_id": "r-1", "outcome": "forged"},
    }


def test_what_is_unknown_is_absent(tape: Tape) -> None:
    """A client that left while waiting has no phases, no token marks and no counts: the fields are absent, not zero."""
    tape.logs.request(account(Outcome.CLIENT_CANCELLED, cancelled_in=Stage.WAITING))

    (line,) = tape.lines()
    assert line["cancelled_in"] == "waiting"
    assert line["marks"] == {"received_at": 0.25}
    assert {"phases", "ttft_seconds", "e2e_seconds", "prompt_tokens", "trace_id", "notes"} & line.keys() == set()


def test_an_answer_that_was_held_back_is_marked(tape: Tape) -> None:
    """Sixty tokens came in one event: a line without a decode says why it has none."""
    held = Marks(
        1000.0, 1000.25, first_token_at=1000.9, last_token_at=1000.9, output_events=1, usage=Usage(12, None, 60)
    )
    tape.logs.request(account(marks=held))
    tape.logs.request(account(marks=replace(held, usage=Usage(12, None, 1))))

    assert [line.get("held_back") for line in tape.lines()] == [True, None]


def test_at_level_warning_only_spoiled_requests_are_logged() -> None:
    """A request that failed on the server side is a warning; all others are info."""
    tape = Tape(level="warning")
    for outcome in Outcome:
        tape.logs.request(account(outcome))

    assert [line["outcome"] for line in tape.lines()] == [
        "rejected",
        "engine_error",
        "engine_unreachable",
        "engine_timeout",
        "engine_truncated",
        "sidecar_error",
    ]
    tape.logs.close()
