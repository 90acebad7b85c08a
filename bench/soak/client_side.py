"""The clients of a soak and the broken network before them: `python -m bench.soak.client_side`, started by the soak.

Each client asks one request after the other and compares each byte of the answer with the computed one as it comes: whatever
arrives must be the answer's beginning. Some read slowly, some leave, some upload. Beside them are connections that say nothing,
and hostile writers (`hostile.py`). Each request's end is one line in a file that the soak compares with the sidecar's log.
"""

import asyncio
import json
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

import httptools

from bench.soak.chaos_relay import ChaosRelay
from bench.soak.faults import Fault
from bench.soak.hostile import hostile_writers
from bench.soak.invariants import LEAVES
from bench.soak.side import run
from bench.soak.tokens import Asked, expected


KINDS = ("stream", "usage", "slow", LEAVES, "upload")
WEIGHTS = (80, 8, 4, 3, 5)
CALM_WEIGHTS = (80, 15, 0, 0, 5)
CALM_GAP_MILLISECONDS = 20
IDLE_CONNECTIONS = 100
UPLOAD_BYTES = 200_000
PATIENCE_SECONDS = 90.0
"""For one answer: above its own length and all delays that a fault can add."""
SLOW_SECONDS = 3.0
PAUSE_SECONDS = 0.2
"""Between a failure and the next try of this client."""


