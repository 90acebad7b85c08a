"""The anatomy of the last minutes: differences between looks, means that add up, quantiles only where there is ground."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.admin.page.anatomy import AnatomyRing
from sidecar.history.quantiles import quantile
from sidecar.history.slices import run_now
from sidecar.ledger.account import Account
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics.registry import Metrics
from sidecar.observe.record import Recorder
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome


def request(
    recorder: Recorder,
    lane: str = "chat",
    *,
    queue: float = 0.5,
    streaming: bool = True,
    reported: bool = True,
    bucket: str = "0-512",
    model: str = "llama",
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
    account = Account(RequestLabels(model, lane, bucket), streaming, Outcome.OK, marks, ledger)
    recorder.ended(account)
    recorder.settled(account)


def house() -> tuple[Recorder, AnatomyRing]:
    metrics = Metrics(lanes=["chat", "batch"], prompt_buckets=["0-512", "512-4k"], models=["llama", "mixtral"])
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


def test_a_lane_is_split_by_prompt_length_and_the_lengths_add_up_to_it() -> None:
    """Short to long, over all models; a length without a request is absent."""
    recorder, ring = house()
    request(recorder, queue=3.0, bucket="unknown")
    request(recorder, queue=2.0, bucket="512-4k")
    request(recorder, queue=1.0, bucket="512-4k", model="mixtral")

    (bar,) = ring.anatomy(30.0).bars

    assert [(one.prompt_bucket, one.requests) for one in bar.buckets] == [("512-4k", 2), ("unknown", 1)]
    assert [one.phases["queue"] for one in bar.buckets] == [1.5, 3.0]
    assert (bar.prompt_bucket, bar.requests, bar.phases["queue"]) == ("", 3, 2.0)


def test_each_phase_has_its_own_quantiles_where_there_is_ground() -> None:
    recorder, ring = house()
    for _ in range(20):
        request(recorder, queue=0.45)

    (bar,) = ring.anatomy(30.0).bars
    queue = bar.spread["queue"]

    assert queue.count == 20
    assert 0.4 < (queue.at[0.5] or 0) < (queue.at[0.95] or 0) <= 0.5
    assert queue.at[0.99] is None


def test_all_of_an_anatomy_is_as_of_its_first_turn() -> None:
    """What ends while the page is drawn must not stand in one table and be missing in the next."""
    recorder, ring = house()
    request(recorder)
    turns = ring.in_turns(30.0)
    next(turns)
    request(recorder)

    anatomy = run_now(turns)

    assert (anatomy.bars[0].requests, anatomy.ends[0].outcomes) == (1, {"ok": 1})


def test_looks_share_what_has_not_changed() -> None:
    """A ring of them costs what happened, and not what there is."""
    recorder, ring = house()
    request(recorder)
    ring.look(5.0)
    request(recorder, "batch")
    ring.look(10.0)

    before, after = (look.histograms["llm_request_seconds"] for look in list(ring._looks)[-2:])
    chat, batch = ("llama", "chat", "0-512", "true"), ("llama", "batch", "0-512", "true")
    assert after[chat] is before[chat]
    assert (batch in before, batch in after) == (False, True)


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
