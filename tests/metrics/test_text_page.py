"""The text of a page in both formats: exact bytes of single families, and slices that hold whole children."""

import math

import pytest

from sidecar.metrics import catalogue as c
from sidecar.metrics.children import CounterChild
from sidecar.metrics.declaration import Metric
from sidecar.metrics.registry import Metrics
from sidecar.metrics.text_page import SLICE_BYTES, rendered, slices
from sidecar.observe.record import Recorder
from tests.metrics.registries import BUCKETS, FEW, busy, page
from tests.support.promtool import check_metrics, families, samples


def few() -> Metrics:
    """A registry with one child of each kind, and one gauge that was not set."""
    metrics = Metrics(lanes=["batch"], prompt_buckets=["0-512"], constants={"gpu_type": "H100"})
    metrics.counter(c.STREAM_PAUSED_SECONDS_TOTAL).child("batch").inc(3)
    metrics.gauge(c.READY).child().set(1)
    metrics.gauge(c.ENGINE_UP).child()
    metrics.info(c.SIDECAR_BUILD_INFO, "1", "3.11", "pure", "full")
    reads = metrics.histogram(c.STREAM_EVENTS_PER_READ).child("batch")
    for value, trace_id, at in (
        (0.5, "a" * 32, 1700000000.25),
        (2.0, None, None),
        (2.0, None, None),
        (101, "b" * 32, None),
    ):
        reads.observe(value, trace_id, at)
    return metrics


READS = [
    *('_bucket{B,le="1.0"} 1', '_bucket{B,le="2.0"} 3', '_bucket{B,le="3.0"} 3', '_bucket{B,le="5.0"} 3'),
    *('_bucket{B,le="10.0"} 3', '_bucket{B,le="25.0"} 3', '_bucket{B,le="100.0"} 3', '_bucket{B,le="+Inf"} 4'),
    *("_count{B} 4", "_sum{B} 105.5"),
]
EXEMPLARS = {0: ' # {trace_id="%s"} 0.5 1700000000.250' % ("a" * 32), 7: ' # {trace_id="%s"} 101' % ("b" * 32)}
PAUSED = 'llm_stream_paused_seconds_total{gpu_type="H100",lane="batch"} 3'
BUILT = 'llm_sidecar_build_info{version="1",python_version="3.11",build="pure",profile="full"} 1'


@pytest.mark.parametrize(
    ("metric", "text", "openmetrics"),
    [
        (
            c.STREAM_PAUSED_SECONDS_TOTAL,
            ["TYPE llm_stream_paused_seconds_total counter", PAUSED],
            ["TYPE llm_stream_paused_seconds counter", "UNIT llm_stream_paused_seconds seconds", PAUSED],
        ),
        (
            c.SIDECAR_BUILD_INFO,
            ["TYPE llm_sidecar_build_info gauge", BUILT],
            ["TYPE llm_sidecar_build info", BUILT],
        ),
        # The sidecar's own carry no constant label.
        (c.READY, *2 * (["TYPE llm_sidecar_ready gauge", "llm_sidecar_ready 1"],)),
        (c.ENGINE_UP, *2 * (["TYPE llm_engine_up gauge"],)),
        (
            c.STREAM_EVENTS_PER_READ,
            ["TYPE llm_stream_events_per_read histogram", *READS],
            [
                "TYPE llm_stream_events_per_read histogram",
                *(line + EXEMPLARS.get(place, "") for place, line in enumerate(READS)),
            ],
        ),
    ],
    ids=lambda each: each.name if isinstance(each, Metric) else "",
)  # fmt: skip
def test_each_kind_is_written_as_its_format_wants(metric: Metric, text: list[str], openmetrics: list[str]) -> None:
    """OpenMetrics names a counter without `_total` and an info without `_info`, states units, and has exemplars."""
    for lines, told in ((text, False), (openmetrics, True)):
        family = next(one for one in page(few(), openmetrics=told).decode().split("# HELP ") if metric.help in one)
        expected = [
            f"# {line}" if line[:4] in ("TYPE", "UNIT") else f"{metric.name if line[0] == '_' else ''}{line}"
            for line in (each.replace("{B", '{gpu_type="H100",lane="batch"') for each in lines)
        ]
        assert family.removesuffix("# EOF\n").splitlines()[1:] == expected


