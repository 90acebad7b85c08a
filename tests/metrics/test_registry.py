"""The registry hands out children by closed labels, and holds its limit of series whatever clients send."""

import pytest

from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.timeline.outcome import Outcome


BUCKETS = ("0-512", "512-4k", "unknown")


def metrics(series_limit: int = 25_000, **more: str) -> Metrics:
    return Metrics(
        lanes=["interactive", "batch", "other"],
        prompt_buckets=BUCKETS,
        models=["llama"],
        constants=more or {"quantization": "fp8", "gpu_type": "H100"},
        series_limit=series_limit,
    )


def overflow(registry: Metrics, label: str) -> float:
    return registry.counter(c.LABEL_OVERFLOW_TOTAL).child(label).value


def test_the_same_labels_are_the_same_child() -> None:
    """The same, if a label value is a member of an enumeration instead of its text."""
    family = metrics().counter(c.REQUESTS_TOTAL)

    family.child("llama", "batch", "0-512", Outcome.OK).inc()

    assert family.child("llama", "batch", "0-512", "ok").value == 1


def test_a_value_outside_becomes_the_fallback_and_is_counted() -> None:
    registry = metrics()
    family = registry.histogram(c.TIME_TO_FIRST_TOKEN_SECONDS)

    child = family.child("gpt-9", "vip", "99M+")

    assert child.labels == ("other", "other", "unknown")
    assert [overflow(registry, label) for label in ("model", "lane", "prompt_bucket")] == [1, 1, 1]
    assert child is family.child("other", "other", "unknown")


def test_ten_thousand_hostile_values_leave_the_series_as_they_were() -> None:
    """Models, lanes and buckets that a client invents, invalid UTF-8 included, make no series."""
    registry = metrics()
    family = registry.counter(c.REQUESTS_TOTAL)
    family.child("x", "x", "x", "ok").inc()
    registry.counter(c.LABEL_OVERFLOW_TOTAL).child("outcome")
    family.child("x", "x", "x", "other").inc()
    before = registry.series

    for n in range(10_000):
        hostile = bytes([n % 256, 0xFF, n // 256]).decode("utf-8", "surrogateescape") + str(n)
        family.child(hostile, hostile, hostile, hostile if n % 2 else "ok").inc()

    assert before == registry.series
    assert overflow(registry, "model") == 10_002
    assert sum(child.value for child in family.children.values()) == 10_002


def test_a_wrong_number_of_labels_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="llm_requests_total has 4 labels, not 1"):
        metrics().counter(c.REQUESTS_TOTAL).child("llama")


def test_a_metric_shows_the_labels_of_a_request_that_it_declares() -> None:
    """A metric shows the three labels, two, or the lane alone, as declared; other values of the request make no other
    child."""
    registry, labels = metrics(), RequestLabels("llama", "batch", "0-512")

    shown = [
        registry.counter(c.REQUESTS_TOTAL).of[labels, Outcome.OK].labels,
        registry.counter(c.CACHED_PROMPT_TOKENS_TOTAL).of[labels].labels,
        registry.counter(c.STREAM_PAUSED_SECONDS_TOTAL).of[labels].labels,
        registry.counter(c.PASSTHROUGH_REQUESTS_TOTAL).of[labels, Outcome.OK].labels,
    ]

    assert shown == [("llama", "batch", "0-512", "ok"), ("llama", "batch"), ("batch",), ("ok",)]
    family = registry.gauge(c.REQUESTS_IN_FLIGHT)
    assert family.labels_of(family.of[labels, "waiting"].labels) == RequestLabels("llama", "batch", "")


def test_children_begin_in_every_combination_that_can_exist() -> None:
    """Labels that exist only in certain combinations begin in those; a fixed label begins with its value alone. Nothing begins for
    `other` before it was needed, and all that begins after that does.
    """
    registry = metrics()
    votes, received = registry.counter(c.SLO_BLAMED_MISSES_TOTAL), registry.counter(c.REQUESTS_RECEIVED_TOTAL)

    votes.begin(model="llama", lane="batch", objective="tpot")
    received.begin(lane="batch")

    assert [*votes.children] == [
        ("llama", "batch", "tpot", phase) for phase in ("decode", "stream", "unattributed", "engine")
    ]
    assert [*received.children] == [("llama", "batch")]
    told = registry.told
    received.child("a client's model", "interactive")
    received.begin(lane="batch")
    assert registry.told > told
    assert [*received.children] == [("llama", "batch"), ("other", "interactive"), ("other", "batch")]
    assert {child.value for child in received.children.values()} == {0}


def test_a_fixed_label_outside_its_set_begins_under_the_fallback_and_is_counted() -> None:
    """A config's lane for which there was no room left makes no label of its own."""
    registry = metrics()
    received = registry.counter(c.REQUESTS_RECEIVED_TOTAL)

    received.begin(lane="the 135th")

    assert [*received.children] == [("llama", "other")]
    assert overflow(registry, "lane") == 1


def test_a_model_that_the_engine_tells_later_gets_its_own_series() -> None:
    registry = metrics()
    family = registry.counter(c.CACHED_PROMPT_TOKENS_TOTAL)
    assert family.child("mixtral", "batch").labels[0] == "other"

    registry.models.admit(["mixtral"])

    assert family.child("mixtral", "batch").labels[0] == "mixtral"


def test_no_combination_of_labels_passes_the_limit_of_series() -> None:
    """Observations beyond the limit are counted under fallback labels, whose series are reserved from the start, so
    that none is lost."""
    registry = metrics(series_limit=2_000)
    phases = registry.histogram(c.REQUEST_PHASE_SECONDS)
    written = 0

    for lane in ("interactive", "batch", "other"):
        for bucket in BUCKETS:
            for streaming, phase, source in phases.metric.together:
                phases.child("llama", lane, bucket, streaming, phase, source).observe(0.1)
                written += 1

    assert registry.series <= 2_000
    assert written == sum(child.count for child in phases.children.values())
    assert overflow(registry, "series") > 0
    assert phases.child("other", "other", "unknown", "true", "queue", "engine").count > 0


def test_an_info_lets_its_own_values_in_but_only_so_many() -> None:
    registry = metrics()

    registry.info(c.SIDECAR_BUILD_INFO, "1.2.3", "3.11.9", "compiled", "lean")
    for n in range(20):
        registry.info(c.ENGINE_INFO, "vllm", f"0.{n}")

    build = registry.gauge(c.SIDECAR_BUILD_INFO).children
    engine = registry.gauge(c.ENGINE_INFO).children
    assert list(build) == [("1.2.3", "3.11.9", "compiled", "lean")]
    assert len(engine) == 9
    assert ("vllm", "other") in engine


def test_gauges_that_are_computed_at_a_scrape_are_told_its_instant() -> None:
    registry = metrics()
    seen: list[float] = []
    registry.before_scrape(seen.append)
    registry.before_scrape(lambda _at: seen.append(-1.0), first=True)

    registry.refresh(12.5)

    assert seen == [-1.0, 12.5]
    assert registry.series == registry.gauge(c.SERIES).child().value
