"""The phase breakdown of the last minutes: snapshot differences, means that add up, quantiles only with enough
samples."""

import pytest

from sidecar.admin.page.anatomy import Anatomy, anatomy_of
from sidecar.history.ring import History
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


def recorder_and_history() -> tuple[Recorder, History]:
    metrics = Metrics(lanes=["chat", "batch"], prompt_buckets=["0-512", "512-4k"], models=["llama", "mixtral"])
    return Recorder(metrics), History(metrics, at=0.0)


def anatomy(history: History, at: float = 30.0) -> Anatomy:
    return run_now(anatomy_of(history, run_now(history.now(at))))


def test_before_any_traffic_there_is_nothing_to_show() -> None:
    """Before any traffic there is no bar, no zero and no NaN."""
    _, history = recorder_and_history()

    found = anatomy(history)

    assert (found.window_seconds, found.ever, found.bars, found.ends) == (30.0, False, (), ())


def test_the_phases_of_a_bar_add_up_to_its_mean() -> None:
    recorder, history = recorder_and_history()
    request(recorder, queue=0.5)
    request(recorder, queue=1.5)
    request(recorder, queue=1.0, reported=False)

    (bar,) = anatomy(history).bars

    assert (bar.requests, bar.lane, bar.streaming) == (3, "chat", True)
    assert pytest.approx(bar.mean_seconds) == 3.0
    assert bar.mean_seconds == pytest.approx(sum(bar.phases.values()))
    assert pytest.approx(bar.phases["queue"]) == 2.0 / 3
    assert {"engine": pytest.approx(2 / 3), "wire": pytest.approx(1 / 3)} == bar.sources["decode"]


def test_a_phase_without_a_source_is_absent() -> None:
    recorder, history = recorder_and_history()
    request(recorder, reported=False)

    (bar,) = anatomy(history).bars

    assert {"unattributed", "decode", "stream"} == set(bar.phases)


def test_streamed_and_whole_answers_are_two_bars() -> None:
    recorder, history = recorder_and_history()
    request(recorder, streaming=False)
    request(recorder, "batch")
    request(recorder)

    bars = anatomy(history).bars

    assert [(bar.lane, bar.streaming) for bar in bars] == [("batch", True), ("chat", True), ("chat", False)]


def test_a_lane_is_split_by_prompt_length_and_the_lengths_add_up_to_it() -> None:
    """Buckets are in order from short to long, over all models; a bucket without a request is absent."""
    recorder, history = recorder_and_history()
    request(recorder, queue=3.0, bucket="unknown")
    request(recorder, queue=2.0, bucket="512-4k")
    request(recorder, queue=1.0, bucket="512-4k", model="mixtral")

    (bar,) = anatomy(history).bars

    assert [(one.prompt_bucket, one.requests) for one in bar.buckets] == [("512-4k", 2), ("unknown", 1)]
    assert [one.phases["queue"] for one in bar.buckets] == [1.5, 3.0]
    assert (bar.prompt_bucket, bar.requests, bar.phases["queue"]) == ("", 3, 2.0)


def test_each_phase_has_its_own_quantiles_where_there_is_ground() -> None:
    recorder, history = recorder_and_history()
    for _ in range(20):
        request(recorder, queue=0.45)

    (bar,) = anatomy(history).bars
    queue = bar.spread["queue"]

    assert queue.count == 20
    assert 0.4 < (queue.at[0.5] or 0) < (queue.at[0.95] or 0) <= 0.5
    assert queue.at[0.99] is None


def test_what_is_older_than_the_window_is_forgotten() -> None:
    """A slow hour before the window does not change the bar."""
    recorder, history = recorder_and_history()
    request(recorder, queue=9.0)
    for at in range(5, 1000, 5):
        run_now(history.tick(float(at)))
        if at == 900:
            request(recorder, queue=0.5)

    (bar,) = anatomy(history, 1000.0).bars

    assert bar.requests == 1
    assert pytest.approx(bar.phases["queue"]) == 0.5
    assert anatomy(history, 1000.0).window_seconds <= 300


def test_quiet_is_told_from_never() -> None:
    recorder, history = recorder_and_history()
    request(recorder)
    for at in range(5, 1000, 5):
        run_now(history.tick(float(at)))

    found = anatomy(history, 1000.0)

    assert (found.ever, found.bars, found.ends) == (True, (), ())


def test_a_quantile_waits_for_enough_samples() -> None:
    """Below the minimum number of samples there is no quantile: the p99 of twenty requests would be their maximum."""
    recorder, history = recorder_and_history()
    for _ in range(20):
        request(recorder)

    (lane,) = anatomy(history).ends

    assert lane.ttft.count == 20
    assert lane.ttft.at[0.5] is not None
    assert lane.ttft.at[0.95] is not None
    assert lane.ttft.at[0.99] is None
    assert lane.outcomes == {"ok": 20}
    assert lane.attribution == {("engine", "in_band"): 20}
