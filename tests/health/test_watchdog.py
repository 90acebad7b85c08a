"""The watchdog by a fake clock: a loop that stands still for a minute is told once, with the line in which it stands."""

import threading

from structlog.testing import capture_logs

from sidecar.health.watchdog import CHECK_SECONDS, STUCK_SECONDS, Watchdog
from tests.support.memory import Clock


class Watched:
    """A watchdog that checks once a second, and a loop that turns when it is told to."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.watchdog = Watchdog(self.clock)

    def passes(self, seconds: float, *, turns: bool) -> None:
        for _ in range(round(seconds / CHECK_SECONDS)):
            self.clock.later(CHECK_SECONDS)
            if turns:
                self.watchdog.turned()
            self.watchdog.check()


def test_a_loop_that_turns_is_never_told() -> None:
    watched = Watched()
    with capture_logs() as lines:
        watched.passes(3600.0, turns=True)
        watched.passes(STUCK_SECONDS - CHECK_SECONDS, turns=False)
        watched.passes(60.0, turns=True)

    assert lines == []


def test_a_loop_that_stands_still_for_a_minute_is_told_once_and_so_is_its_end() -> None:
    watched = Watched()
    with capture_logs() as lines:
        watched.passes(10 * STUCK_SECONDS, turns=False)
        watched.passes(10.0, turns=True)

    assert [(line["log_level"], line["event"], line["stuck_seconds"]) for line in lines] == [
        ("critical", "event_loop_stuck", 60),
        ("warning", "event_loop_turns_again", 600),
    ]


def test_a_process_that_did_not_run_is_not_stuck() -> None:
    """It was stopped for an hour: the thread may run before the loop does."""
    watched = Watched()
    watched.clock.later(3600.0)
    with capture_logs() as lines:
        watched.watchdog.check()
        watched.passes(5.0, turns=False)

    assert watched.watchdog.stuck_seconds == 7.0
    assert lines == []


def test_the_line_names_where_the_loop_stands() -> None:
    """The loop's thread waits in `stands_here`, while another thread checks."""
    watched, stands, may_go = Watched(), threading.Event(), threading.Event()

    def stands_here() -> None:
        stands.set()
        may_go.wait(10)

    def loop() -> None:
        watched.watchdog.start()
        stands_here()

    thread = threading.Thread(target=loop)
    thread.start()
    stands.wait(10)
    with capture_logs() as lines:
        watched.passes(STUCK_SECONDS, turns=False)
    may_go.set()
    thread.join()
    watched.watchdog.stop()

    (line,) = lines
    assert [frame.rpartition(" ")[2] for frame in line["frames"] if "test_watchdog" in frame] == ["loop", "stands_here"]
