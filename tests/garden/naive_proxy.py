"""A proxy as one writes it in an afternoon: it believes what it likes of a head and passes the head on as it came.

Everything that a careful hop checks is unchecked here, so that the garden has something to find.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


async def _message(reader: asyncio.StreamReader, *, bodyless: bool = False) -> bytes:
    """One request or answer, as its framing says; Content-Length is believed first."""
    head = await reader.readuntil(b"\r\n\r\n")
    if bodyless:
        return head
    fields = dict(line.partition(b": ")[::2] for line in head.lower().split(b"\r\n")[1:-2])
    if b"content-length" in fields:
        return head + await reader.readexactly(int(fields[b"content-length"]))
    if b"transfer-encoding" not in fields:
        return head
    while not head.endswith(b"\r\n0\r\n\r\n"):
        head += await reader.readuntil(b"\r\n")
    return head


@contextmanager
def naive_proxy(origin_port: int) -> Iterator[int]:
    """The port of a running naive proxy, in a thread with a loop of its own."""
    started, stopped = threading.Event(), asyncio.Event()
    ports: list[int] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", origin_port)
        try:
            while True:
                request = await _message(reader)
                up_writer.write(request)
                writer.write(await _message(up_reader, bodyless=request.startswith(b"HEAD")))
        finally:
            up_writer.transport.abort()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await relay(reader, writer)
        writer.close()

    async def run() -> None:
        serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            serving[asyncio.get_running_loop().create_task(serve(reader, writer))] = writer

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        loops.append(asyncio.get_running_loop())
        started.set()
        await stopped.wait()
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        for writer in serving.values():  # of a cancelled task too, even if it never ran
            writer.transport.abort()
        await asyncio.sleep(0)  # an aborted transport closes its socket in the next turn of the loop

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    started.wait(10)
    try:
        yield ports[0]
    finally:
        loops[0].call_soon_threadsafe(stopped.set)
        thread.join(10)
