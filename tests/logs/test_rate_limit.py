"""Events of one name above the rate are held back and counted; other events are written."""

import json

import structlog

from sidecar.logs.rate_limit import EventRateLimit
from tests.support.logs import Tape


def test_after_the_burst_the_rate_holds() -> None:
    """Three at once, then two per second; the next admitted event carries the count of those held back."""
    limit = EventRateLimit(2.0, 3)

    assert [limit.admit("a", at) for at in (0.0, 0.0, 0.0, 0.0, 0.25, 0.5, 0.75, 1.0)] == [
        0,
        0,
        0,
        None,
        None,
        2,
        None,
        1,
    ]
    assert (limit.held_back(), limit.held_back_ever) == ({}, 3)


def test_a_clock_that_steps_back_gives_no_tokens() -> None:
    """A clock that runs backwards counts as one that stands still."""
    limit = EventRateLimit(1.0, 1)

    assert [limit.admit("a", at) for at in (10.0, 5.0, 5.5, 6.5)] == [0, None, None, 2]


def test_names_have_rates_of_their_own() -> None:
    """A name with its own rate neither uses nor adds to the default one."""
    limit = EventRateLimit(1.0, 1, {"request": (1.0, 2)})

    assert [limit.admit(name, 0.0) for name in ("request", "request", "request", "a", "a")] == [0, 0, None, 0, None]
    assert limit.held_back() == {"request": 1, "a": 1}
    assert limit.held_back() == {}


def test_names_beyond_a_thousand_share_one_limit() -> None:
    """Memory is bounded even if event names are not constants."""
    limit = EventRateLimit(1.0, 1)
    assert {limit.admit(f"name_{number}", 0.0) for number in range(1000)} == {0}

    assert [limit.admit(name, 0.0) for name in ("new", "newer", "name_0")] == [0, None, None]
    assert limit.held_back() == {"name_0": 1, "(rest)": 1}


def test_a_storm_is_held_back_and_counted(tape: Tape) -> None:
    """A thousand events of one name give twenty lines; other names are not affected; the next line says how many are
    missing."""
    log = structlog.get_logger()
    for _ in range(1000):
        log.warning("engine_refused")
    log.warning("other_event")
    tape.now += 1.0
    log.warning("engine_refused")

    lines = tape.lines()
    assert [line["event"] for line in lines] == ["engine_refused"] * 20 + ["other_event", "engine_refused"]
    assert lines[-1]["suppressed"] == 980
    assert (tape.logs.limited_lines, tape.logs._writer.dropped) == (980, 0)
    assert [line for line in lines[:-1] if "suppressed" in line] == []


def test_what_was_held_back_last_is_told_at_the_end(tape: Tape) -> None:
    """If no event follows a storm, the count is written when the log closes."""
    for _ in range(25):
        structlog.get_logger().warning("engine_refused")
    tape.logs.close()

    last = json.loads(tape.file.getvalue().splitlines()[-1])
    assert [last["event"], last["suppressed_event"], last["count"]] == ["log_suppressed", "engine_refused", 5]
