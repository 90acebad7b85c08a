"""A Prometheus that remembers a recorded incident as if it had ended a moment ago: blocks made by promtool, no rule and no target.

Knows the text that promtool reads. Refuses to know what was recorded.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.drawn.asking import Look
from tests.drawn.incidents import LOOK_AFTER_SECONDS
from tests.drawn.recording import RECORDED, STARTED, STEP_SECONDS, Recording, kept
from tests.support.backfilled import backfilled, sample_line


EPOCH = 1_767_225_600
"""2026-01-01 00:00:00 UTC: when a recording begins."""
SHOWN_SECONDS = 1500


def recording(name: str) -> Recording:
    """One of the committed recordings."""
    return kept(RECORDED / f"{name}.json.xz")


def lines(one: Recording) -> Iterator[str]:
    """Its samples, in the order that OpenMetrics wants: series by series."""
    for name, labels, column in sorted(one.series, key=lambda series: series[0]):
        for step, value in enumerate(column):
            if value is not None:
                shifted = value + EPOCH if name == STARTED else value
                yield sample_line(name, labels, shifted, EPOCH + step * STEP_SECONDS)


@contextmanager
def remembered(one: Recording, folder: Path) -> Iterator[Look]:
    """A look at its end, for the length of a `with` block."""
    ended_at = EPOCH + int(one.fault_at + LOOK_AFTER_SECONDS) // STEP_SECONDS * STEP_SECONDS - STEP_SECONDS
    # No block tells where a series ends: a sample stands for its own step, and not at the next one.
    with backfilled(folder, lines(one), f"--query.lookback-delta={STEP_SECONDS - 1}s") as url:
        yield Look(url, ended_at - SHOWN_SECONDS, ended_at)
