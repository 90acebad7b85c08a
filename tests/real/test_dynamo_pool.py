"""A real Dynamo whose workers are killed: its frontend answers its health checks, and refuses every request."""

import asyncio
import time
from pathlib import Path

from tests.real.dynamo_environment import DynamoBuild
from tests.real.dynamo_record import CHAT
from tests.real.dynamo_server import running_dynamo
from tests.real.environment import Say
from tests.real.told import page_of
from tests.support.client import Connection, post
from tests.support.sidecar_process import SidecarProcess, running_sidecar


OBJECTIVES = (
    "objectives:\n  default: {ttft: {threshold_seconds: 5, target: 0.99}, e2e: {threshold_seconds: 20, target: 0.99}}\n"
)
SERVED, REFUSED_SECONDS = 20, 45.0


async def ask(sidecar: SidecarProcess, seconds: float, least: int) -> list[int]:
    """The statuses of one request after the other, five a second."""
    statuses: list[int] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until or len(statuses) < least:
        connection = await Connection.open(sidecar.port)
        body = {"model": "tiny", "messages": [{"role": "user", "content": "la to mi"}], "max_tokens": 4, "stream": True}
        statuses.append((await connection.request(post(CHAT, body))).status)
        connection.close()
        await asyncio.sleep(0.2)
    return statuses


def test_a_dynamo_without_workers_is_an_engine_that_is_down(
    dynamo_built: DynamoBuild, say: Say, tmp_path: Path
) -> None:
    """First 503, then 404 for good. No miss is one of the queue, and the probe of the frontend's container never fails."""
    config = tmp_path / "sidecar.yml"
    config.write_text(OBJECTIVES)
    with (
        running_dynamo(dynamo_built, tmp_path, say) as dynamo,
        running_sidecar(dynamo.url, tmp_path, flags=[f"--config.file={config}"]) as sidecar,
    ):
        time.sleep(3.0)
        good = asyncio.run(ask(sidecar, 0.0, SERVED))
        for worker in dynamo.worker_processes:
            worker.kill()
        refused = asyncio.run(ask(sidecar, REFUSED_SECONDS, 1))
        page = page_of(sidecar)
        probe = sidecar.status("/-/engine"), sidecar.status("/-/ready")
    outcomes = {labels["outcome"]: value for labels, value in page["llm_requests_total"] if value}
    votes = {labels["phase"] for labels, value in page["llm_slo_blamed_misses_total"] if value}
    roots = {(labels["phase"], labels["cause"]) for labels, value in page["llm_slo_root_cause_misses_total"] if value}
    say(f"{len(refused)} refusals: {sorted({*refused})}; {outcomes}")

    assert ({*good}, {*refused} - {503, 404}) == ({200}, set())
    assert page["llm_engine_up"][0][1] == 0.0
    assert (probe, votes, roots) == ((200, 503), {"engine"}, {("engine", "down")})
