"""The engine of the fairness bench, a process of its own: stamped tokens for the victims, hostile answers for the attackers.

It prints its port. Victims are answered as `bench/origin.py` answers; a prompt of `hostile NAME` gets that answer of the
library. On asyncio's own loop, because its transport sends within `write`: the stamp in a token is the instant of its send.
"""

import asyncio
from collections.abc import Iterator

import httptools

from bench.fairness.answers import ANSWERS
from bench.fairness.step import RESET, Step
from bench.origin import Origin, OriginConnection


HOSTILE = b'"prompt":"hostile '
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
KEPT_BYTES = 4096
"""Bytes of a request's body that are looked into."""


class Engine(OriginConnection):
    """One connection, read by llhttp: what attackers send is forwarded to here."""

    def __init__(self, origin: Origin) -> None:
        super().__init__(origin)
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""
        self._steps: Iterator[Step] | None = None

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._close()

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, data: bytes) -> None:
        if len(self._body) < KEPT_BYTES:
            self._body += data

    def on_message_complete(self) -> None:
        _, hostile, name = self._body.partition(HOSTILE)
        if self.transport is None or self._steps is not None:
            return
        if hostile:
            self._steps = ANSWERS[name.partition(b'"')[0].decode()]()
            self._flood_on()
        elif b" events " in self._body:
            self._answer(self._parser.get_method() + b" / " + self._body)
        elif self._parser.get_method() == b"GET":
            self._answer(b"GET /")
        else:
            self.transport.write(OK)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._flood_on()

    def _flood_on(self) -> None:
        """Send one step, and the next one in the next turn of the loop, so that victims' tokens go out between."""
        if self.transport is None or self.transport.is_closing() or self._steps is None or not self.writing:
            return
        step = next(self._steps, None)
        if step is RESET:
            self.transport.abort()
        elif isinstance(step, bytes):
            self.transport.write(step)
            asyncio.get_running_loop().call_soon(self._flood_on)
        elif isinstance(step, float):
            asyncio.get_running_loop().call_later(step, self._flood_on)
        else:
            self._close()

    def _close(self) -> None:
        if self.transport is not None:
            self.transport.close()


async def main() -> None:
    origin = Origin()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Engine(origin), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
