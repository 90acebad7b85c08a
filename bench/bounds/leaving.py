"""Time until the engine sees that a client has left: in upload, while it waits (without or with a head), mid-stream, unread.

Measured from just before the client closes its socket until the origin's connection is gone. Both are in this process,
the sidecar in its own. The floor is a client that leaves the origin directly. FIN and RST alternate. p99 = second
slowest of 100 clients, so that one hiccup of the machine does not decide; the median of five rounds is reported.
"""

import asyncio
import time
from math import inf
from statistics import median

from bench.bounds.bound import Bound, spread
from bench.origin import Origin, OriginConnection, question


ROUNDS = 5
LEAVERS = 100
BOUND_MS = 10.0
PATIENCE_SECONDS = 5.0
UPLOAD = b"POST /v1/completions HTTP/1.1\r\nHost: bench\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 1_200_000
"""A body larger than the sidecar buffers to read it: the rest is forwarded to the engine at once."""
PAUSE = question("silence") * 100
"""More pipelined requests than may wait in the sidecar: it reads no further."""
STAGES = {
    "upload": UPLOAD,
    "queue": question("silence"),
    "prefill": question("head"),
    "decode": question("1000000 events 0.005 seconds"),
    "a pause of its reading": PAUSE,
}


class Leaver(asyncio.Protocol):
    """A client that sends one request; `answered` is set at the first event of the answer."""

    def __init__(self) -> None:
        self.answered = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        if b'"sent"' in data:
            self.answered.set()


async def leaving(origin: Origin, port: int) -> list[Bound]:
    """Measure the sidecar on `port` in front of `origin`."""
    bounds = []
    for stage, request in STAGES.items():
        floors = [await _p99_ms(origin, origin.port, stage, request) for _ in range(2)]
        rounds = [await _p99_ms(origin, port, stage, request) for _ in range(ROUNDS)]
        floor = f"{median(floors):.3f} ms from client to origin"
        words = f"engine sees the client leave during {stage}, p99"
        bounds.append(Bound(words, BOUND_MS, median(rounds), "ms", spread(rounds), floor))
    return bounds


async def _p99_ms(origin: Origin, port: int, stage: str, request: bytes) -> float:
    took = []
    for number in range(LEAVERS):
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                took.append(await _leave(origin, port, stage, request, reset=number % 2 == 0))
        except TimeoutError:
            took.append(inf)  # never seen: a broken bound, not a hanging bench
    return sorted(took)[-2] * 1e3


async def _leave(origin: Origin, port: int, stage: str, request: bytes, *, reset: bool) -> float:
    arrived: asyncio.Future[OriginConnection] = asyncio.get_running_loop().create_future()

    def came(connection: OriginConnection) -> None:
        if not arrived.done():
            arrived.set_result(connection)

    origin.on_request = came
    transport, leaver = await asyncio.get_running_loop().create_connection(Leaver, "127.0.0.1", port)
    transport.write(request)
    at_the_engine = await arrived
    if stage == "decode":
        await leaver.answered.wait()
    while transport.get_write_buffer_size():  # noqa: ASYNC110  a bench may poll: unsent bytes would delay a FIN
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.001)
    left_at = time.monotonic()
    if reset:
        transport.abort()
    else:
        transport.close()
    return await at_the_engine.lost - left_at
