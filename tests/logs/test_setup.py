"""One line a request, nothing that a client wrote unless it was allowed, and no line that anyone has to wait for."""

import io
import json
import logging
import os
import threading
import time
from collections.abc import Iterator

import pytest
import structlog

from sidecar.config.schema import LogConfig
from sidecar.ledger.account import Account, Ledger, Phase, Reason, Share, Source
from sidecar.ledger.request_labels import RequestLabels
from sidecar.logs.sanitise import allowed_headers, clean, clean_path
from sidecar.logs.setup import Logs
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome, Stage


CANARY = "sk-CANARY"


class Tape:
    """Logs under a clock that stands still until moved, and what they wrote."""

    def __init__(self, **config: object) -> None:
        self.now = 100.0
        self.file = io.BytesIO()
        self.logs = Logs.set_up(LogConfig.model_validate({"format": "json", **config}), self.file, lambda: self.now)

    def lines(self) -> list[dict[str, object]]:
        assert self.logs.flush()
        return [json.loads(line) for line in self.file.getvalue().splitlines()]


@pytest.fixture
def tape() -> Iterator[Tape]:
    made = Tape()
    yield made
    made.logs.close()


def account(outcome: Outcome = Outcome.OK, **others: object) -> Account:
    values: dict[str, object] = {
        "labels": RequestLabels("m", "chat", "0-512"),
        "streaming": True,
        "outcome": outcome,
        "marks": Marks(accepted_at=1000.0, received_at=1000.25),
        "ledger": None,
        **others,
    }
    return Account(**values)  # type: ignore[arg-type]  # a table of defaults


def test_the_canonical_line_of_a_whole_request(tape: Tape) -> None:
    """One request is one line: marks since it was accepted, the phases with who measured them, counts, notes apart."""
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
                1000.0, 1000.25, 1000.25, 1000.3, 1000.6, 1001.1, 1001.1, 1001.1, 0.0, 7, 1, Usage(12, None, 7)
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
    """A client that left while waiting has no phases, no token marks and no counts: not zeros, nothing."""
    tape.logs.request(account(Outcome.CLIENT_CANCELLED, cancelled_in=Stage.WAITING))

    (line,) = tape.lines()
    assert line["cancelled_in"] == "waiting"
    assert line["marks"] == {"received_at": 0.25}
    assert {"phases", "ttft_seconds", "e2e_seconds", "prompt_tokens", "trace_id", "notes"} & line.keys() == set()


def test_at_level_warning_only_spoiled_requests_are_logged() -> None:
    """A request that the server side spoiled is a warning; what the client did or got is info."""
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


def fail(message: str) -> None:
    raise ValueError(message)


def test_no_secret_is_ever_written(tape: Tape) -> None:
    """A canary in every place where a client's secret can stand never shows up in what is written."""
    headers = [
        (b"Authorization", f"Bearer {CANARY}".encode()),
        (b"x-api-key", CANARY.encode()),
        (b"Cookie", CANARY.encode()),
        (b"X-Request-Id", f"id {CANARY}".encode()),
    ]
    notes = {"path": clean_path(f"/v1/chat?key={CANARY}"), **allowed_headers(headers, {"x-request-id"})}
    tape.logs.request(account(notes=notes))
    log = structlog.get_logger()
    try:
        fail(f"body {CANARY} of http://user:{CANARY}@host/?key={CANARY}")
    except ValueError as error:
        log.exception("observer_failed", header=headers[0][1], pair=headers[1], url=f"http://u:{CANARY}@h/")
        log.warning("relay_failed", error=error, told=str(error), nested={"a": [{"b": f"Basic {CANARY}"}]})
        logging.getLogger("aiohttp").error("request %s failed", CANARY, exc_info=error)

    lines = tape.lines()
    assert [line["event"] for line in lines] == ["request", "observer_failed", "relay_failed", "library_log"]
    assert "CANARY" not in tape.file.getvalue().decode()
    assert lines[0]["notes"] == {"path": "/v1/chat", "header.x-request-id": "id ***"}
    assert [lines[1]["error_type"], lines[3]["error_type"]] == ["ValueError", "ValueError"]


