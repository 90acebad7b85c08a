"""Posts at the idle edge: an engine that restarts every second closes idle connections while requests are on their way.

The engine and the clients run in this process, the sidecar in its own. Each post has a number; the engine counts the numbers
that it reads. At each restart the engine closes its listener and all connections, is away for a moment, and listens again. The
sidecar is stopped (SIGSTOP) in the instant in which they are closed: else a request could come between the engine's last look
at a connection and its close, and the engine would not know that its kernel had it.
Every answer is judged by what the engine itself knows:

- 200: it read the number, once. Twice would be a duplicate.
- 503 while it was away, or 503 on a post whose first sending it never had and that came while it was away: told in time.
- 502 and it has the number, or had bytes of it unread when it closed (the kernel then resets): no proof, so no second sending.
- any other error: an error for a request that the engine never had. There must be none.
"""

import argparse
import asyncio
import itertools
import os
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import uvloop

from tests.support.sidecar_process import SidecarProcess, running_sidecar


POSTS = 100_000
CLIENTS = 32
RESTART_SECONDS = 1.0
AWAY_SECONDS = 0.05
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
POST = b"POST /anything HTTP/1.1\r\nHost: pod\r\nX-Number: %08d\r\nContent-Length: 4\r\n\r\nbody"
LENGTH = len(POST % 0)
NUMBER_AT = POST.index(b"%08d")
RESENT = "llm_sidecar_resent_total "


@dataclass(slots=True)
class Found:
    """The counts of one run."""

    posts: int = 0
    ok: int = 0
    told_away: int = 0
    unproven: int = 0
    errors: list[str] = field(default_factory=list)
    """Errors for requests that the engine never had."""
    duplicates: int = 0
    resent: int = 0
    restarts: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        return (
            f"{self.posts} posts, {self.restarts} restarts, {self.seconds:.0f} s: {self.ok} answered, {self.resent} of them"
            f" or of the 503 sent twice with proof, {self.told_away} 503 while away, {self.unproven} 502 without proof (the"
            f" engine had bytes), {len(self.errors)} errors for requests that it never had, {self.duplicates} duplicates"
        )


class Engine:
    """Answers each post at once, and restarts. Raw sockets, because it must close them in the moment in which it looks."""

    def __init__(self) -> None:
        self.read: Counter[int] = Counter()
        self.had_unread: set[int] = set()
        self.away: list[tuple[float, float]] = []
        self.port = 0
        self.alone: Callable[[], AbstractContextManager[None]] = nullcontext
        """Within it no byte comes."""
        self._loop = asyncio.get_running_loop()
        self._listener: socket.socket | None = None
        self._open: dict[socket.socket, bytes] = {}
        self._served: set[socket.socket] = set()
        """Connections that have carried an answer: only these are idle."""

    def listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._loop.add_reader(self._listener, self._accept, self._listener)

    async def restart(self) -> None:
        """Close everything, as the exit of a process does, and listen again."""
        began = time.monotonic()
        with self.alone():
            self.close()
        await asyncio.sleep(AWAY_SECONDS)
        self.listen()
        self.away.append((began, time.monotonic()))

    def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            self._loop.remove_reader(listener)
            self._accept(
                listener
            )  # connections that only the kernel has accepted would be reset, whatever came on them
            listener.close()
        for sock in list(self._open):
            if sock in self._served:
                self._leave(sock)

    def was_away(self, began: float, ended: float) -> bool:
        """Whether it did not listen in this interval, or in a part of it."""
        return self._listener is None or any(began <= until and ended >= since for since, until in self.away[-3:])

    def _accept(self, listener: socket.socket) -> None:
        with suppress(BlockingIOError):
            while True:
                sock, _ = listener.accept()
                sock.setblocking(False)
                self._open[sock] = b""
                self._loop.add_reader(sock, self._read, sock)

    def _read(self, sock: socket.socket) -> None:
        try:
            request = sock.recv(1 << 16)
        except BlockingIOError:
            return
        except ConnectionError:
            request = b""
        if not request:
            self._loop.remove_reader(sock)
            del self._open[sock]
            self._served.discard(sock)
            sock.close()
            return
        unread = self._open[sock] + request
        if unread.startswith(b"POST") and len(unread) == LENGTH:
            self.read[number_of(unread)] += 1
        elif unread.startswith(b"POST") or not unread.endswith(b"\r\n\r\n"):
            self._open[sock] = unread
            return
        self._open[sock] = b""
        self._served.add(sock)
        sock.send(OK)

    def _leave(self, sock: socket.socket) -> None:
        self._loop.remove_reader(sock)
        unread = self._open.pop(sock)
        self._served.discard(sock)
        with suppress(OSError):
            unread += sock.recv(1 << 16, socket.MSG_PEEK)
        sock.close()
        if unread.startswith(b"POST"):
            self.had_unread.add(number_of(unread))


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A child of this process does not run in the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        os.waitpid(pid, os.WUNTRACED)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def number_of(request: bytes) -> int:
    return int(request[NUMBER_AT : NUMBER_AT + 8])


