"""Requests that wait and run at a real Dynamo's workers are on the sidecar's page, from the workers' own pages."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.real.dynamo_environment import DynamoBuild
from tests.real.dynamo_record import CHAT
from tests.real.dynamo_server import Shape, running_dynamo
from tests.real.environment import Say
from tests.real.server import SLOTS
from tests.real.told import page_of, total_of
from tests.support.client import Connection, post
from tests.support.sidecar_process import SidecarProcess, running_sidecar


CLIENTS = SLOTS + 3
TOKENS = 1_800
"""The length of each answer: the four that run take more than two readings of the pages, which are 5 s apart."""


async def watched(sidecar: SidecarProcess) -> tuple[float, float]:
    """The most requests that waited and ran while all clients were served."""

    async def client(number: int) -> None:
        connection = await Connection.open(sidecar.port)
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": f"{number}"}],
            "max_tokens": TOKENS,
            "stream": True,
        }
        await connection.request(post(CHAT, body))
        connection.close()

    asking = asyncio.gather(*(client(number) for number in range(CLIENTS)))
    waiting = running = 0.0
    while not asking.done():
        page = await asyncio.to_thread(page_of, sidecar)
        if "llm_engine_requests_waiting" in page:
            waiting = max(waiting, total_of(page, "llm_engine_requests_waiting"))
            running = max(running, total_of(page, "llm_engine_requests_running"))
        await asyncio.sleep(0.5)
    return waiting, running


@pytest.mark.parametrize("shape", [Shape.AGGREGATED, Shape.DISAGGREGATED])
def test_the_workers_queue_is_on_the_page(shape: Shape, dynamo_built: DynamoBuild, say: Say, tmp_path: Path) -> None:
    """More clients than the worker of the decode has slots: as many as it has run, and the others wait."""
    with running_dynamo(dynamo_built, tmp_path, say, shape) as dynamo:
        urls = f"http://127.0.0.1:{dynamo.workers[-1]}"  # the mocker's page of a prefill worker has no engine's names
        config = tmp_path / "sidecar.yml"
        config.write_text(f"engine:\n  worker_metrics_urls: [{urls}]\n")
        with running_sidecar(dynamo.url, tmp_path, flags=[f"--config.file={config}"]) as sidecar:
            began = time.monotonic()
            waiting, running = asyncio.run(watched(sidecar))
            scrapes = [
                line for line in sidecar.page("/metrics").splitlines() if line.startswith("llm_engine_scrapes_total")
            ]

    assert (waiting, running) == (CLIENTS - SLOTS, SLOTS), (f"in {time.monotonic() - began:.0f} s", scrapes)
