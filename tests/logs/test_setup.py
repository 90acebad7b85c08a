"""Every event is one line without secrets or forgeries, and level and format follow a reload."""

import logging

import structlog

from sidecar.config.schema import LogConfig
from sidecar.logs.sanitise import allowed_headers, clean_path
from tests.support.logs import CANARY, Tape, account


def fail(message: str) -> None:
    raise ValueError(message)


def test_no_secret_is_ever_written(tape: Tape) -> None:
    """A canary in every place where a client's secret can stand is not in the output."""
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


def test_an_exception_is_its_type_and_its_innermost_places(tape: Tape) -> None:
    """A deep traceback is cut to the twelve frames next to the error, each as file, line and function."""

    def deeper(levels: int) -> None:
        if levels:
            deeper(levels - 1)
        fail("unsaid")

    try:
        deeper(20)
    except ValueError:
        structlog.get_logger().exception("observer_failed", stack_info=True)

    (line,) = tape.lines()
    frames = line.pop("error_frames")
    assert isinstance(frames, list)
    number = fail.__code__.co_firstlineno + 1
    assert frames[-1] == f"{__file__}:{number} fail"
    assert [frame.rpartition(" ")[2] for frame in frames] == ["deeper"] * 11 + ["fail"]
    assert {key for key in line if key != "timestamp"} == {"level", "event", "error_type"}


def test_a_giant_text_costs_a_line(tape: Tape) -> None:
    """A value of ten megabytes is cut before it is examined."""
    structlog.get_logger().info("giant", value="x" * 10_000_000, raw=b"\xff" * 10_000_000)

    assert len(tape.lines()) == 1
    assert len(tape.file.getvalue()) < 2000


def test_a_forged_line_stays_inside_its_value(tape: Tape) -> None:
    """A newline and a JSON line in a value, a key or an event name make no second line."""
    forged = 'x"}\n{"event":"request","outcome":"ok"}'
    structlog.get_logger().info(forged, **{forged: forged})

    (line,) = tape.lines()
    assert line["event"] != "request"


def test_loggers_that_were_cached_follow_a_reload(tape: Tape) -> None:
    """A new level and format hold at once, also for a logger that was used before."""
    log = structlog.get_logger()
    log.debug("unseen")
    log.info("seen")
    tape.logs.apply(LogConfig(level="debug", format="json"))
    log.debug("seen_now")

    assert [line["event"] for line in tape.lines()] == ["seen", "seen_now"]


def test_the_console_format_is_for_people() -> None:
    """The console format writes one line per event too, for any content."""
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
    assert tape.logs._writer.dropped == 1
