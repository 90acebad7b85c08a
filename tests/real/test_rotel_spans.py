"""A real collector takes the spans of a real sidecar, and hands each of them on as it was meant."""

import asyncio
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.real.environment import BuildError, Say
from tests.real.rotel_environment import rotel_program
from tests.support.client import Connection, post
from tests.support.collector import Collector
from tests.support.plain_engine import MODEL, plain_engine
from tests.support.ports import free_port
from tests.support.sidecar_process import SidecarProcess, running_sidecar
from tests.support.tools import missing


REQUESTS = 20
"""Each with a trace of its own, that its client has sampled."""
CLIENT = "b7ad6b7169203331"
PATIENCE_SECONDS = 30.0


@pytest.fixture(scope="module")
def rotel(say: Say) -> Path:
    try:
        return rotel_program(say)
    except BuildError as error:
        missing(f"no Rotel can be installed here: {error}")


@contextmanager
def running(rotel: Path, behind: str, folder: Path) -> Iterator[str]:
    """A Rotel that sends on what it gets to `behind`; yields its own URL for traces."""
    ports = [free_port(), free_port()]
    command = [
        *(
            str(rotel),
            "start",
            f"--otlp-grpc-endpoint=127.0.0.1:{ports[0]}",
            f"--otlp-http-endpoint=127.0.0.1:{ports[1]}",
        ),
        *("--exporter=otlp", f"--otlp-exporter-endpoint={behind}", "--otlp-exporter-protocol=http"),
        "--otlp-exporter-compression=none",
    ]
    with (folder / "rotel.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{ports[1]}/v1/traces"
    finally:
        process.kill()
        process.wait(timeout=10)


@asynccontextmanager
async def chain(rotel: Path, folder: Path) -> AsyncIterator[tuple[SidecarProcess, Collector]]:
    """Engine, sidecar, Rotel, and a collector that decodes with OpenTelemetry's own messages."""
    collector = Collector()
    with ExitStack() as stack:
        async with plain_engine() as engine, collector.listening():
            url = stack.enter_context(running(rotel, collector.url.removesuffix("/v1/traces"), folder))
            config = folder / "sidecar.yml"
            config.write_text(f"spans:\n  export_url: {url}\n")
            started = running_sidecar(engine, folder, flags=[f"--config.file={config}"])
            yield await asyncio.to_thread(stack.enter_context, started), collector


def test_each_span_arrives_behind_a_real_collector_with_its_parent_and_its_words(rotel: Path, tmp_path: Path) -> None:
    """All that the page calls acknowledged is there, once, below the client's span of its trace."""

    async def story() -> tuple[list[Any], str]:
        async with chain(rotel, tmp_path) as (sidecar, collector):
            connection = await Connection.open(sidecar.port)
            for number in range(REQUESTS):
                traceparent = f"00-{number + 1:032x}-{CLIENT}-01"
                asked = post("/v1/completions", {"model": MODEL, "prompt": "la"}, [("traceparent", traceparent)])
                assert (await connection.request(asked)).status == 200
            connection.close()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while sum(span.parent_span_id.hex() == CLIENT for span in collector.spans) < REQUESTS:
                    collector.asked.clear()
                    await collector.asked.wait()
            return collector.spans, await asyncio.to_thread(sidecar.page, "/metrics")

    spans, page = asyncio.run(story())
    (acknowledged,) = (
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "llm_sidecar_exported_spans_ended_total" and sample.labels["result"] == "acknowledged"
    )
    roots = [span for span in spans if span.parent_span_id.hex() == CLIENT]

    assert sorted(int(span.trace_id.hex(), 16) for span in roots) == list(range(1, REQUESTS + 1))
    assert {span.name for span in roots} == {f"text_completion {MODEL}"}
    own = {span.span_id for span in roots}
    assert {span.parent_span_id for span in spans if span not in roots} <= own
    assert Counter(span.name for span in spans if span not in roots)["prefill"] == REQUESTS
    outcomes = [
        each.value.string_value for span in roots for each in span.attributes if each.key == "llm_sidecar.outcome"
    ]
    assert outcomes == ["ok"] * REQUESTS
    assert (len(spans), len({span.span_id for span in spans})) == (acknowledged, acknowledged)