def test_label_values_are_escaped_and_percent_signs_survive() -> None:
    """The percent sign is tested because the template uses it as its own mark."""
    child = CounterChild(('100%d "fast"\\x\n', "batch"), lambda: None)
    child.inc(3)

    line = rendered(c.CACHED_PROMPT_TOKENS_TOTAL, {"gpu_type": "H100"}, child)

    assert (
        line == rb'llm_cached_prompt_tokens_total{gpu_type="H100",model="100%d \"fast\"\\x\n",lane="batch"} 3' + b"\n"
    )
    assert rendered(c.CACHED_PROMPT_TOKENS_TOTAL, child.constants or {}, child) is line


@pytest.mark.parametrize(
    ("value", "written"),
    [(True, "1"), (0, "0"), (1e21, "1e+21"), (math.nan, "NaN"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (0.25, "0.25")],
)  # fmt: skip
def test_numbers_are_written_as_both_formats_want(value: float, written: str) -> None:
    metrics = few()
    metrics.gauge(c.READY).child().set(value)

    assert f"\nllm_sidecar_ready {written}\n" in page(metrics).decode()


@pytest.mark.long
def test_both_formats_say_the_same_numbers_and_exemplars_are_in_openmetrics_only() -> None:
    """Each by its own parser. Gauges that were never set are not on the page, and not counted."""
    metrics = busy(buckets=FEW)

    found = samples(page(metrics))

    assert found == samples(page(metrics, openmetrics=True), openmetrics=True)
    assert found["llm_sidecar_series", frozenset()] == len(found) == metrics.series
    read = families(page(metrics, openmetrics=True), openmetrics=True)
    exemplars = [sample.exemplar.labels for family in read for sample in family.samples if sample.exemplar]
    assert [dict(labels) for labels in {tuple(labels.items()) for labels in exemplars}] == [{"trace_id": "c" * 32}]
    assert b"trace_id" not in page(metrics)


def test_every_slice_is_small_and_holds_whole_children() -> None:
    """One step of the event loop renders at most one slice and one child; a histogram is never split over two slices."""
    metrics = busy()

    parts = list(slices(metrics, openmetrics=True, at=0.0))

    check_metrics(page(metrics))
    assert len(parts) > 50
    assert max(len(part) for part in parts) < 2 * SLICE_BYTES
    for part in parts:
        assert part.endswith(b"\n")
        assert part.count(b'le="+Inf"') == part.count(b"_count{") + part.count(b"_count ")
        assert part.count(b'le="+Inf"') == part.count(b"_sum{") + part.count(b"_sum ")


@pytest.mark.long
def test_a_histogram_is_consistent_in_itself_while_it_is_written_between_slices() -> None:
    """Requests still end while the page is being sent; each child's count equals its +Inf bucket all the same."""
    metrics = busy()
    family = metrics.histogram(c.REQUEST_PHASE_SECONDS)
    whole = b""

    for part in slices(metrics, openmetrics=False, at=0.0):
        whole += part
        for child in family.children.values():
            child.observe(0.3)

    found = samples(whole)
    ends = {key: value for key, value in found.items() if ("le", "+Inf") in key[1]}
    assert len(ends) > 300
    for (name, labels), value in ends.items():
        assert value == found[name.removesuffix("_bucket") + "_count", labels - {("le", "+Inf")}]


def test_children_born_during_a_scrape_do_not_break_it() -> None:
    metrics = Metrics(lanes=["a"], prompt_buckets=BUCKETS, models=["m"])
    Recorder(metrics)
    born = iter(BUCKETS)

    for _ in slices(metrics, openmetrics=False, at=0.0):
        metrics.histogram(c.TIME_TO_FIRST_TOKEN_SECONDS).child("m", "a", next(born)).observe(1)

    check_metrics(page(metrics))
