"""A reader that stalls costs lines, which are counted, and never the caller's time."""

import io
import os
import threading
import time

from sidecar.config.schema import LogConfig
from sidecar.logs.setup import Logs
from sidecar.logs.writer import LineWriter


class Gate(io.BytesIO):
    """A file whose writes wait until the test opens it."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.opened = threading.Event(), threading.Event()

    def write(self, batch: object) -> int:
        self.entered.set()
        assert self.opened.wait(60)
        return super().write(batch)  # type: ignore[arg-type]  # bytes, of a writer that writes nothing else


def test_lines_beyond_the_queue_are_dropped_and_counted() -> None:
    """While a write waits, as many lines as the queue holds are kept, in order, and the others are counted."""
    file = Gate()
    writer = LineWriter(file, most_lines=2)
    writer.write(b"first")
    assert file.entered.wait(60)
    for number in range(5):
        writer.write(b"%d" % number)

    assert writer.dropped == 3
    assert not writer.flush(0.01)
    file.opened.set()
    assert writer.flush(60)
    assert file.getvalue() == b"first\n0\n1\n"
    writer.close(60)


def test_what_is_queued_is_written_at_the_end_and_later_lines_are_counted() -> None:
    """`close` waits for the lines before it; a line after it is dropped."""
    file = io.BytesIO()
    writer = LineWriter(file)
    for number in range(3):
        writer.write(b"%d" % number)
    writer.close(60)
    writer.write(b"late")

    assert (file.getvalue(), writer.dropped) == (b"0\n1\n2\n", 1)


def test_a_file_that_refuses_costs_its_lines() -> None:
    """A closed file raises in the writer's thread, not in the caller: its lines are counted and the thread goes on."""
    file = io.BytesIO()
    file.close()
    writer = LineWriter(file)
    for number in range(3):
        writer.write(b"%d" % number)
        assert writer.flush(60)

    assert writer.dropped == 3
    writer.close(60)


def test_a_stalled_reader_delays_no_caller() -> None:
    """While stderr is not read, lines are dropped and counted, and the caller never waits."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "wb", buffering=0) as pipe:
        logs = Logs.set_up(LogConfig(format="json", level="debug"), pipe, time.monotonic)
        done = threading.Event()

        def flood() -> None:
            for number in range(30_000):
                logs.emit("info", {"event": f"event_{number % 1000}", "value": "x" * 200})
            done.set()

        threading.Thread(target=flood, daemon=True).start()
        # Order is checked, not time: the flood ends although not one byte of the pipe has been read.
        assert done.wait(60)
        assert logs._writer.dropped > 0 or not logs.flush(0.01)
        drain = threading.Thread(target=reader.read, daemon=True)
        drain.start()
        logs.close(30)
        pipe.close()
        drain.join(30)
