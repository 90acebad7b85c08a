"""A client that leaves frees the real vLLM at once, in queue and in decode: no GPU time goes to an abandoned request.

Judged by vLLM itself: its running and waiting gauges, and the tokens that it did not generate.
"""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from tests.real.server import SLOTS, RunningEngine, endless
from tests.support.client import Connection
from tests.support.sidecar_process import SidecarProcess, running_sidecar


TOKENS = 3_500
"""Far more tokens than vLLM generates during the test: a request that ended by itself would prove nothing."""


@pytest.fixture
def sidecar(vllm: RunningEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SidecarProcess]:
    with running_sidecar(vllm.url, tmp_path_factory.mktemp("sidecar")) as sidecar:
        yield sidecar


def waiting_and_running(engine: RunningEngine) -> tuple[float, float]:
    metrics = engine.metrics()
    return metrics["vllm:num_requests_waiting"], metrics["vllm:num_requests_running"]


async def until(engine: RunningEngine, wanted: tuple[float, float]) -> tuple[float, float]:
    """Return (waiting, running) once they are as wanted, or after 20 s whatever they are then."""

    def poll() -> tuple[float, float]:
        deadline = time.monotonic() + 20
        while (found := waiting_and_running(engine)) != wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        return found

    return await asyncio.to_thread(poll)


@pytest.mark.parametrize("leave", [Connection.abort, Connection.close], ids=["reset", "fin"])
def test_leaving_in_queue_and_in_decode_frees_the_engine(
    leave: Callable[[Connection], None], vllm: RunningEngine, sidecar: SidecarProcess
) -> None:
    """Four requests stream and two wait. The two clients leave: none waits, four still stream. The four leave: no
    request is left."""

    async def scenario() -> list[tuple[float, float]]:
        clients = [await Connection.open(sidecar.port) for _ in range(SLOTS + 2)]
        streaming, queued = clients[:SLOTS], clients[SLOTS:]
        states = []
        for client in streaming:
            client.write(endless(vllm, max_tokens=TOKENS))
        states.append(await until(vllm, (0, SLOTS)))
        for client in queued:
            client.write(endless(vllm, max_tokens=TOKENS))
        states.append(await until(vllm, (2, SLOTS)))
        for client in queued:
            leave(client)
        states.append(await until(vllm, (0, SLOTS)))
        for client in streaming:
            leave(client)
        states.append(await until(vllm, (0, 0)))
        return states

    before = vllm.metrics()["vllm:generation_tokens_total"]
    states = asyncio.run(scenario())
    generated = vllm.metrics()["vllm:generation_tokens_total"] - before
    lines = sidecar.wait_for_log_lines("request", SLOTS + 2)

    assert states == [(0, SLOTS), (2, SLOTS), (0, SLOTS), (0, 0)]
    # One request that had not been stopped would alone have made this many.
    assert generated < TOKENS
    assert [line["outcome"] for line in lines] == ["client_cancelled"] * (SLOTS + 2)
    assert sorted(str(line["cancelled_in"]) for line in lines) == ["streaming"] * SLOTS + ["waiting"] * 2
