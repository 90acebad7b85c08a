"""Columns of samples are written so that promtool reads the same values that Prometheus would have scraped."""

from bench.incidents.samples import Samples, edges_of
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import OVERHEAD_SECONDS
from sidecar.metrics.registry import Metrics


NAME = "llm_inter_token_seconds_bucket"


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


def test_what_is_always_0_is_left_out_where_another_series_has_the_same_part_in_every_sum() -> None:
    """The sums over buckets and outcomes of a lane do not change. A lane whose series are all 0 keeps one of them."""
    page = Metrics(lanes=["chat", "batch"], prompt_buckets=["short", "long"], models=["llama"])
    requests, overdue = page.counter(c.REQUESTS_TOTAL), page.gauge(c.REQUESTS_IN_FLIGHT)
    for lane in ("chat", "batch"):
        for bucket in ("short", "long"):
            for outcome in ("ok", "rejected"):
                requests.child("llama", lane, bucket, outcome)
        for state in ("waiting", "streaming"):
            overdue.child("llama", lane, state).set(0)
    requests.child("llama", "chat", "long", "ok").inc()
    overdue.child("llama", "batch", "streaming").set(2)
    samples = Samples(page, frozenset({"llm_requests_total", "llm_requests_in_flight"}), 15.0)
    samples.take()

    samples.without_idle()

    left = {(name, *dict(labels).values()) for name, labels in samples.columns}
    assert left == {
        ("llm_requests_total", "llama", "chat", "long", "ok"),
        ("llm_requests_total", "llama", "batch", "short", "ok"),
        *(
            ("llm_requests_in_flight", "llama", lane, state)
            for lane in ("chat", "batch")
            for state in ("waiting", "streaming")
        ),
    }


def test_a_quantile_needs_the_edges_around_what_was_observed_on_any_pod() -> None:
    """Gaps of 30 ms on one pod and of 0.12 s on another: edges far below and far above count nothing of their own."""
    pods = []
    for seconds in (0.03, 0.12):
        page = metrics()
        page.histogram(c.INTER_TOKEN_SECONDS).child("llama", "chat").observe(seconds)
        page.histogram(OVERHEAD_SECONDS).child()
        pods.append(Samples(page, frozenset({NAME, "llm_sidecar_overhead_seconds_bucket"}), 15.0))
        pods[-1].take()

    edges = edges_of(pods)

    needed = sorted(float(edge) for edge in edges[NAME])
    every = sorted(float(dict(labels)["le"]) for name, labels in pods[0].columns if name == NAME)
    assert needed == [*(edge for edge in every if 0.025 <= edge <= 0.15), float("inf")]
    assert edges["llm_sidecar_overhead_seconds_bucket"] == {"+Inf"}


def test_lanes_and_models_without_traffic_are_left_out_where_another_has_the_same_series() -> None:
    """Rules exclude `other`, or add 0 of it. A metric that only a silent lane has stays, so that it exists."""
    page = Metrics(lanes=["chat", "batch"], prompt_buckets=["short"], models=["llama"])
    requests = page.counter(c.REQUESTS_TOTAL)
    for model, lane in (("llama", "chat"), ("llama", "other"), ("other", "chat")):
        for outcome in ("ok", "rejected"):
            requests.child(model, lane, "short", outcome)
    requests.child("llama", "batch", "short", "rejected")
    page.gauge(c.REQUESTS_IN_FLIGHT).child("llama", "batch", "waiting").set(0)
    requests.child("llama", "chat", "short", "ok").inc()
    samples = Samples(page, frozenset({"llm_requests_total", "llm_requests_in_flight"}), 15.0)
    samples.take()

    samples.without_idle()

    left = {(name, dict(labels)["model"], dict(labels)["lane"]) for name, labels in samples.columns}
    assert left == {("llm_requests_total", "llama", "chat"), ("llm_requests_in_flight", "llama", "batch")}


def test_only_the_edges_that_rules_read_are_written() -> None:
    page = metrics()
    page.histogram(c.STREAM_EVENTS_PER_READ).child("chat").observe(3)
    name = "llm_stream_events_per_read_bucket"
    samples = Samples(page, frozenset({name}), 15.0)
    samples.take()

    found = [series for series, _ in samples.written({name: frozenset({"5.0"})})]

    assert [series.partition(",le=")[2] for series in found] == ['"5.0"}']


def test_each_pod_is_a_target_of_its_own() -> None:
    page = metrics()
    page.gauge(c.ENGINE_UP).child().set(1)
    samples = Samples(page, frozenset({"llm_engine_up"}), 15.0, pod=3)
    samples.take()

    ((series, _),) = samples.written()
    assert 'pod="llm-3"' in series
    assert 'instance="llm-3:9901"' in series


def test_after_a_restart_the_series_go_on_and_the_scrape_between_fails() -> None:
    """The new process counts from 0. At the scrape that failed, all series are stale and `up` is 0."""
    old, new = metrics(), metrics()
    old.counter(c.REQUESTS_TOTAL).child("llama", "chat", "short", "ok").inc(7)
    new.counter(c.REQUESTS_TOTAL).child("llama", "chat", "short", "ok").inc(2)
    samples = Samples(old, frozenset({"llm_requests_total", "process_start_time_seconds"}), 15.0)
    samples.take()
    samples.take()
    samples.go_on(new, 25.0)
    samples.miss()
    samples.take()
    samples.add_target()

    values = {series.split("{")[0]: values for series, values in samples.written()}
    assert values == {
        "llm_requests_total": "7+0x1 stale 2",
        "process_start_time_seconds": "0+0x1 stale 25",
        "up": "1+0x1 0 1",
        "llm_sidecar_build_info": "1+0x1 stale 1",
    }