class Answer(asyncio.Protocol):
    """One connection, and the answer that it reads now."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.status = 0
        self.keep_alive = False
        self.wrong = ""
        """The place at which the bytes first differ from the expected ones; empty while they do not."""
        self.got = 0
        self._expected = b""
        self._parser: httptools.HttpResponseParser | None = None
        self._ended: asyncio.Future[bool] | None = None

    @property
    def reusable(self) -> bool:
        """Whether it takes another request. A client may leave in the very turn in which its answer ends: its transport is then closing, and
        is told of its end a turn later.
        """
        return self.keep_alive and self.transport is not None and not self.transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.transport = None
        self._end(whole=False)

    def eof_received(self) -> bool:
        return False

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            self.keep_alive = False
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.wrong = self.wrong or f"is not HTTP: {error}"
            self._end(whole=False)

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        if self.status == 200:
            end = self.got + len(body)
            if not self.wrong and self._expected[self.got : end] != body:
                self.wrong = f"differs within bytes {self.got} to {end}"
            self.got = end

    def on_message_complete(self) -> None:
        assert self._parser is not None
        self.keep_alive = self._parser.should_keep_alive()
        if self.status == 200 and self.got != len(self._expected):
            self.wrong = self.wrong or f"ended at {self.got} bytes of {len(self._expected)}"
        self._end(whole=True)

    def _end(self, *, whole: bool) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(whole)

    async def ask(self, request: bytes, answer: bytes) -> bool:
        """Send, and read to the end; False where the connection ended first, be it before the first byte was sent."""
        self.status, self.got, self.wrong, self.keep_alive = 0, 0, "", False
        self._expected, self._parser = answer, httptools.HttpResponseParser(self)
        if self.transport is None or self.transport.is_closing():
            return False
        self._ended = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._ended


class ClientSide:
    """All clients, and their relay."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._wrong: list[str] = []
        self._live = 0
        self._numbers = 0
        self._going = self._calm = False
        self._file: IO[str]
        self._tasks: set[asyncio.Task[None]] = set()
        self._beside: set[asyncio.Task[None]] = set()

    async def start(self, order: dict[str, Any]) -> dict[str, Any]:
        self._relay = ChaosRelay(order["port"])
        await self._relay.start()
        self._port: int = order["port"]
        self._draw = random.Random(order["seed"])
        self._gap: int = order["gap_milliseconds"]
        self._events: list[int] = order["events"]
        self._file = await asyncio.to_thread(Path(order["file"]).open, "w", buffering=1)
        return self.report()

    def obey(self, order: dict[str, Any]) -> None:
        """`fault`; `clients`: that many begin, `calm` ones or others; `beside`: idle ones and hostile writers; `stop`: no request more."""
        if "fault" in order:
            self._relay.break_some(Fault.from_words(order["fault"]))
        if "clients" in order:
            self._going, self._calm = True, bool(order.get("calm"))
            for _ in range(order["clients"]):
                self._keep(self._tasks, self._client(order.get("requests", 0), order.get("spread_seconds", 0.0)))
        if "beside" in order:
            for _ in range(IDLE_CONNECTIONS):
                self._keep(self._beside, self._idle())
            for writer in hostile_writers(self._port, random.Random(self._draw.random()), self._counts):
                self._keep(self._beside, writer)
        if "stop" in order:
            self._going = False
            for task in self._beside:
                task.cancel()

    def report(self) -> dict[str, Any]:
        return {
            "counts": dict(self._counts),
            "wrong": self._wrong[:5],
            "live": self._live,
            "clients": len(self._tasks),
            "injured": self._relay.injured,
            "open": self._relay.open,
        }

    def _keep(self, among: set[asyncio.Task[None]], work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        among.add(task)
        task.add_done_callback(self._gone(among))

    def _gone(self, among: set[asyncio.Task[None]]) -> Any:
        def gone(task: asyncio.Task[None]) -> None:
            among.discard(task)
            if not task.cancelled() and task.exception() is not None:
                self._wrong.append(f"a client failed: {task.exception()!r}")

        return gone

    # --- clients -----------------------------------------------------------------------------------------------------

    async def _client(self, requests: int, spread_seconds: float) -> None:
        """Ask until told to stop, or `requests` times; the first time within the spread."""
        await asyncio.sleep(self._draw.uniform(0, spread_seconds))
        connection: Answer | None = None
        asked = 0
        while self._going and (not requests or asked < requests):
            asked += 1
            if connection is None or not connection.reusable:
                if connection is not None and connection.transport is not None:
                    connection.transport.close()
                connection = await self._connected()
                if connection is None:
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
            await self._request(connection)
        if connection is not None and connection.transport is not None:
            connection.transport.close()

    async def _connected(self) -> Answer | None:
        try:
            _, connection = await asyncio.get_running_loop().create_connection(Answer, "127.0.0.1", self._relay.port)
        except OSError:
            self._counts["not connected"] += 1
            return None
        return connection

    async def _request(self, connection: Answer) -> None:
        draw, self._numbers = self._draw, self._numbers + 1
        kind = draw.choices(KINDS, CALM_WEIGHTS if self._calm else WEIGHTS)[0]
        events = 0 if kind == "upload" else draw.randint(*self._events)
        asked = Asked(self._numbers, events, CALM_GAP_MILLISECONDS if self._calm else self._gap, kind == "usage")
        body = asked.body(UPLOAD_BYTES if kind == "upload" else draw.randint(0, 500))
        trace = f"{asked.number:032x}"
        head = (
            f"POST /v1/completions HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"traceparent: 00-{trace}-{asked.number:016x}-01\r\n\r\n"
        ).encode()
        self._counts["sent"] += 1
        self._live += 1
        loop = asyncio.get_running_loop()
        handles = []
        if kind == LEAVES:
            handles.append(loop.call_later(draw.uniform(0, events * self._gap / 1000), self._leave, connection))
        if kind == "slow":
            handles.append(loop.call_later(draw.uniform(0, 2), self._steer, connection, "pause_reading"))
            handles.append(loop.call_later(2 + SLOW_SECONDS, self._steer, connection, "resume_reading"))
        result = "cut"
        try:
            async with asyncio.timeout(PATIENCE_SECONDS + events * self._gap / 1000):
                if await connection.ask(head + body, expected(asked, body)):
                    result = "whole" if connection.status == 200 else f"status {connection.status}"
        except TimeoutError:
            result = "no end"
            self._wrong.append(
                f"request {asked.number} ({kind}) had no end: {connection.status}, {connection.got} bytes"
            )
        for handle in handles:
            handle.cancel()
        self._steer(connection, "resume_reading")
        self._live -= 1
        self._ended(asked, kind, connection, result)
        if result in ("cut", "no end"):
            self._leave(connection)
            await asyncio.sleep(PAUSE_SECONDS)

    def _ended(self, asked: Asked, kind: str, connection: Answer, result: str) -> None:
        self._counts[result] += 1
        if connection.wrong:
            self._wrong.append(f"request {asked.number} ({kind}): {connection.wrong}")
            self._counts["wrong"] += 1
        said = {"trace_id": f"{asked.number:032x}", "kind": kind, "result": result, "answered": connection.status > 0}
        self._file.write(json.dumps(said) + "\n")

    def _leave(self, connection: Answer) -> None:
        if connection.transport is not None:
            connection.transport.abort()

    def _steer(self, connection: Answer, how: str) -> None:
        if connection.transport is not None and not connection.transport.is_closing():
            getattr(connection.transport, how)()

    async def _idle(self) -> None:
        """A connection that says nothing, and comes again when it was closed."""
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    await reader.read(1)
                    self._counts["idle closed"] += 1
                finally:
                    writer.transport.abort()
            await asyncio.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    run(ClientSide)