def test_only_allowed_headers_are_noted() -> None:
    """With no allow-list nothing is noted; names compare without case; the first of duplicates stands."""
    headers = [(b"X-Team", b"a\x1b[31m"), (b"x-team", b"b"), (b"User-Agent", b"c")]

    assert allowed_headers(headers, frozenset()) == {}
    assert allowed_headers(headers, {"x-team"}) == {"header.x-team": "a\ufffd[31m"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain é 漢", "plain é 漢"),
        ("a\nb\r\x00\x7f\x85", "a\ufffdb\ufffd\ufffd\ufffd\ufffd"),
        ("\x1b[31mred", "\ufffd[31mred"),
        ("\u202eevil\u2066\u200b\ufeff", "\ufffdevil\ufffd\ufffd\ufffd"),
        ("\u2028\u2029", "\ufffd\ufffd"),
        ("bad \udcff", "bad \ufffd"),
        (b"bytes \xff", "bytes \ufffd"),
        ("x" * 256, "x" * 256),
        ("x" * 257, "x" * 255 + "…"),
        ("Bearer abc", "Bearer ***"),
        ("http://u:p@h/", "http://***h/"),
    ],
)
def test_a_text_is_cleaned(text: str | bytes, expected: str) -> None:
    """Control characters, bidi marks, separators and surrogates are replaced; long texts are cut; keys are masked."""
    assert expected == clean(text)


def test_a_giant_text_costs_a_line(tape: Tape) -> None:
    """A value of ten megabytes is cut before it is looked at."""
    structlog.get_logger().info("giant", value="x" * 10_000_000, raw=b"\xff" * 10_000_000)

    assert len(tape.lines()) == 1
    assert len(tape.file.getvalue()) < 2000


def test_a_forged_line_stays_inside_its_value(tape: Tape) -> None:
    """A newline and a JSON line in a value, a key or an event name forge nothing."""
    forged = 'x"}\n{"event":"request","outcome":"ok"}'
    structlog.get_logger().info(forged, **{forged: forged})

    (line,) = tape.lines()
    assert line["event"] != "request"


def test_a_storm_is_held_back_and_counted(tape: Tape) -> None:
    """A thousand events of one name are twenty lines; other names are not touched; the next line says how many were not."""
    log = structlog.get_logger()
    for _ in range(1000):
        log.warning("engine_refused")
    log.warning("other_event")
    tape.now += 1.0
    log.warning("engine_refused")

    lines = tape.lines()
    assert [line["event"] for line in lines] == ["engine_refused"] * 20 + ["other_event", "engine_refused"]
    assert lines[-1]["suppressed"] == 980
    assert (tape.logs.limited_lines, tape.logs.dropped_lines) == (980, 0)
    assert [line for line in lines[:-1] if "suppressed" in line] == []


def test_what_was_held_back_last_is_told_at_the_end(tape: Tape) -> None:
    """A storm that nothing follows is still counted in the log, when it closes."""
    for _ in range(25):
        structlog.get_logger().warning("engine_refused")
    tape.logs.close()

    last = json.loads(tape.file.getvalue().splitlines()[-1])
    assert [last["event"], last["suppressed_event"], last["count"]] == ["log_suppressed", "engine_refused", 5]


def test_loggers_that_were_cached_follow_a_reload(tape: Tape) -> None:
    """A new level and format hold at once, also for a logger that was used before."""
    log = structlog.get_logger()
    log.debug("unseen")
    log.info("seen")
    tape.logs.apply(LogConfig(level="debug", format="json"))
    log.debug("seen_now")

    assert [line["event"] for line in tape.lines()] == ["seen", "seen_now"]


def test_the_console_format_is_for_people() -> None:
    """The console format is one line an event too, whatever stands in it."""
    tape = Tape(format="console")
    structlog.get_logger().warning("engine_refused", reason="a\nb")
    tape.logs.close()

    written = tape.file.getvalue().decode()
    assert "engine_refused" in written
    assert written.count("\n") == 1


def test_a_value_that_cannot_be_written_loses_its_line_only(tape: Tape) -> None:
    """An object whose str raises never raises into the caller: unknown objects are named by type, keys by text."""

    class Bomb:
        def __str__(self) -> str:
            raise RuntimeError("boom")

    log = structlog.get_logger()
    log.info("bomb", value=Bomb(), huge=2**70, nested={Bomb(): 1})
    log.info("after", value=Bomb(), huge=2**70)

    assert [(line["event"], line["value"], line["huge"]) for line in tape.lines()] == [("after", "<Bomb>", "<int>")]
    assert tape.logs.dropped_lines == 1


def test_a_stalled_reader_delays_nobody() -> None:
    """When nobody reads stderr, lines are dropped and counted, and the caller never waits."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "wb", buffering=0) as pipe:
        logs = Logs.set_up(LogConfig(format="json", level="debug"), pipe, time.monotonic)
        done = threading.Event()

        def flood() -> None:
            for number in range(30_000):
                logs.emit("info", {"event": f"event_{number % 1000}", "value": "x" * 200})
            done.set()

        threading.Thread(target=flood, daemon=True).start()
        # Order, not time: the flood ends although not one byte of the pipe has been read.
        assert done.wait(60)
        assert logs.dropped_lines > 0 or not logs.flush(0.01)
        drain = threading.Thread(target=reader.read, daemon=True)
        drain.start()
        logs.close(30)
        pipe.close()
        drain.join(30)
