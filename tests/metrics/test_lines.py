"""The exact bytes of single families and children."""

import math

import pytest

from sidecar.metrics import catalogue as c
from sidecar.metrics.children import CounterChild, Exemplar, GaugeChild, HistogramChild
from sidecar.metrics.lines import head, number, rendered, with_exemplars


def no_callback() -> None: ...


def test_a_counter_is_named_as_each_format_wants() -> None:
    """OpenMetrics names the family without `_total` and states its unit; both formats write the sample with
    `_total`."""
    text, openmetrics = (head(c.STREAM_PAUSED_SECONDS_TOTAL, openmetrics=each) for each in (False, True))

    assert b"# TYPE llm_stream_paused_seconds_total counter\n" in text
    assert b"# TYPE llm_stream_paused_seconds counter\n# UNIT llm_stream_paused_seconds seconds\n" in openmetrics
    assert b"UNIT" not in text


def test_an_info_is_a_gauge_where_there_are_no_infos() -> None:
    assert b"# TYPE llm_sidecar_build_info gauge\n" in head(c.SIDECAR_BUILD_INFO, openmetrics=False)
    assert b"# TYPE llm_sidecar_build info\n" in head(c.SIDECAR_BUILD_INFO, openmetrics=True)


def test_label_values_are_escaped_and_percent_signs_survive() -> None:
    """The percent sign is tested because the template uses it as its own mark."""
    child = CounterChild(('100%d "fast"\\x\n', "batch"), no_callback)
    child.inc(3)

    line = rendered(c.CACHED_PROMPT_TOKENS_TOTAL, {"gpu_type": "H100"}, child)

    expected = rb'llm_cached_prompt_tokens_total{gpu_type="H100",model="100%d \"fast\"\\x\n",lane="batch"} 3' + b"\n"
    assert expected == line


def test_a_histogram_is_cumulative_and_ends_with_its_count() -> None:
    child = HistogramChild(("batch",), no_callback, (1.0, 2.5))
    for value in (0.5, 2.0, 2.0, 9.0):
        child.observe(value)

    lines = rendered(c.STREAM_EVENTS_PER_READ, {}, child)

    assert lines == (
        b'llm_stream_events_per_read_bucket{lane="batch",le="1.0"} 1\n'
        b'llm_stream_events_per_read_bucket{lane="batch",le="2.5"} 3\n'
        b'llm_stream_events_per_read_bucket{lane="batch",le="+Inf"} 4\n'
        b'llm_stream_events_per_read_count{lane="batch"} 4\n'
        b'llm_stream_events_per_read_sum{lane="batch"} 13.5\n'
    )


def test_a_gauge_that_was_not_set_has_no_line() -> None:
    assert rendered(c.ENGINE_UP, {}, GaugeChild(())) == b""


def test_the_sidecars_own_metrics_carry_no_constant_label() -> None:
    child = GaugeChild(())
    child.set(1)

    assert rendered(c.READY, {"gpu_type": "H100"}, child) == b"llm_sidecar_ready 1\n"


def test_an_unchanged_child_is_not_written_again() -> None:
    child = CounterChild((), no_callback)
    child.inc()

    constants = {"gpu_type": "H100"}
    assert rendered(c.ENGINE_RESTARTS_TOTAL, constants, child) is rendered(c.ENGINE_RESTARTS_TOTAL, constants, child)


def test_a_child_is_written_anew_once_the_constants_are_others() -> None:
    """The constant labels may change between two scrapes, and the cached lines then change too."""
    child = CounterChild((), no_callback)
    child.inc()
    lines = [rendered(c.ENGINE_RESTARTS_TOTAL, {"gpu_type": gpu}, child) for gpu in ("unknown", "H100")]

    assert lines == [
        b'llm_engine_restarts_total{gpu_type="unknown"} 1\n',
        b'llm_engine_restarts_total{gpu_type="H100"} 1\n',
    ]


def test_exemplars_stand_behind_their_buckets() -> None:
    lines = b'x_bucket{le="1.0"} 1\nx_bucket{le="+Inf"} 2\nx_count 2\nx_sum 4.5\n'
    found = {0: Exemplar("a" * 32, 0.5, 1700000000.25), 1: Exemplar("b" * 32, 4.0, None)}

    assert with_exemplars(lines, found) == (
        b'x_bucket{le="1.0"} 1 # {trace_id="%b"} 0.5 1700000000.250\nx_bucket{le="+Inf"} 2 # {trace_id="%b"} 4\n'
        b"x_count 2\nx_sum 4.5\n" % (b"a" * 32, b"b" * 32)
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [(True, b"1"), (0, b"0"), (1e21, b"1e+21"), (math.nan, b"NaN"), (math.inf, b"+Inf"), (-math.inf, b"-Inf")],
)
def test_numbers_are_written_as_both_formats_want(value: float, written: bytes) -> None:
    assert written == number(value)
