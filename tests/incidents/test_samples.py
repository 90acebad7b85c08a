"""Columns of samples are written so that promtool reads the same values that Prometheus would have scraped."""

from bench.incidents.samples import Samples
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics


def metrics() -> Metrics:
    return Metrics(lanes=["chat"], prompt_buckets=["short", "long"], models=["llama"])


def written(samples: Samples) -> dict[str, str]:
    return {
        series.split("{")[0] + series.partition("instance")[2].partition(",")[2]: values
        for series, values in samples.written()
    }


def test_runs_of_the_same_value_are_written_once_and_what_leaves_the_page_is_stale() -> None:
    page = metrics()
    up = page.gauge(c.ENGINE_UP).child()
    samples = Samples(page, frozenset({"llm_engine_up"}), 15.0)
    for value in (None, 1, 1, 1, 0, None, None, 1):
        up.set(value)
        samples.take()

    assert written(samples) == {"llm_engine_up": "_ 1+0x2 0 stale _ 1"}


def test_a_histogram_is_its_cumulative_buckets() -> None:
    page = metrics()
    reads = page.histogram(c.STREAM_EVENTS_PER_READ).child("chat")
    samples = Samples(page, frozenset({"llm_stream_events_per_read_bucket", "llm_stream_events_per_read_count"}), 15.0)
    for events in (1, 1, 1000):
        reads.observe(events)
    samples.take()

    found = written(samples)
    assert found['llm_stream_events_per_read_countlane="chat"}'] == "3"
    assert found['llm_stream_events_per_read_bucketlane="chat",le="1.0"}'] == "2"
    assert found['llm_stream_events_per_read_bucketlane="chat",le="+Inf"}'] == "3"


def test_empty_buckets_are_left_out_where_another_stays() -> None:
    """The sum over the buckets does not change. A series that is 0 in all buckets stays once, so that it exists."""
    page = metrics()
    requests = page.counter(c.REQUESTS_TOTAL)
    for bucket in ("short", "long"):
        for outcome in ("ok", "rejected"):
            requests.child("llama", "chat", bucket, outcome)
    requests.child("llama", "chat", "long", "ok").inc()
    samples = Samples(page, frozenset({"llm_requests_total"}), 15.0)
    samples.take()

    samples.without_idle_buckets()

    left = {(dict(labels)["prompt_bucket"], dict(labels)["outcome"]) for _, labels in samples.columns}
    assert left == {("long", "ok"), ("short", "rejected")}
