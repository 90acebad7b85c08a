"""An origin that keeps every byte it gets, and tells in each answer which request it answers.

It stands behind the hops under attack. Its answers name the number of the request (`x-garden-seen`), so that the client of
an attack can tell whether each request that was read here came from it and was answered to it. Hostile answers are served
from a list, by the target. Knows sockets, the strict reader and nothing of the hops in front.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from tests.garden.hostile_answers import HostileAnswer
from tests.garden.sequence import numbers_in
from tests.garden.strict_reader import INCOMPLETE, ReadMessage, read_requests


SEEN_FIELD = b"x-garden-seen"
ANSWER_TARGET = re.compile(rb"/garden/answers/([0-9]+)/")
MOST_OPENED = 2000
"""Most connections that an attack may open. So many may wait until this origin accepts them: in asyncio's own queue of 100, a hop's find
no place while this loop is busy with the attack. The hop then answers 504, and is not attacked."""
_ANSWER_PAUSE_SECONDS = 0.02
_REFUSAL = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request as the origin read it. `numbers`: of the attacks whose mark is in its bytes."""

    index: int
    message: ReadMessage
    numbers: frozenset[int]


@dataclass(slots=True)
class OriginBytes:
    """Every byte of one connection to the origin, and the problem at which the origin stopped reading."""

    data: bytearray = field(default_factory=bytearray)
    problem: str | None = None


class RecordingOrigin:
    """The listening origin."""

    def __init__(self, answers: Sequence[HostileAnswer] = ()) -> None:
        self.answers = answers
        self.port = 0
        self.requests: list[SeenRequest] = []
        self.connections: list[OriginBytes] = []
        self.problems: dict[int, str] = {}
        """Why the origin could not read a request, by the number of the attack whose mark is in its bytes."""
        self._open: set[asyncio.Transport] = set()

    @asynccontextmanager
    async def listening(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator["RecordingOrigin"]:
        """Listen for the length of an `async with` block. Raises OSError if the address cannot be taken."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _OriginConnection(self, self._open), host, port, backlog=MOST_OPENED)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for transport in list(self._open):
                transport.abort()
            await asyncio.sleep(0)

    def by_number(self) -> dict[int, list[SeenRequest]]:
        """The requests of each attack, in the order in which they were read."""
        found: dict[int, list[SeenRequest]] = {}
        for request in self.requests:
            for number in request.numbers:
                found.setdefault(number, []).append(request)
        return found


class _OriginConnection(asyncio.Protocol):
    def __init__(self, origin: RecordingOrigin, all_open: set[asyncio.Transport]) -> None:
        self._origin = origin
        self._all_open = all_open
        self._kept = OriginBytes()
        self._unread = b""
        self._transport: asyncio.Transport | None = None
        self._busy: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._all_open.add(self._transport)
        self._origin.connections.append(self._kept)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        if self._transport is not None:
            self._all_open.discard(self._transport)
        self._transport = None
        if self._busy is not None:
            self._busy.cancel()

    def data_received(self, data: bytes) -> None:
        self._kept.data += data
        self._unread += data
        if self._busy is None:
            self._read()

    def _read(self) -> None:
        if self._kept.problem is not None or not self._unread:
            return
        reading = read_requests(self._unread)
        start = 0
        for place, message in enumerate(reading.messages):
            number = ANSWER_TARGET.search(message.start[1])
            marks = frozenset(numbers_in(self._unread[start : message.end]))
            seen = SeenRequest(len(self._origin.requests), message, marks)
            self._origin.requests.append(seen)
            start = message.end
            if number is not None and int(number[1]) < len(self._origin.answers):
                self._leave(start, self._send_hostile(self._origin.answers[int(number[1])]))
                return
            self._answer(seen, closes=message.closes and place + 1 == len(reading.messages))
        self._unread = self._unread[reading.end :]
        if reading.problem is not None and reading.problem != INCOMPLETE:
            self._kept.problem = reading.problem
            self._origin.problems.update(dict.fromkeys(numbers_in(self._unread), reading.problem))
            self._write(_REFUSAL)
            self._close()

    def _answer(self, seen: SeenRequest, *, closes: bool) -> None:
        body = b"" if seen.message.start[0] == b"HEAD" else b"garden-seen %d\n" % seen.index
        lines = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), b"%b: %d" % (SEEN_FIELD, seen.index)]
        self._write(b"\r\n".join((*lines, *([b"Connection: close"] if closes else ()), b"", body)))
        if closes:
            self._close()

    def _leave(self, end: int, work: Coroutine[None, None, None]) -> None:
        self._unread = self._unread[end:]
        self._busy = asyncio.get_running_loop().create_task(work)

    async def _send_hostile(self, answer: HostileAnswer) -> None:
        for place, piece in enumerate(answer.pieces):
            if place:
                await asyncio.sleep(_ANSWER_PAUSE_SECONDS)
            self._write(piece)
        if answer.closes:
            self._close()
        self._busy = None
        self._read()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
