"""Time for which a document of usual values holds the event loop: its longest slice, with as many full curves as are kept.

Runs in this process. Measured by the thread's own CPU clock, which a busy machine does not falsify.
"""

import time
from collections.abc import Iterator
from itertools import repeat

from bench.bounds.bound import Bound, longest_step, spread
from sidecar.pod.costs.prefill_work import MAX_CURVES
from tests.support.baseline_process import CALM_SECONDS, Process


ROUNDS = 5
BOUND_MS = 1.0
IDLE_SLICES = 2_000
"""About as many as a full document has."""
_DONE = object()


def _full() -> Process:
    """A process that has lived, with the largest curves of prefill that it keeps."""
    process = Process(100.0).finds().lives(CALM_SECONDS)
    curves = process.harness.slo.learners["prefill_work"]
    rings = [[number, [[100.0 + step / 7, step / 3000] for step in range(61)]] for number in range(30)]
    curve = {"rings": rings, "errors": [0.1] * 101, "learned": 5000}
    curves.restore(
        curves.state() | {"curves": [[[f"model-{number}", "tokens"], curve] for number in range(MAX_CURVES)]}
    )
    return process


def _slices(work: Iterator[object]) -> list[float]:
    """CPU milliseconds of each slice, in order."""
    took, more = list[float](), True
    while more:
        began = time.thread_time()
        more = next(work, _DONE) is not _DONE
        took.append((time.thread_time() - began) * 1e3)
    return took


def baseline_stalls() -> list[Bound]:
    """One bound: the longest slice of a document."""
    process = _full()
    rounds = [_slices(process.baselines.document()) for _ in range(ROUNDS)]
    nothing = longest_step([_slices(repeat(None, IDLE_SLICES)) for _ in range(ROUNDS)])
    words = f"longest slice while usual values are written with {MAX_CURVES} full curves of prefill"
    return [
        Bound(
            words,
            BOUND_MS,
            longest_step(rounds),
            "ms",
            spread(map(max, rounds)),
            f"{nothing:.3f} ms for slices of nothing",
        )
    ]
