"""The engine's own state on the status page: known values with their units, unknown ones named, and never a zero for them."""

from collections.abc import Mapping

from sidecar.admin.page.engine_now import engine_now, engine_state
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Gauge
from sidecar.metrics.registry import Metrics
from tests.support.page_reader import Reader


def metrics() -> Metrics:
    return Metrics(lanes=["chat"], prompt_buckets=["0-512"], models=["llama"])


def shown(gauges: Mapping[Gauge, float], source: str = "", *hints: str) -> str:
    registry = metrics()
    for gauge, value in gauges.items():
        registry.gauge(gauge).child().set(value)
    return Reader(engine_state(engine_now(registry), "127.0.0.1:8000 (vllm)", source, hints)).text


def test_the_values_are_those_that_prometheus_scrapes() -> None:
    """The hit ratio is of all lookups since the process began, and is unknown before the first."""
    registry = metrics()
    for counter in (c.ENGINE_PREFIX_CACHE_QUERIES_TOTAL, c.ENGINE_PREFIX_CACHE_HITS_TOTAL):
        registry.counter(counter).child().inc(0.0)
    assert not any(engine_now(registry).values())

    registry.gauge(c.ENGINE_UP).child().set(1.0)
    registry.gauge(c.ENGINE_REQUESTS_WAITING).child().set(3.0)
    registry.gauge(c.ENGINE_SILENCE_SECONDS).child().set(12.0)
    registry.counter(c.ENGINE_PREFIX_CACHE_QUERIES_TOTAL).child().inc(200.0)
    registry.counter(c.ENGINE_PREFIX_CACHE_HITS_TOTAL).child().inc(50.0)
    registry.gauge(c.ENGINE_REPORT_AGREEMENT_RATIO).child("queue").set(0.98)

    assert {row: value for row, value in engine_now(registry).items() if value} == {
        "answers": "yes",
        "waiting in its queue": "3",
        "prefix cache hits": "25\u00a0%",
        "silent for": "12.0\u00a0s",
        "reported seconds over its own sums": "queue 98\u00a0%",
    }


def test_an_engine_that_reports_nothing_has_no_table() -> None:
    page = shown({})

    assert "The engine reports no state." in page
    assert "Not reported" not in page


def test_unknown_values_are_named_below_the_table_and_a_zero_is_a_zero() -> None:
    page = shown({c.ENGINE_UP: 0.0, c.ENGINE_REQUESTS_WAITING: 0.0, c.ENGINE_KV_CACHE_USAGE_RATIO: 0.5})

    assert "answers no waiting in its queue 0 KV cache in use 50 %" in page
    assert "Not reported by the engine: running, prefix cache hits, preemptions, restarts seen," in page


def test_a_silence_is_shown_from_one_second_on_with_the_work_that_explains_it() -> None:
    """Every engine is silent between two tokens."""
    short, long = (
        shown({c.ENGINE_SILENCE_SECONDS: seconds, c.ENGINE_SILENCE_EXPECTED_SECONDS: 4.0}) for seconds in (0.9, 12.0)
    )

    assert "silent for" not in short
    assert "silent for 12.0 s 4.00 s of work was pending" in long


def test_names_sources_and_hints_are_escaped() -> None:
    """The engine's version may be part of its name, and its flags part of a hint."""
    page = shown({c.ENGINE_UP: 1.0}, "by <b>spans</b>", "start it with --a & <i>")

    assert "Split of the time before the first token: by <b>spans</b>" in page
    assert "To know more: start it with --a & <i>." in page


def test_an_engine_that_has_stopped_in_its_work_is_told_from_one_that_does_not_answer() -> None:
    assert "answers no" in shown({c.ENGINE_UP: 0.0, c.ENGINE_STALLED: 0.0})
    assert "answers stalled" in shown({c.ENGINE_UP: 0.0, c.ENGINE_STALLED: 1.0})


def test_inference_that_passes_uncounted_is_told() -> None:
    """No row says so while nothing of the kind has passed."""
    registry = metrics()
    assert not any("uncounted" in row for row in engine_now(registry))
    for kind, number in (("event_stream", 2.0), ("websocket", 1.0)):
        registry.counter(c.UNCOUNTED_INFERENCE_TOTAL).child(kind).inc(number)

    (told,) = [value for row, value in engine_now(registry).items() if "uncounted" in row]

    assert Reader(told).text.startswith("3 the log names the paths")


def test_an_engine_that_is_no_longer_asked_for_usage_is_told_with_the_reason() -> None:
    """No row says so before, nor once it is asked again."""
    found = []
    registry = metrics()
    for stopped in (None, 1.0, 0.0):
        if stopped is not None:
            registry.gauge(c.USAGE_STOPPED).child("compressed_answers").set(stopped)
        found.append(Reader(engine_now(registry).get("asked for usage", "")).text)

    assert found == [
        "",
        "no its answers come compressed although `identity` is asked for: turn compression off between engine and sidecar",
        "",
    ]
