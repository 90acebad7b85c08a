"""The clients of a soak take the end of a connection for what it is: the weather that the soak makes, and no fault of theirs."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest
import uvloop

from bench.fairness.step import Step
from bench.soak import hostile
from bench.soak.client_side import Answer


class Closing(asyncio.Transport):
    """A transport whose end has been read, and not told yet. A write fails the test: the base class has none."""

    def is_closing(self) -> bool:
        return True


def gone() -> Answer:
    connection = Answer()
    connection.connection_lost(None)
    return connection


def going() -> Answer:
    connection = Answer()
    connection.connection_made(Closing())
    return connection


@pytest.mark.parametrize("connection", [gone(), going()], ids=["gone", "going"])
def test_a_request_on_a_connection_that_ended_before_it_is_cut(connection: Answer) -> None:
    """A reset may come between the connect and the first byte of the request."""
    assert asyncio.run(connection.ask(b"GET / HTTP/1.1\r\n\r\n", b"")) is False
    assert connection.status == 0
    assert connection.wrong == ""


def test_a_connection_that_its_client_left_as_the_answer_ended_is_not_asked_again() -> None:
    """On uvloop, which runs the soak: a timer of that turn aborts what the next request would be asked on, which would count as cut."""

    class Leaves(Answer):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            assert self.transport is not None
            self.transport.abort()

    async def story() -> tuple[bool, bool, bool]:
        ended = asyncio.Event()

        async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            with suppress(OSError):
                await reader.read(-1)
            writer.close()
            ended.set()

        server = await asyncio.start_server(peer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        _, connection = await asyncio.get_running_loop().create_connection(Leaves, "127.0.0.1", port)
        whole = await connection.ask(b"GET / HTTP/1.1\r\n\r\n", b"ok")
        told = whole, connection.keep_alive, connection.reusable
        await ended.wait()
        server.close()
        await server.wait_closed()
        return told

    assert uvloop.run(story()) == (True, True, False)


def test_a_hostile_writer_ends_where_its_connection_was_reset_in_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """On uvloop, which runs the soak, a write to such a connection raises RuntimeError, and asyncio's own loop takes it."""
    steps_asked: list[str] = []

    async def story() -> None:
        ended = asyncio.Event()

        async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                await reader.read(-1)
            writer.close()
            ended.set()

        connect, writers = asyncio.open_connection, []

        async def connected(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await connect(host, port)
            writers.append(writer)
            return reader, writer

        def steps() -> Iterator[Step]:
            yield b"GET / HTTP/1.1\r\n"
            writers[0].transport.abort()
            steps_asked.append("a pause after the reset")
            yield 0.0
            steps_asked.append("a piece on the connection that is gone")
            yield b"Host: soak\r\n"

        monkeypatch.setattr(asyncio, "open_connection", connected)
        monkeypatch.setattr(hostile, "PIECE_SECONDS", 0.0)
        async with await asyncio.start_server(peer, "127.0.0.1", 0) as server:
            await hostile._write(server.sockets[0].getsockname()[1], steps)
            await ended.wait()

    uvloop.run(story())

    assert steps_asked == ["a pause after the reset"]
