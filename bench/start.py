"""How long `sidecar serve` takes from its spawn to its first answer, and what it weighs when it has nothing to do.

One start after the other, each in a process of its own. A client knocks once a millisecond; the first 200 that came through
the proxy is the first answer. From then on it knocks at the admin listener: the first complete page of metrics is the first
scrape. Some seconds later the process rests, and its memory is read; then once more under streams. A second start of the same
tree carries a stream of 1,000 tokens a second from its first answer on: the token that comes latest shows the longest stall
that the rest of the start causes. All trees take turns; medians (lowest to highest).

The first start of a tree is not measured: it compiles all modules, as `pip install` does for a wheel. Linux only. Run:
`.venv/bin/python -m bench.start`; `--starts 9`; `--beside CHECKOUT` measures other trees too; `--python PROGRAM` takes another
interpreter, such as one of an environment without the development tools, which some libraries import where they find them.
"""

import argparse
import asyncio
import os
import platform
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import uvloop

from bench.origin import Reader, question, running_origin
from tests.support.ports import free_port


PATIENCE_SECONDS = 30.0
REST_SECONDS = 3.0
STREAMS = 300
EVENTS_A_SECOND = 10
STREAM_SECONDS = 5.0
TOKEN_GAP_SECONDS = 0.001
TOKENS = 1500
FIRST_ANSWER, FIRST_SCRAPE, AT_REST = "first answer, ms", "then first scrape, ms", "RSS at rest, MB"
STREAMING, STALL, USUAL = f"RSS, {STREAMS} streams, MB", "latest token of the start, ms", "p99 token of it, ms"


class Started:
    """A sidecar that was just spawned: nothing is known of it yet."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, web_port: int, spawned_at: float) -> None:
        self.process = process
        self.port = port
        self.web_port = web_port
        self.spawned_at = spawned_at

    def resident_mb(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024

    def knock(self, port: int, request: bytes) -> None:
        """Send a request once a millisecond until it is answered 200, in full. Raises TimeoutError."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as client:
                client.sendall(request)
                answer = b""
                while part := client.recv(1 << 16):
                    answer += part
                if answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"0\r\n\r\n"):
                    return
            time.sleep(0.001)
        raise TimeoutError("the sidecar did not answer")


@contextmanager
def started(python: str, checkout: Path, engine_url: str, folder: Path) -> Iterator[Started]:
    """A sidecar of this tree, for the length of a `with` block."""
    port, web_port = free_port(), free_port()
    command = [
        *(python, "-m", "sidecar", "serve", f"--engine.url={engine_url}"),
        *(f"--proxy.listen-address=127.0.0.1:{port}", f"--web.listen-address=127.0.0.1:{web_port}"),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    with (folder / "log").open("ab") as stderr:
        spawned_at = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, cwd=checkout, env=environment)
    try:
        yield Started(process, port, web_port, spawned_at)
    finally:
        process.kill()
        process.wait(timeout=10)


def start_and_rest(sidecar: Started, loop: asyncio.AbstractEventLoop) -> dict[str, float]:
    """The times and the memory of one start."""
    one_token = question("1 events 0 seconds").replace(b"Host: bench", b"Host: bench\r\nConnection: close")
    sidecar.knock(sidecar.port, one_token)
    answered_at = time.monotonic()
    sidecar.knock(sidecar.web_port, b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
    scraped_at = time.monotonic()
    time.sleep(REST_SECONDS)
    at_rest = sidecar.resident_mb()
    streaming = asyncio.run_coroutine_threadsafe(memory_of_streams(sidecar), loop).result()
    return {
        FIRST_ANSWER: (answered_at - sidecar.spawned_at) * 1e3,
        FIRST_SCRAPE: (scraped_at - answered_at) * 1e3,
        AT_REST: at_rest,
        STREAMING: streaming,
    }


async def memory_of_streams(sidecar: Started) -> float:
    """Resident megabytes while all streams are open and speak."""
    readers = [await Reader.open(sidecar.port) for _ in range(STREAMS)]
    events = round((STREAM_SECONDS + 5.0) * EVENTS_A_SECOND)
    asking = [asyncio.ensure_future(reader.ask(f"{events} events {1 / EVENTS_A_SECOND} seconds")) for reader in readers]
    await asyncio.sleep(STREAM_SECONDS)
    resident_mb = sidecar.resident_mb()
    for reader, task in zip(readers, asking, strict=True):
        assert reader.transport is not None
        reader.transport.abort()
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    return resident_mb


def start_under_a_stream(sidecar: Started, loop: asyncio.AbstractEventLoop) -> dict[str, float]:
    """The delays of tokens while the start ends: from the engine's write to the client's read."""
    delays = sorted(asyncio.run_coroutine_threadsafe(delays_of_a_start(sidecar), loop).result())
    return {STALL: delays[-1] * 1e3, USUAL: delays[len(delays) * 99 // 100] * 1e3}


async def delays_of_a_start(sidecar: Started) -> list[float]:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        with suppress(OSError):
            reader = await Reader.open(sidecar.port)
            await reader.ask(f"{TOKENS} events {TOKEN_GAP_SECONDS} seconds")
            return reader.delays
        await asyncio.sleep(0.001)
    raise TimeoutError("the sidecar did not answer")


def table(trees: list[Path], found: dict[Path, dict[str, list[float]]]) -> list[str]:
    """One line a tree, and under it the ratio to this one."""
    columns = list(found[trees[0]])
    lines = [f"| tree | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for tree in trees:
        cells = [f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})" for values in found[tree].values()]
        lines.append(f"| {tree} | {' | '.join(cells)} |")
    return lines


def measured(python: str, trees: list[Path], starts: int, loop: asyncio.AbstractEventLoop, folder: Path) -> list[str]:
    found: dict[Path, dict[str, list[float]]] = {tree: {} for tree in trees}
    origin = running_origin()
    running = asyncio.run_coroutine_threadsafe(origin.__aenter__(), loop).result()
    for at in range(-1, starts):
        for tree in trees:
            for measure in (start_and_rest, start_under_a_stream):
                with started(python, tree, running.url, folder) as sidecar:
                    for column, value in measure(sidecar, loop).items():
                        if at >= 0:
                            found[tree].setdefault(column, []).append(value)
    asyncio.run_coroutine_threadsafe(origin.__aexit__(None, None, None), loop).result()
    return table(trees, found)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--starts", type=int, default=5)
    options.add_argument("--beside", type=Path, nargs="+", default=[], metavar="CHECKOUT")
    options.add_argument("--python", default=sys.executable, metavar="PROGRAM")
    chosen = options.parse_args()
    loop = uvloop.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    trees = [each.resolve() for each in (*chosen.beside, Path(__file__).parents[1])]
    with tempfile.TemporaryDirectory() as folder:
        print("\n".join(measured(chosen.python, trees, chosen.starts, loop, Path(folder))))
    print(f"\nPython {platform.python_version()}, {os.cpu_count()} CPUs; {chosen.starts} starts of each tree, in turns")
    return 0


if __name__ == "__main__":
    sys.exit(main())
