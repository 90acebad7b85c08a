"""An engine's own counts that stand still although it says that it runs requests: told, where no stream shows more."""

import pytest

from sidecar.pod.liveness.silence import BATCH_SECONDS, EXCUSE, UNKNOWN_ANSWER_SECONDS
from sidecar.pod.liveness.still_counts import StillCounts
from tests.pod.liveness.silent_engine import Engine


NEVER = float("-inf")
STILL_SECONDS = EXCUSE * BATCH_SECONDS
"""The silence that is excused while the cost of a prompt is known."""


class Counting(Engine):
    """An engine that runs one request which is not streamed, since 0 s; a look each second."""

    def __init__(self, cost: float | None = 0.1) -> None:
        super().__init__()
        self.counts = StillCounts()
        self.at = 0.0
        self.running: float | None = 1.0
        self.grew_at = NEVER
        self.asked(0.0, "whole", cost=cost, streaming=False)

    def passes(self, seconds: float, *, late: bool = False) -> float:
        """Returns what the last look said."""
        beyond = 0.0
        for _ in range(1 if late else round(seconds)):
            step = seconds if late else 1.0
            self.at += step
            flow = self.silence.flow(self.at)
            beyond = self.counts.look(self.at, 0.0 if late else step, flow, running=self.running, grew_at=self.grew_at)
        return beyond


@pytest.mark.parametrize(("cost", "after"), [(0.1, STILL_SECONDS), (None, UNKNOWN_ANSWER_SECONDS)])
def test_counts_that_stand_still_are_beyond_the_work_after_a_while(cost: float | None, after: float) -> None:
    engine = Counting(cost)

    assert engine.passes(after) == 0.0
    assert engine.passes(5.0) == 5.0


def test_a_long_prompt_explains_more() -> None:
    """Its tokens are counted at the end of its prefill."""
    engine = Counting(cost=100.0)

    assert engine.passes(300.0) == 0.0
    assert engine.passes(1.0) == 1.0


def test_growth_and_output_begin_the_silence_anew() -> None:
    engine = Counting()
    engine.passes(70.0)
    engine.grew_at = engine.at
    assert engine.passes(STILL_SECONDS) == 0.0

    engine.asked(engine.at, "other", streaming=False)
    engine.silence.left("other", engine.at)
    assert engine.passes(STILL_SECONDS) == 0.0


@pytest.mark.parametrize("running", [None, 0.0], ids=["unknown", "none runs: one that waits may wait for its grammar"])
def test_without_a_request_that_runs_nothing_is_said(running: float | None) -> None:
    engine = Counting()
    engine.running = running

    assert engine.passes(600.0) == 0.0


def test_beside_a_stream_the_wire_shows_more() -> None:
    engine = Counting()
    engine.streams(1.0, "stream")

    assert engine.passes(600.0) == 0.0


def test_the_time_in_which_the_sidecar_stood_still_is_not_counted() -> None:
    engine = Counting()
    engine.passes(14.0)
    engine.passes(600.0, late=True)

    assert engine.passes(10.0) == 0.0
    assert engine.passes(1.0) == 1.0
