"""A client that leaves frees the real llama.cpp's slot, in queue and in decode. Judged by llama.cpp's own gauges and
tokens.

In decode the slot is free at once. In queue llama.cpp b11434 itself does not notice while other requests stream, with a
sidecar or without one: it checks its client only after a whole second without a result for any request
(`recv_with_timeout`), and so counts the request as deferred until a slot takes it up. The sidecar's part is to close
the connection, so that the slot is free again at once.
"""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from tests.real.server import SLOTS, RunningEngine, endless
from tests.support.client import Connection
from tests.support.sidecar_process import SidecarProcess, running_sidecar


TOKENS = 3_500
"""Far more tokens than llama.cpp generates during the test: a request that ended by itself would prove nothing."""


@pytest.fixture
def sidecar(llama_cpp: RunningEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SidecarProcess]:
    with running_sidecar(llama_cpp.url, tmp_path_factory.mktemp("sidecar")) as sidecar:
        yield sidecar


def waiting_and_running(engine: RunningEngine) -> tuple[float, float]:
    metrics = engine.metrics()
    return metrics["llamacpp:requests_deferred"], metrics["llamacpp:requests_processing"]


async def until(engine: RunningEngine, wanted: tuple[float, float]) -> tuple[float, float]:
    """Return (waiting, running) once they are as wanted, or after 10 s whatever they are then."""

    def poll() -> tuple[float, float]:
        deadline = time.monotonic() + 10
        while (found := waiting_and_running(engine)) != wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    return await asyncio.to_thread(poll)


@pytest.mark.parametrize("leave", [Connection.abort, Connection.close], ids=["reset", "fin"])
def test_leaving_in_queue_and_in_decode_frees_the_slots(
    leave: Callable[[Connection], None], llama_cpp: RunningEngine, sidecar: SidecarProcess
) -> None:
    """Four requests stream and two wait. After the two and then the four clients leave, no request is left, and fewer
    tokens are made than one request asked for."""

    def predicted() -> float:
        return llama_cpp.metrics()["llamacpp:tokens_predicted_total"]

    async def scenario() -> tuple[list[tuple[float, float]], float]:
        clients = [await Connection.open(sidecar.port) for _ in range(SLOTS + 2)]
        streaming, queued = clients[:SLOTS], clients[SLOTS:]
        states = []
        for client in streaming:
            client.write(endless(llama_cpp, max_tokens=TOKENS))
        states.append(await until(llama_cpp, (0, SLOTS)))
        for client in queued:
            client.write(endless(llama_cpp, max_tokens=TOKENS))
        states.append(await until(llama_cpp, (2, SLOTS)))
        for client in queued:
            leave(client)
        await asyncio.to_thread(sidecar.wait_for_log_lines, "request", 2)
        for client in streaming:
            leave(client)
        before = await asyncio.to_thread(predicted)
        states.append(await until(llama_cpp, (0, 0)))
        return states, await asyncio.to_thread(predicted) - before

    states, generated = asyncio.run(scenario())
    lines = sidecar.wait_for_log_lines("request", SLOTS + 2)

    assert states == [(0, SLOTS), (2, SLOTS), (0, 0)]
    # llama.cpp counts tokens when their slot is released. One request that had not been stopped would alone have made
    # this many.
    assert generated < TOKENS
    assert [line["outcome"] for line in lines] == ["client_cancelled"] * (SLOTS + 2)
    assert [line["cancelled_in"] for line in lines] == ["waiting"] * 2 + ["streaming"] * SLOTS
