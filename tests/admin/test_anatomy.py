"""The anatomy of the last minutes: differences between looks, means that add up, quantiles only where there is ground."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.admin.anatomy import AnatomyRing
from sidecar.ledger.account import Account
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.metrics.quantile import quantile
from sidecar.metrics.record import Recorder
from sidecar.metrics.registry import Metrics
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome


def request(
    recorder: Recorder, lane: str = "chat", *, queue: float = 0.5, streaming: bool = True, reported: bool = True
) -> None:
    """One request: `queue`, then 0.25 s prefill, 0.25 s before the first token, 1 s decode, 0.5 s stream."""
    first = queue + 0.5
    marks = Marks(
        accepted_at=0.0,
        received_at=0.0,
        first_token_at=first,
        last_token_at=first + 1,
        ended_at=first + 1,
        flushed_at=first + 1.5,
        choices=1,
    )
    report = EngineReport(queue, 0.25, 1.0) if reported else None
    ledger = close_ledger(marks, streaming=streaming, report=report)
    recorder.close(Account(lane, "llama", "0-512", streaming, Outcome.OK, marks, ledger))


def house() -> tuple[Recorder, AnatomyRing]:
    metrics = Metrics(lanes=["chat", "batch"], prompt_buckets=["0-512"], models=["llama"])
    return Recorder(metrics), AnatomyRing(metrics, at=0.0)


def test_before_any_traffic_there_is_nothing_to_show() -> None:
    """No bar, no zero, no NaN."""
    _, ring = house()

    anatomy = ring.anatomy(30.0)

    assert (anatomy.window_seconds, anatomy.ever, anatomy.bars, anatomy.ends) == (30.0, False, (), ())


def test_the_phases_of_a_bar_add_up_to_its_mean() -> None:
    recorder, ring = house()
    request(recorder, queue=0.5)
    request(recorder, queue=1.5)
    request(recorder, queue=1.0, reported=False)

    (bar,) = ring.anatomy(30.0).bars

    assert (bar.requests, bar.lane, bar.streaming) == (3, "chat", True)
    assert pytest.approx(bar.mean_seconds) == 3.0
    assert bar.mean_seconds == pytest.approx(sum(bar.phases.values()))
    assert pytest.approx(bar.phases["queue"]) == 2.0 / 3
    assert {"engine": pytest.approx(2 / 3), "wire": pytest.approx(1 / 3)} == bar.sources["decode"]


def test_a_phase_that_nobody_knows_is_absent() -> None:
    recorder, ring = house()
    request(recorder, reported=False)

    (bar,) = ring.anatomy(30.0).bars

    assert {"unattributed", "decode", "stream"} == set(bar.phases)


def test_streamed_and_whole_answers_are_two_bars() -> None:
    recorder, ring = house()
    request(recorder, streaming=False)
    request(recorder, "batch")
    request(recorder)

    bars = ring.anatomy(30.0).bars

    assert [(bar.lane, bar.streaming) for bar in bars] == [("batch", True), ("chat", True), ("chat", False)]


def test_what_is_older_than_the_window_is_forgotten() -> None:
    """A slow hour ago must not colour the bar of a quiet now."""
    recorder, ring = house()
    request(recorder, queue=9.0)
    for at in range(5, 1000, 5):
        ring.look(float(at))
        if at == 900:
            request(recorder, queue=0.5)

    (bar,) = ring.anatomy(1000.0).bars

    assert bar.requests == 1
    assert pytest.approx(bar.phases["queue"]) == 0.5
    assert ring.anatomy(1000.0).window_seconds <= 300
    assert len(ring._looks) <= 62


def test_quiet_is_told_from_never() -> None:
    recorder, ring = house()
    request(recorder)
    for at in range(5, 1000, 5):
        ring.look(float(at))

    anatomy = ring.anatomy(1000.0)

    assert (anatomy.ever, anatomy.bars, anatomy.ends) == (True, (), ())


def test_a_quantile_waits_for_enough_samples() -> None:
    """The p99 of twenty requests is their maximum by another name."""
    recorder, ring = house()
    for _ in range(20):
        request(recorder)

    (lane,) = ring.anatomy(30.0).ends

    assert lane.ttft.count == 20
    assert lane.ttft.at[0.5] is not None
    assert lane.ttft.at[0.95] is not None
    assert lane.ttft.at[0.99] is None
    assert lane.outcomes == {"ok": 20}
    assert lane.attribution == {("engine", "in_band"): 20}


def test_quantiles_are_interpolated_as_prometheus_does() -> None:
    """Ten samples evenly in (1, 2]: the median is 1.5."""
    assert quantile(0.5, [0, 10, 0], (1.0, 2.0)) == 1.5
    assert quantile(0.5, [10, 0, 0], (1.0, 2.0)) == 0.5
    assert quantile(0.5, [0, 0, 0], (1.0, 2.0)) is None
    assert math.inf == quantile(0.99, [1, 0, 9], (1.0, 2.0))


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=4))
def test_quantiles_rise(counts: list[int]) -> None:
    quantiles = [quantile(q, counts, (1.0, 2.0, 5.0)) for q in (0.1, 0.5, 0.95, 0.99)]

    told = [value for value in quantiles if value is not None]
    assert sorted(told) == told
    assert (4 if any(counts) else 0) == len(told)