async def posts(port: int, engine: Engine, numbers: "itertools.count[int]", most: int, found: Found) -> None:
    """One client: a post after the other, on a connection of its own as long as it is kept."""
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None
    while (number := next(numbers)) < most:
        if writer is None or reader is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = time.monotonic()
        writer.write(POST % number)
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head[:-4].split(b"\r\n")[1:])
        await reader.readexactly(int(fields[b"content-length"]))
        judge(found, engine, number, int(head[9:12]), (began, time.monotonic()))
        if fields.get(b"connection") == b"close":
            writer.close()
            reader = writer = None
    if writer is not None:
        writer.close()


def judge(found: Found, engine: Engine, number: int, status: int, at: tuple[float, float]) -> None:
    began, ended = at
    found.posts += 1
    had = engine.read[number] > 0 or number in engine.had_unread
    if status == 200 and engine.read[number]:
        found.ok += 1
    elif status == 503 and not had and engine.was_away(began, ended):
        found.told_away += 1
    elif status == 502 and had:
        found.unproven += 1
    else:
        found.errors.append(f"{number}: {status}, {'had' if had else 'never had'}, {ended - began:.4f} s")


async def measured(most: int, restart_seconds: float = RESTART_SECONDS) -> Found:
    """Run `most` posts against an engine that restarts at this interval."""
    engine, found = Engine(), Found()
    engine.listen()
    with tempfile.TemporaryDirectory() as folder:
        running = running_sidecar(f"http://127.0.0.1:{engine.port}", Path(folder), flags=["--log.level=error"])
        sidecar: SidecarProcess = await asyncio.to_thread(running.__enter__)
        engine.alone = partial(stopped, sidecar.process.pid)
        try:
            numbers = itertools.count()
            began = time.monotonic()
            clients = [asyncio.create_task(posts(sidecar.port, engine, numbers, most, found)) for _ in range(CLIENTS)]
            everyone = asyncio.gather(*clients)
            while not everyone.done():
                await asyncio.wait([everyone], timeout=restart_seconds)
                if not everyone.done():
                    await engine.restart()
                    found.restarts += 1
            await everyone
            found.seconds = time.monotonic() - began
            page = await asyncio.to_thread(sidecar.page, "/metrics")
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)
            engine.close()
    found.resent = sum(int(float(line.split()[-1])) for line in page.splitlines() if line.startswith(RESENT))
    found.duplicates = sum(1 for times in engine.read.values() if times > 1)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.idle_edge", description=__doc__)
    parser.add_argument("--posts", type=int, default=POSTS)
    parser.add_argument("--restart.seconds", dest="restart_seconds", type=float, default=RESTART_SECONDS)
    asked = parser.parse_args()
    found = uvloop.run(measured(asked.posts, asked.restart_seconds))
    print(found.line())
    for error in found.errors[:20]:
        print(f"  {error}")
    return 1 if found.errors or found.duplicates else 0


if __name__ == "__main__":
    sys.exit(main())
