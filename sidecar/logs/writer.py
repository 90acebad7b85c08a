"""Writes log lines from a bounded queue in a thread of its own, so that a full pipe never stops the event loop.

Knows bytes and a file. If the reader of stderr stalls, lines are dropped and counted, never queued without bound. One thread
writes, so lines never mix.

Not `logging.handlers.QueueListener`: it wants a LogRecord and wakes its thread at each line (3 times the time per line, measured),
its `stop` raises queue.Full on a full queue and otherwise waits for a stalled reader without limit, and it counts no losses.
"""

import threading
from collections import deque
from typing import BinaryIO


MOST_LOG_LINES = 10_000
"""About 10 MB of the longest lines: enough for a stall of some seconds at full load."""
_GATHER_SECONDS = 0.02
"""Pause after the first line, in which others gather: a busy loop wakes this thread 50 times a second and not at each request. A
wake-up, and the contention for the interpreter that follows, cost the loop more than the line itself."""


class LineWriter:
    """Writes lines to a binary file from a thread of its own. Thread-safe."""

    def __init__(self, file: BinaryIO, most_lines: int = MOST_LOG_LINES) -> None:
        self._file = file
        self._most_lines = most_lines
        self._lines: deque[bytes] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._flushes_waiting = 0
        self._writing = False
        self.dropped = 0
        """Lines that were not written, because the queue was full or the file refused them."""
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Queue one line (without its newline); returns at once."""
        with self._wake:
            if self._closing or len(self._lines) >= self._most_lines:
                self.dropped += 1
                return
            self._lines.append(line)
            if len(self._lines) == 1:
                self._wake.notify_all()

    def flush(self, timeout_seconds: float = 2.0) -> bool:
        """Wait until all queued lines are written; False if that takes longer than the timeout (the reader stalls)."""
        with self._wake:
            self._flushes_waiting += 1
            self._wake.notify_all()
            try:
                return self._wake.wait_for(lambda: not self._lines and not self._writing, timeout_seconds)
            finally:
                self._flushes_waiting -= 1

    def close(self, timeout_seconds: float = 2.0) -> None:
        """Write what is queued, within the timeout, and end the thread. The file stays open: the caller owns it."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while True:
            with self._wake:
                self._writing = False
                self._wake.notify_all()
                self._wake.wait_for(lambda: self._lines or self._closing)
                self._wake.wait_for(lambda: self._flushes_waiting or self._closing, _GATHER_SECONDS)
                if not self._lines:
                    return
                batch = list(self._lines)
                self._lines.clear()
                self._writing = True
            try:
                self._file.write(b"\n".join(batch) + b"\n")
                self._file.flush()
            except (OSError, ValueError):  # the pipe or file is closed: the loss can only be counted
                with self._wake:
                    self.dropped += len(batch)
