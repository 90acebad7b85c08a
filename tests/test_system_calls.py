"""The system calls of a request and of an event: a budget, counted by strace on a running sidecar, and not timed.

Each one serves bytes: they are read or written, or the kernel is asked whether a kept connection is still quiet before a
request goes out on it, or for how long it held an answer back. Waits for sockets are not counted: how many there are
depends on how many connections have something at once.
"""

import asyncio
import re
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from tests.support.background import Background, background
from tests.support.plain_engine import plain_answer
from tests.support.sidecar_process import SidecarProcess, running_sidecar
from tests.support.tools import missing, need_tool


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TEXT = b'data: {"object":"text_completion","choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n'
EVENT = b"%x\r\n%b\r\n" % (len(TEXT), TEXT)
LAST = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
BODY = b'{"model":"plain","prompt":"%b","stream":true}'
HEAD_OF_REQUEST = (
    b"POST /v1/completions HTTP/1.1\r\nHost: pod\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
CALL = re.compile(r"^(\w+)\((.*)", re.MULTILINE)
WAITS = {"epoll_pwait", "epoll_pwait2", "epoll_wait"}
ROUNDS = 30


class Engine:
    """Answers a prompt `whole` in one write; of every other answer the head, and the rest as it is told."""

    def __init__(self) -> None:
        self.port = 0
        self._streaming: asyncio.StreamWriter | None = None
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def send(self, data: bytes) -> None:
        assert self._streaming is not None
        self._streaming.write(data)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Engine"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for writer in self._open:
                writer.transport.abort()
            await asyncio.gather(*filter(None, self._open.values()))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = asyncio.current_task()
        with suppress(asyncio.IncompleteReadError, ConnectionError), closing(writer):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
                body = await reader.readexactly(int(length or 0))
                if not head.startswith(b"POST"):
                    writer.write(plain_answer(head))
                elif b"whole" in body:
                    writer.write(HEAD + EVENT + LAST)
                else:
                    self._streaming = writer
                    writer.write(HEAD + EVENT)


class Caller:
    """A client with one kept connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)

    def asks(self, prompt: bytes) -> None:
        body = BODY % prompt
        self._socket.sendall(HEAD_OF_REQUEST % len(body) + body)

    def until(self, end: bytes) -> None:
        data = b""
        while not data.endswith(end):
            read = self._socket.recv(65536)
            assert read, data
            data += read

    def gets(self, prompt: bytes, end: bytes) -> None:
        """Ask, and read until the answer has come so far."""
        self.asks(prompt)
        self.until(end)

    def close(self) -> None:
        self._socket.close()


@contextmanager
def traced(sidecar: SidecarProcess, folder: Path) -> Iterator[list[tuple[str, str]]]:
    """The system calls of the sidecar's loop in a `with` block: each one's name and the rest of its line, behind the block.

    Each thread has a file of its own (`-ff`): in one file, a call during which another thread's is told is cut in two lines.
    """
    calls: list[tuple[str, str]] = []
    command = ["strace", "-ff", "-s", "8", "-o", str(folder / "calls"), "-p", str(sidecar.process.pid)]
    strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert strace.stderr is not None
    try:
        told = strace.stderr.readline()
        if "attached" not in told:
            missing(f"strace may not look at another process here ({told.strip()})")
        yield calls
    finally:
        strace.send_signal(signal.SIGINT)
        strace.communicate(timeout=30)
    calls += CALL.findall((folder / f"calls.{sidecar.process.pid}").read_text())


@contextmanager
def sidecar_and_engine(folder: Path) -> Iterator[tuple[SidecarProcess, Engine, Background]]:
    """A sidecar before this file's engine, and the loop in which the engine runs."""
    engine = Engine()
    with (
        background() as loop,
        loop.entered(engine.listening),
        running_sidecar(f"http://127.0.0.1:{engine.port}", folder) as sidecar,
    ):
        yield sidecar, engine, loop


def usual(calls: list[tuple[str, str]], begins: str) -> tuple[str, ...]:
    """The system calls from one that begins so to the next; the sidecar's own timers come between only now and then."""
    starts = [at for at, (name, rest) in enumerate(calls) if f"{name}({rest}".startswith(begins)]
    assert len(starts) > ROUNDS // 2
    found = Counter(tuple(name for name, _ in calls[one:two] if name not in WAITS) for one, two in pairwise(starts))
    return found.most_common(1)[0][0]


def test_each_system_call_of_a_request_and_of_an_event_serves_its_bytes(tmp_path: Path) -> None:
    """Both ways one read and one write. A request on a kept connection: one look whether the engine is still there."""
    need_tool("strace")
    with sidecar_and_engine(tmp_path) as (sidecar, engine, loop):
        caller = Caller(sidecar.port)
        caller.gets(b"whole", LAST)
        with traced(sidecar, tmp_path) as calls:
            for _ in range(ROUNDS):
                caller.gets(b"whole", LAST)
            caller.gets(b"stream", EVENT)
            for _ in range(ROUNDS):
                loop.run(engine.send(EVENT))
                caller.until(EVENT)
            loop.run(engine.send(LAST))
            caller.until(LAST)
            caller.gets(b"whole", LAST)  # once it is read, the stream before it is over
        caller.close()
    client = next(rest.split(",")[0] for name, rest in calls if name == "read" and '"POST' in rest)
    *_, begins, ends = (at for at, (name, rest) in enumerate(calls) if name == "read" and '"POST' in rest)
    whole, streamed = calls[:begins], calls[begins:ends]
    of_client = Counter(name for name, rest in streamed if re.match(rf"{client}\b", rest) and name not in WAITS)

    assert usual(whole, f"read({client},") == ("read", "poll", "write", "read", "write")
    assert usual(streamed, "read(") == ("read", "write")
    # The kernel's times of sending, before the head and behind the last byte; the first of a connection asks for its kind.
    assert of_client == {"read": 1, "write": ROUNDS + 2, "getsockopt": 2, "getsockname": 1}


def test_no_byte_waits_for_an_acknowledgement_on_either_side(tmp_path: Path) -> None:
    """The connection of a client and that to the engine have TCP_NODELAY: Nagle's algorithm would hold each token back."""
    need_tool("strace")
    with sidecar_and_engine(tmp_path) as (sidecar, _, _):
        with traced(sidecar, tmp_path) as calls:
            caller = Caller(sidecar.port)
            caller.gets(b"whole", LAST)
        caller.close()
    (client,) = {rest.split(",")[0] for name, rest in calls if name == "read" and '"POST' in rest}
    (upstream,) = {rest.split(",")[0] for name, rest in calls if name == "write" and '"POST' in rest}
    undelayed = {rest.split(",")[0] for name, rest in calls if name == "setsockopt" and "TCP_NODELAY, [1]" in rest}

    assert client != upstream
    assert {client, upstream} <= undelayed


def test_the_head_of_a_stream_is_acknowledged_at_once(tmp_path: Path) -> None:
    """An engine without TCP_NODELAY keeps its first token for so long. Nothing is sent to the engine until its stream has ended."""
    need_tool("strace")
    with sidecar_and_engine(tmp_path) as (sidecar, engine, loop):
        caller = Caller(sidecar.port)
        caller.gets(b"whole", LAST)
        with traced(sidecar, tmp_path) as calls:
            caller.gets(b"stream", EVENT)
            loop.run(engine.send(LAST))
            caller.until(LAST)
        caller.close()
    (upstream,) = {rest.split(",")[0] for name, rest in calls if name == "write" and '"POST' in rest}
    of_engine = [(name, rest) for name, rest in calls if re.match(rf"{upstream}\b", rest) and name not in WAITS]

    assert [name for name, _ in of_engine] == ["write", "read", "setsockopt", "read"]
    assert "TCP_QUICKACK, [1]" in of_engine[2][1]
