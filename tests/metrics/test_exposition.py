"""The metrics page: valid by independent parsers, written in slices that hold whole children, and safe under hostile
labels."""

import asyncio
import gzip
import zlib
from collections.abc import Sequence

import pytest

from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.exposition import SLICE_BYTES, Pages, slices
from sidecar.metrics.negotiation import Format
from sidecar.metrics.registry import Metrics
from sidecar.observe.in_flight import InFlight
from sidecar.observe.record import Recorder
from tests.support.promtool import check_metrics, families, samples


BUCKETS = ("0-512", "512-4k", "4k-16k", "16k-64k", "64k+", "unknown")
FEW = BUCKETS[:1]
"""One bucket, for tests that do not depend on the page's size: the reference parsers take 1.5 s for 20,000 series."""


def busy(*, buckets: Sequence[str] = BUCKETS) -> Metrics:
    """A registry with every child that can exist, each with a value: 20,000 series, or a third of them with `FEW`
    buckets."""
    metrics = Metrics(
        lanes=["interactive", "batch"],
        prompt_buckets=buckets,
        models=['we"ird\\100%s\n'],
        constants={"quantization": "fp8", "gpu_type": "H100"},
    )
    Recorder(metrics)
    phases = metrics.histogram(c.REQUEST_PHASE_SECONDS)
    for model in metrics.models.shown():
        for lane in metrics.lanes.shown():
            for bucket in metrics.prompt_buckets.shown():
                for streaming, phase, source in phases.metric.together:
                    phases.child(model, lane, bucket, streaming, phase, source).observe(0.2, "c" * 32, 1.7e9)
    metrics.info(c.SIDECAR_BUILD_INFO, "1.0", "3.11", "compiled", "full")
    metrics.gauge(c.ENGINE_UP).child().set(1)
    return metrics


def page(metrics: Metrics, *, openmetrics: bool = False, at: float = 0.0) -> bytes:
    whole = b"".join(slices(metrics, openmetrics=openmetrics, at=at))
    return whole + b"# EOF\n" if openmetrics else whole


async def written(metrics: Metrics, *, openmetrics: bool, squeezed: bool) -> list[bytes]:
    parts: list[bytes] = []

    async def write(data: bytes) -> None:
        parts.append(data)

    form = Format.OPENMETRICS if openmetrics else Format.TEXT
    await Pages(metrics).write(write, form, gzip=squeezed, at=0.0)
    return parts


@pytest.mark.long
def test_both_formats_say_the_same_numbers() -> None:
    """Text and OpenMetrics have the same numbers, each by its own parser."""
    metrics = busy(buckets=FEW)

    assert samples(page(metrics)) == samples(page(metrics, openmetrics=True), openmetrics=True)


def test_promtool_finds_nothing_to_say() -> None:
    check_metrics(page(busy()))


def test_the_page_has_as_many_series_as_the_registry_says() -> None:
    """Gauges that were never set are not on the page, and not counted."""
    metrics = busy(buckets=FEW)
    whole = page(metrics)

    found = samples(whole)

    assert found["llm_sidecar_series", frozenset()] == len(found) == metrics.series


@pytest.mark.long
def test_exemplars_are_in_openmetrics_only() -> None:
    metrics = busy(buckets=FEW)

    found = [
        sample.exemplar.labels
        for family in families(page(metrics, openmetrics=True), openmetrics=True)
        for sample in family.samples
        if sample.exemplar
    ]

    assert [dict(labels) for labels in {tuple(labels.items()) for labels in found}] == [{"trace_id": "c" * 32}]
    assert b"trace_id" not in page(metrics)


def test_every_slice_is_small_and_holds_whole_children() -> None:
    """One step of the event loop renders at most one slice and one child; a histogram is never split over two
    slices."""
    metrics = busy()

    parts = list(slices(metrics, openmetrics=True, at=0.0))

    assert len(parts) > 50
    assert max(len(part) for part in parts) < 2 * SLICE_BYTES
    assert all(part.endswith(b"\n") for part in parts)
    for part in parts:
        ends = part.count(b'le="+Inf"')
        assert ends == part.count(b"_count{") + part.count(b"_count ")
        assert ends == part.count(b"_sum{") + part.count(b"_sum ")


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


@pytest.mark.long
@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_whole_page_ends_with_the_process_and_parses(openmetrics: bool) -> None:
    """prometheus_client's own families come last; OpenMetrics ends with one `# EOF`."""
    whole = b"".join(asyncio.run(written(busy(buckets=FEW), openmetrics=openmetrics, squeezed=False)))

    names = {name for name, _ in samples(whole, openmetrics=openmetrics)}
    assert {"process_resident_memory_bytes", "python_info", "llm_requests_total"} <= names
    assert (1 if openmetrics else 0) == whole.count(b"# EOF\n")
    assert openmetrics == whole.endswith(b"# EOF\n")
    if not openmetrics:
        check_metrics(whole)


def test_a_gzipped_page_is_the_page() -> None:
    """The page is compressed slice by slice, into one gzip member."""
    metrics = busy()

    squeezed = b"".join(asyncio.run(written(metrics, openmetrics=False, squeezed=True)))

    assert gzip.decompress(squeezed).startswith(page(metrics))
    whole = zlib.decompressobj(wbits=31)
    whole.decompress(squeezed)
    assert (whole.eof, whole.unused_data) == (True, b"")


def test_the_loop_gets_a_turn_after_every_slice() -> None:
    """Another task on the loop runs at least once between any two writes."""

    async def scenario() -> int:
        metrics = busy()
        turns = 0
        most_in_a_row = in_a_row = 0

        async def write(_data: bytes) -> None:
            nonlocal in_a_row, most_in_a_row
            in_a_row += 1
            most_in_a_row = max(most_in_a_row, in_a_row)

        async def another_task() -> None:
            nonlocal turns, in_a_row
            while True:
                turns += 1
                in_a_row = 0
                await asyncio.sleep(0)

        other = asyncio.create_task(another_task())
        await asyncio.sleep(0)
        await Pages(metrics).write(write, Format.TEXT, gzip=False, at=0.0)
        other.cancel()
        assert turns > 50
        return most_in_a_row

    assert asyncio.run(scenario()) == 1


@pytest.mark.long
def test_ten_thousand_hostile_values_leave_the_page_as_long_and_as_valid() -> None:
    """Lanes, models and buckets with NUL, quotes, newlines, surrogates and bidi marks add no series, and both parsers
    and promtool accept the page."""
    metrics = busy(buckets=FEW)
    in_flight = InFlight(metrics)
    requests = metrics.counter(c.REQUESTS_TOTAL)
    in_flight.enter("first", RequestLabels("?", "?", "?"), 0.0)
    requests.child("?", "?", "?", "?").inc()
    metrics.models.admit(["engine\udcff\n\x00model"])
    before = len(samples(page(metrics)))

    for n in range(10_000):
        hostile = f'{n}\udcff\x00"\n\\‮%s{{}}' + chr(n)  # noqa: PLE2502  the bidi mark is the point
        requests.child(hostile, hostile, hostile, hostile).inc()
        in_flight.enter(n, RequestLabels(hostile, hostile, hostile), 0.0)

    assert before == len(samples(page(metrics)))
    assert before == len(samples(page(metrics, openmetrics=True), openmetrics=True))
    check_metrics(page(metrics))
