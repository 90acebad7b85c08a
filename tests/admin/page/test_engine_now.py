"""The engine's own state on the status page: known values with their units, unknown ones named, and never a zero for them."""

from sidecar.admin.page.engine_now import EngineNow, engine_now, engine_state
from sidecar.metrics import catalogue as c
from sidecar.metrics import slo_metrics as p
from sidecar.metrics.registry import Metrics
from tests.support.page_reader import Reader


def metrics() -> Metrics:
    return Metrics(lanes=["chat"], prompt_buckets=["0-512"], models=["llama"])


def shown(engine: EngineNow, source: str = "", *hints: str) -> str:
    return Reader(engine_state(engine, "127.0.0.1:8000 (vllm)", source, hints)).text


def test_the_values_are_those_that_prometheus_scrapes() -> None:
    """The hit ratio is of all lookups since the process began, and is unknown before the first."""
    registry = metrics()
    for counter in (c.ENGINE_PREFIX_CACHE_QUERIES_TOTAL, c.ENGINE_PREFIX_CACHE_HITS_TOTAL):
        registry.counter(counter).child().inc(0.0)
    assert engine_now(registry) == EngineNow()

    registry.gauge(c.ENGINE_UP).child().set(1.0)
    registry.gauge(c.ENGINE_REQUESTS_WAITING).child().set(3.0)
    registry.gauge(p.ENGINE_SILENCE_SECONDS).child().set(12.0)
    registry.counter(c.ENGINE_PREFIX_CACHE_QUERIES_TOTAL).child().inc(200.0)
    registry.counter(c.ENGINE_PREFIX_CACHE_HITS_TOTAL).child().inc(50.0)
    registry.gauge(c.ENGINE_REPORT_AGREEMENT_RATIO).child("queue").set(0.98)

    assert engine_now(registry) == EngineNow(
        up=1.0, waiting=3.0, cached=0.25, silence_seconds=12.0, agreement={"queue": 0.98}
    )


def test_an_engine_that_tells_nothing_has_no_table() -> None:
    page = shown(EngineNow())

    assert "The engine tells nothing." in page
    assert "Not told" not in page


def test_unknown_values_are_named_below_the_table_and_a_zero_is_a_zero() -> None:
    page = shown(EngineNow(up=0.0, waiting=0.0, kv_usage=0.5))

    assert "answers no waiting in its queue 0 KV cache in use 50 %" in page
    assert "Not told by the engine: running, prefix cache hits, preemptions, restarts seen," in page


def test_a_silence_is_shown_from_one_second_on_with_the_work_that_explains_it() -> None:
    """Every engine is silent between two tokens."""
    short, long = (shown(EngineNow(up=1.0, silence_seconds=of, silence_expected_seconds=4.0)) for of in (0.9, 12.0))

    assert "silent for" not in short
    assert "silent for 12.0 s 4.00 s of work was pending" in long


def test_names_ways_and_hints_are_escaped() -> None:
    """The engine's version may be part of its name, and its flags part of a hint."""
    page = shown(EngineNow(up=1.0), "by <b>spans</b>", "start it with --a & <i>")

    assert "time before the first token is split: by <b>spans</b>" in page
    assert "To know more: start it with --a & <i>." in page
