"""The control: a process that sleeps, computes a little, and notes how late it was. It runs beside what asserts times.

A test that measures seconds, or waits for another program, fails for one of two reasons: something is broken, or this machine did not let
it run. The control is measured in the same seconds. If it was late too, nothing was measured; if it was in time, something is broken. It
is a process of its own, so that no fault of the code under test makes it late, unless that code takes all processors.

It knows no test and no bound. `timed.py` asks it for tests, `bench/bounds` for bounds.
"""

import os
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self


SLEEP_SECONDS = 0.1
WORK_SECONDS = 0.005
"""Processor time of a beat, behind its sleep: more than the kernel gives at once, so that a full machine takes the processor away within it.
To be woken says little: that comes at once on a full machine too. It is 5 % of one processor."""
MEAN_LATE_SECONDS = WORK_SECONDS
"""Above this mean the machine is busy: its work took the control more than twice its processor time, so a process that has much
to do gets less than half a processor. At a load of 22 to 25 on two processors the mean was 0.027 to 0.037 s."""
STANDSTILL_SECONDS = 0.25
"""One beat that is so late is enough: a machine that stands still so long has delayed everything else too."""


@dataclass(frozen=True, slots=True)
class Beat:
    """`ended_at` is in seconds of `time.monotonic()`, which all processes share; `late_seconds` is 0 or more."""

    ended_at: float
    late_seconds: float


def why_late(beats: Sequence[Beat], began_at: float, ended_at: float) -> str:
    """Why the control was late between these instants, in words; "" if it was in time.

    `beats` are in their order. A beat that is still missing at `ended_at` counts by what it is late already.
    """
    first = bisect_left(beats, began_at, key=lambda beat: beat.ended_at)
    within = [beat.late_seconds for beat in beats[first:] if beat.ended_at - beat.late_seconds <= ended_at]
    if beats and beats[-1].ended_at < ended_at:
        within.append(max(0.0, ended_at - max(began_at, beats[-1].ended_at) - SLEEP_SECONDS - WORK_SECONDS))
    mean, most = (fmean(within), max(within)) if within else (0.0, 0.0)
    if mean <= MEAN_LATE_SECONDS and most < STANDSTILL_SECONDS:
        return ""
    return (
        f"a control beside it, which computes for {WORK_SECONDS * 1e3:.0f} ms at a time, was {mean * 1e3:.0f} ms late in the mean of"
        f" {len(within)} times, and {most * 1e3:.0f} ms at most"
    )


class Control:
    """The control process, for the length of a `with` block."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="control-")
        self._file = Path(self._folder.name, "beats")

    def __enter__(self) -> Self:
        self._file.touch()
        self._process = subprocess.Popen([sys.executable, __file__, str(self._file)], stdin=subprocess.DEVNULL)
        while not self.beats():
            time.sleep(SLEEP_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def beats(self) -> list[Beat]:
        """All beats until now. Raises RuntimeError if the process has ended: its silence is no lateness."""
        if self._process.poll() is not None:
            raise RuntimeError(f"the control has ended with {self._process.returncode}")
        whole = self._file.read_text().rpartition("\n")[0].splitlines()
        return [Beat(*map(float, line.split())) for line in whole]

    def why_late(self, began_at: float, ended_at: float) -> str:
        """As `why_late` of its beats."""
        return why_late(self.beats(), began_at, ended_at)


def beat() -> Beat:
    """Sleep, compute, and say how late that was."""
    began, cpu_began = time.monotonic(), time.process_time()
    time.sleep(SLEEP_SECONDS)
    while time.process_time() - cpu_began < WORK_SECONDS:
        pass
    ended, worked = time.monotonic(), time.process_time() - cpu_began
    return Beat(ended, max(0.0, ended - began - SLEEP_SECONDS - worked))


def main(path: str) -> None:
    """Write one line for each beat until the process that started this one is gone."""
    parent = os.getppid()
    with Path(path).open("a", buffering=1) as file:
        while os.getppid() == parent:
            one = beat()
            file.write(f"{one.ended_at:.6f} {one.late_seconds:.6f}\n")


if __name__ == "__main__":
    main(sys.argv[1])
