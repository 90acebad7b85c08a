"""A whole page in every format: it ends with the process, is squeezed slice by slice, and is safe under hostile labels."""

import asyncio
import gzip
import zlib
from itertools import pairwise

import pytest

from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.exposition import Pages
from sidecar.metrics.negotiation import Format
from sidecar.metrics.registry import Metrics
from sidecar.observe.in_flight import InFlight
from sidecar.observe.request_record import RequestRecord
from tests.metrics.registries import FEW, busy, page
from tests.support.promtool import check_metrics, samples
from tests.support.protobuf_reader import families_of


def written(metrics: Metrics, form: Format, *, squeezed: bool = False) -> bytes:
    parts: list[bytes] = []

    async def write(data: bytes) -> None:
        parts.append(data)

    asyncio.run(Pages(metrics).write(write, form, gzip=squeezed, at=0.0))
    return b"".join(parts)


@pytest.mark.long
@pytest.mark.parametrize("form", Format)
def test_a_whole_page_ends_with_the_process_and_parses(form: Format) -> None:
    """prometheus_client's own families come last; OpenMetrics ends with one `# EOF`."""
    metrics = busy(buckets=FEW, form="only" if form is Format.PROTOBUF else "off")

    whole = written(metrics, form)

    if form is Format.PROTOBUF:
        names = {family.name for family in families_of(whole)}
        assert gzip.decompress(written(metrics, form, squeezed=True))[:4096] == whole[:4096]
    else:
        openmetrics = form is Format.OPENMETRICS
        names = {name for name, _ in samples(whole, openmetrics=openmetrics)}
        assert whole.count(b"# EOF\n") == whole.endswith(b"# EOF\n") == openmetrics
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "python_info", "llm_requests_total"} <= names
    if form is Format.TEXT:
        check_metrics(whole)


def test_a_gzipped_page_is_the_page() -> None:
    """The page is compressed slice by slice, into one gzip member."""
    metrics = busy()

    squeezed = written(metrics, Format.TEXT, squeezed=True)

    assert gzip.decompress(squeezed).startswith(page(metrics))
    whole = zlib.decompressobj(wbits=31)
    whole.decompress(squeezed)
    assert (whole.eof, whole.unused_data) == (True, b"")


def test_the_loop_gets_a_turn_after_every_slice() -> None:
    """Another task on the loop runs at least once between any two writes."""
    seen: list[str] = []

    async def write(_data: bytes) -> None:
        seen.append("write")

    async def another_task() -> None:
        while True:
            seen.append("turn")
            await asyncio.sleep(0)

    async def scenario() -> None:
        other = asyncio.create_task(another_task())
        await asyncio.sleep(0)
        await Pages(busy()).write(write, Format.TEXT, gzip=False, at=0.0)
        other.cancel()

    asyncio.run(scenario())

    assert seen.count("write") > 50
    assert ("write", "write") not in {*pairwise(seen)}


@pytest.mark.long
def test_ten_thousand_hostile_values_leave_the_page_as_long_and_as_valid() -> None:
    """Lanes, models and buckets with NUL, quotes, newlines, surrogates and bidi marks add no series, and both parsers
    and promtool accept the page."""
    metrics = busy(buckets=FEW)
    in_flight = InFlight(metrics)
    requests = metrics.counter(c.REQUESTS_TOTAL)
    in_flight.enter(RequestRecord(), RequestLabels("?", "?", "?"), 0.0)
    requests.child("?", "?", "?", "?").inc()
    metrics.models.admit(["engine\udcff\n\x00model"])
    before = len(samples(page(metrics)))

    for n in range(10_000):
        hostile = f'{n}\udcff\x00"\n\\‮%s{{}}' + chr(n)  # noqa: PLE2502  the bidi mark is the point
        requests.child(hostile, hostile, hostile, hostile).inc()
        in_flight.enter(RequestRecord(), RequestLabels(hostile, hostile, hostile), 0.0)

    assert before == len(samples(page(metrics))) == len(samples(page(metrics, openmetrics=True), openmetrics=True))
    check_metrics(page(metrics))
