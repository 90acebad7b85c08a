"""A thread that notices when the event loop has stopped turning, and logs in which line it stands.

A loop that is stuck can answer no probe and write no reason, so this thread does. It refuses to end the process: the
liveness probe does that, because it gets no answer. Its own absence does not count: while the whole process is stopped or
gets no CPU, no thread of it runs, and the loop is not to blame. Code that is stuck outside Python and holds the
interpreter's lock stops this thread too.
"""

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

import structlog


STUCK_SECONDS = 60.0
"""So long without the end of a turn the loop counts as stuck: the longest work of a turn takes milliseconds."""
CHECK_SECONDS = 1.0
_STACK_FRAMES = 20
"""Innermost frames of the loop's thread in the log line."""

log = structlog.get_logger()


class Watchdog:
    """Watches the loop of the thread that calls `start`. `clock`: monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.turns = self._checked_turns = 0
        """Turns of the loop that it was told of."""
        self._checked_at = clock()
        self._watched: int | None = None
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self.stuck_seconds = 0.0
        """Time without the end of a turn, during which this thread ran."""

    def start(self) -> None:
        """Begin to watch."""
        self._watched = threading.get_ident()
        self._checked_at = self._clock()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._end.set()
        if self._thread is not None:
            self._thread.join(2 * CHECK_SECONDS)

    def turned(self) -> None:
        """A turn of the loop has ended. Call it about once a second."""
        self.turns += 1

    def check(self) -> None:
        """Compare with the check before. The loop's standstill is logged once, and its end once."""
        at, turns = self._clock(), self.turns
        passed, self._checked_at = at - self._checked_at, at
        before = self.stuck_seconds
        if turns != self._checked_turns:
            self._checked_turns, self.stuck_seconds = turns, 0.0
            if before >= STUCK_SECONDS:
                log.warning("event_loop_turns_again", stuck_seconds=round(before))
            return
        self.stuck_seconds += min(passed, 2 * CHECK_SECONDS)
        if before < STUCK_SECONDS <= self.stuck_seconds:
            log.critical("event_loop_stuck", stuck_seconds=round(self.stuck_seconds), frames=self._frames())

    def _watch(self) -> None:
        while not self._end.wait(CHECK_SECONDS):
            self.check()

    def _frames(self) -> list[str]:
        """The frames of the loop's thread, outermost first."""
        frame: FrameType | None = sys._current_frames().get(self._watched or 0)  # noqa: SLF001  documented, in spite of its name
        found: list[str] = []
        while frame is not None and len(found) < _STACK_FRAMES:
            code = frame.f_code
            found.append(f"{code.co_filename.rpartition('/site-packages/')[2]}:{frame.f_lineno} {code.co_name}")
            frame = frame.f_back
        return found[::-1]
