"""Drains under load, each with a sidecar of its own: streams that fit the grace are not cut, and SIGTERM adds no wait.

Streams run when the drain begins, by `/-/drain` and by SIGTERM in turn. Each takes less time than the grace. A stream
counts as cut if it ends without its last chunk. Engine and clients run in this process, the sidecar in its own.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import uvloop

from tests.support.sidecar_process import SidecarProcess, running_sidecar


DRAINS = 50
STREAMS = 40
EVENTS = 30
EVENT_SECONDS = 0.02
CONFIG = "shutdown:\n  lame_duck_seconds: 0.2\n  grace_seconds: 20\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b"9\r\ndata: 1\n\n\r\n"
LAST = b"0\r\n\r\n"
ASK = b"POST /stream HTTP/1.1\r\nHost: pod\r\nContent-Length: 0\r\n\r\n"


@dataclass(slots=True)
class Found:
    """The counts of one run."""

    drains: int = 0
    streams: int = 0
    cut: int = 0
    exits: int = 0
    """Processes that ended with another code than 0."""

    def line(self) -> str:
        return f"{self.drains} drains, {self.streams} streams, {self.cut} cut, {self.exits} exits with an error"


async def engine(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each POST with a stream, everything else with an empty 200."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"POST"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                continue
            writer.write(HEAD)
            for _ in range(EVENTS):
                writer.write(EVENT)
                await asyncio.sleep(EVENT_SECONDS)
            writer.write(LAST)
    writer.close()


async def stream(port: int, begun: asyncio.Event) -> bool:
    """Whether one stream came whole. `begun` is set at its first event."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(ASK)
    got = b""
    with suppress(ConnectionError):
        while more := await reader.read(65536):
            got += more
            if EVENT in got:
                begun.set()
            if got.endswith(LAST):
                break
    begun.set()
    writer.close()
    return got.endswith(LAST) and got.count(EVENT) == EVENTS


def drain(sidecar: SidecarProcess) -> None:
    asked = urllib.request.Request(f"http://127.0.0.1:{sidecar.web_port}/-/drain", method="POST")
    with urllib.request.urlopen(asked, timeout=60):
        return


async def one(engine_port: int, found: Found, *, by_hook: bool) -> None:
    """One drain of one process."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "sidecar.yml"
        config.write_text(CONFIG)
        running = running_sidecar(
            f"http://127.0.0.1:{engine_port}", Path(folder), flags=[f"--config.file={config}", "--log.level=error"]
        )
        sidecar = await asyncio.to_thread(running.__enter__)
        try:
            begun = [asyncio.Event() for _ in range(STREAMS)]
            streams = [asyncio.create_task(stream(sidecar.port, event)) for event in begun]
            await asyncio.gather(*(event.wait() for event in begun))
            if by_hook:
                await asyncio.to_thread(drain, sidecar)
            sidecar.process.send_signal(signal.SIGTERM)
            whole = await asyncio.gather(*streams)
            code = await asyncio.to_thread(sidecar.process.wait, 30)
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)
    found.drains += 1
    found.streams += len(whole)
    found.cut += whole.count(False)
    found.exits += code != 0


async def measured(drains: int) -> Found:
    """Run so many drains, by `/-/drain` and by SIGTERM alone in turn."""
    found = Found()
    server = await asyncio.start_server(engine, "127.0.0.1", 0)
    try:
        for number in range(drains):
            await one(server.sockets[0].getsockname()[1], found, by_hook=number % 2 == 0)
    finally:
        server.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.drains", description=__doc__)
    parser.add_argument("--drains", type=int, default=DRAINS)
    found = uvloop.run(measured(parser.parse_args().drains))
    print(found.line())
    return 1 if found.cut or found.exits else 0


if __name__ == "__main__":
    sys.exit(main())
