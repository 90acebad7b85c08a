"""An open-loop mixed load: interactive chat, batch summaries and long RAG prompts; each request names its lane.

Each request is sent when it is due, regardless of earlier ones: a load that waits for answers would hide every queue.
Its clients can be slow: small buffers, and reads with pauses. It measures no times, which is the sidecar's task; it
only counts requests sent, answered and failed.
"""

import asyncio
import socket
from random import Random
from typing import Any

import aiohttp

from sidecar.classify.trace import TRACEPARENT, traceparent
from sidecar.commands.simulator.dialect import BYTES_A_TOKEN
from sidecar.commands.simulator.workload import Arrival, Shape, Workload


LANE_HEADER = "X-Lane"
MIXED = Workload(
    (
        Shape(0.78, 900, 150, lane="interactive", spread=0.6),
        Shape(0.14, 2600, 350, lane="batch", spread=0.4),
        Shape(0.08, 6000, 200, lane="rag", spread=0.3),
    )
)
"""About three quarters of the requests are interactive (people); most of the prompt tokens are in the other lanes."""
SLOW_BUFFER_BYTES = 1
"""Receive buffer of a slow client's socket; Linux gives its least, some 2 KiB. Whatever fits into buffers is not slow."""
SLOW_READ_BYTES = 256
"""A slow client leaves bytes in the socket while it holds more than twice as many (aiohttp's `read_bufsize`)."""


class Load:
    """Requests to one OpenAI-style server at `url`, `rate` per second on average; the same ones for the same seed."""

    def __init__(self, url: str, model: str, rate: float, *, workload: Workload = MIXED, seed: int = 0) -> None:
        self.sent = 0
        self.answered = 0
        self.failed = 0
        """Requests answered with a status other than 200, not answered, or cut off."""
        self.bytes_per_second: float | None = None
        """Read speed of the clients of requests sent from now on; None: as fast as they can."""
        self._url = url
        self._model = model
        self._rng = Random(seed)
        self._arrivals = workload.arrivals(rate, Random(seed))

    async def run(self) -> None:
        """Send until cancelled; then every request in flight is cut off, as when a client disconnects."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        timeout = aiohttp.ClientTimeout(total=None)
        slow = aiohttp.TCPConnector(limit=0, socket_factory=_small_socket)
        async with (
            aiohttp.ClientSession(self._url, connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as fast_clients,
            aiohttp.ClientSession(
                self._url, connector=slow, timeout=timeout, read_bufsize=SLOW_READ_BYTES
            ) as slow_clients,
            asyncio.TaskGroup() as requests,
        ):
            for arrival in self._arrivals:
                await asyncio.sleep(start + arrival.at - loop.time())
                session = fast_clients if self.bytes_per_second is None else slow_clients
                requests.create_task(self._ask(session, arrival, self.bytes_per_second))

    async def _ask(self, session: aiohttp.ClientSession, arrival: Arrival, bytes_per_second: float | None) -> None:
        self.sent += 1
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": self._prompt(arrival.prompt_tokens)}],
            "max_tokens": arrival.output_tokens,
            "stream": True,
        }
        try:
            async with session.post("/v1/chat/completions", json=body, headers=self._headers(arrival.lane)) as response:
                async for piece in response.content.iter_any():
                    if bytes_per_second is not None:
                        await asyncio.sleep(len(piece) / bytes_per_second)
                whole = response.status == 200
        except (aiohttp.ClientError, OSError):
            whole = False
        self.answered += whole
        self.failed += not whole

    def _headers(self, lane: str) -> dict[str, str]:
        # As a traced client sends it: a trace and a span of its own, and the trace is sampled.
        trace_id, span_id = self._rng.getrandbits(128) | 1, self._rng.getrandbits(64) | 1
        parent = traceparent(f"{trace_id:032x}", f"{span_id:016x}")
        return {LANE_HEADER: lane, TRACEPARENT.decode(): parent.decode()}

    def _prompt(self, tokens: int) -> str:
        # A random start, so that no two prompts share a prefix: the load was calibrated without cache hits.
        head = f"{self._rng.getrandbits(64):016x} "
        return head + "lorem ipsum dolor sit amet " * (tokens * BYTES_A_TOKEN // 27)


def _small_socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _, _ = address
    client = socket.socket(family, kind, protocol)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER_BYTES)
    return client
