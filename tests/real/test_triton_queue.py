"""A real Triton: its own queue is the queue of requests that ended alone, and no request's time is taken for the front end's."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.environment import BuildError, Say
from tests.real.told import Line
from tests.real.triton_environment import triton_environment
from tests.real.triton_server import DELAY_SECONDS, PREFILL_SECONDS, RunningTriton, running_triton
from tests.support.client import Connection, post
from tests.support.sidecar_process import SidecarProcess, running_sidecar
from tests.support.tools import missing


ALONE = 12
BESIDE, CLIENTS = 24, 3
QUIET_SECONDS = 0.8
"""Between two requests that are alone: the page is read 0.2 to 0.5 s after the first one's end."""
FIRST = 1
"""Requests before the first reading of the page: nothing is known of what they added."""
NEAR_SECONDS = 0.02


@pytest.fixture(scope="module")
def triton(say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTriton]:
    try:
        build = triton_environment(say)
    except BuildError as error:
        missing(f"no Triton can be installed here: {error}")
    with running_triton(build, tmp_path_factory.mktemp("triton"), say) as engine:
        yield engine


def asked(model: str) -> bytes:
    return post(f"/v2/models/{model}/generate_stream", {"text_input": "la to mi"})


@contextmanager
def attached(triton: RunningTriton, folder: Path) -> Iterator[SidecarProcess]:
    """A sidecar that is told where Triton's page of metrics is, and nothing else."""
    config = folder / "sidecar.yml"
    config.write_text(f"engine:\n  metrics_port: {triton.metrics_port}\n")
    with running_sidecar(triton.url, folder, flags=[f"--config.file={config}"]) as sidecar:
        yield sidecar


async def one_after_another(port: int, model: str, requests: int, pause_seconds: float) -> None:
    connection = await Connection.open(port)
    for _ in range(requests):
        assert (await connection.request(asked(model))).status == 200
        await asyncio.sleep(pause_seconds)
    connection.close()


@pytest.mark.proves("triton", "page")
@pytest.mark.parametrize(("model", "waits_seconds"), [("talker", 0.0), ("batched", DELAY_SECONDS)])
def test_requests_that_are_alone_have_tritons_own_queue(
    triton: RunningTriton, tmp_path: Path, model: str, waits_seconds: float
) -> None:
    """Their queues add up to the growth on Triton's page, and are the batcher's delay; the rest of the TTFT is the model's sleep."""
    with attached(triton, tmp_path) as sidecar:
        asyncio.run(one_after_another(sidecar.port, model, FIRST, QUIET_SECONDS))
        began = triton.sums("nv_inference_queue_duration_us")
        asyncio.run(one_after_another(sidecar.port, model, ALONE, QUIET_SECONDS))
        queued = triton.sums("nv_inference_queue_duration_us") - began
        lines = [Line(line) for line in sidecar.wait_for_log_lines("request", FIRST + ALONE)]

    told = [line for line in lines if line.fields["model"] == model]  # the first answer proved the name
    assert len(told) == ALONE
    split = [line for line in told if line.fields["source"] == "engine"]
    assert len(split) >= 0.9 * ALONE, Counter(line.fields["reason"] for line in told)
    if len(split) == ALONE:
        assert sum(line.phases["queue"] for line in split) == pytest.approx(queued, abs=1e-4)
    assert max(abs(line.phases["queue"] - waits_seconds) for line in split) < NEAR_SECONDS
    assert max(abs(line.phases["prefill"] - PREFILL_SECONDS) for line in split) < NEAR_SECONDS
    assert max(line.phases["first_token"] for line in split) < NEAR_SECONDS


def test_beside_each_other_no_split_is_wrong_and_nothing_is_the_front_ends(
    triton: RunningTriton, tmp_path: Path
) -> None:
    """Three clients and one instance: requests wait in Triton's queue. Those that the engine does not tell have a reason instead."""

    async def crowd(port: int) -> None:
        await asyncio.gather(*(one_after_another(port, "talker", BESIDE // CLIENTS, 0.1) for _ in range(CLIENTS)))

    with attached(triton, tmp_path) as sidecar:
        asyncio.run(crowd(sidecar.port))
        time.sleep(0.5)
        told = [Line(line) for line in sidecar.wait_for_log_lines("request", BESIDE)]

    assert len(told) == BESIDE
    assert max(line.number("ttft_seconds") for line in told) > PREFILL_SECONDS + NEAR_SECONDS  # there were queues
    split = [line for line in told if line.fields["source"] == "engine"]
    assert [line.phases for line in split if abs(line.phases["prefill"] - PREFILL_SECONDS) > NEAR_SECONDS] == []
    assert max(line.phases.get("first_token", 0.0) for line in told) < NEAR_SECONDS
    assert {line.fields["prompt_bucket"] for line in told} == {"0-512"}
    assert (
        sum(line.fields["model"] == "talker" for line in told) >= len(told) - CLIENTS
    )  # those before the first answer
    assert {line.fields["reason"] for line in told} <= {"late_report", "not_told_apart"}
