"""CPU of a proxy process per streamed event and per one-token request, compared with another proxy in the same run.

Paced load: streams of 230-byte events, one token each, 50 per second, with starts spread over one gap. The proxy
process is pinned to one core, origin and clients (this process) to another. CPU is the time that the kernel charged to
the proxy's threads (/proc/PID/task/*/schedstat, nanoseconds), over the middle of the run. The other proxy is nginx,
which measures nothing; if it is not installed, the table has the sidecar only. Linux only. Run: `.venv/bin/python -m
bench.relay_cost`; `--streams 100 300`, `--seconds 8`, `--rounds 3`; `--beside CHECKOUT` also measures the sidecar of another
checkout, such as a worktree of an earlier commit, in the same rounds. Each sidecar is measured twice: once with no objectives,
once with objectives that each request misses. Under the table stand the ratios of both checkouts, round by round: a machine
that is slow for a minute changes both figures of a round, and hardly their ratio.
"""

import argparse
import asyncio
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import uvloop

from bench.origin import EVENT_BYTES, Origin, Reader, running_origin
from tests.support.sidecar_process import running_sidecar


EVENTS_A_SECOND = 50
SETTLE_SECONDS = 1.5
REQUEST = "us a one-token request"
REQUEST_CLIENTS = 8
REQUEST_TURN_SECONDS = 0.5
"""The proxies take turns of this length with requests, several in a round."""
NGINX_CONFIG = """\
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000; client_max_body_size 0;
  client_body_temp_path {folder}; proxy_temp_path {folder};
  fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 512; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_request_buffering off;
    }}
  }}
}}
"""
MISSED = """\
objectives:
  default:
    ttft: {threshold_seconds: 0.000001, target: 0.9}
    tpot: {threshold_seconds: 0.000001, target: 0.9}
"""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running proxy: its port, and the process with the measured CPU time."""

    name: str
    port: int
    pid: int
    load: str | None = None
    """The load of a sidecar, as its name says it; None for another proxy."""
    checkout: Path | None = None
    """The tree of a sidecar, unless it is this one."""

    def cpu_seconds(self) -> float:
        """CPU charged so far to all threads of the process."""
        stats = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(stat.read_text().split()[0]) for stat in stats) / 1e9

    def resident_mb(self) -> float:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024


@contextmanager
def nginx(engine_port: int, folder: Path) -> Iterator[Proxy | None]:
    """A running nginx without buffering, or None if nginx is not installed."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(folder=folder, engine=engine_port, port=port))
    master = subprocess.Popen([program, "-c", str(config), "-p", str(folder)], stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        children = Path(f"/proc/{master.pid}/task/{master.pid}/children").read_text().split()
        yield Proxy("nginx, buffering off", port, int(children[0])) if children else None
    finally:
        master.terminate()
        master.wait(timeout=10)


def pin(pid: int, core: int) -> None:
    """Pin all threads of a process to one core, if this machine has that core."""
    cores = sorted(os.sched_getaffinity(0))
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {cores[core % len(cores)]})


async def streaming_cost(proxy: Proxy, streams: int, seconds: float) -> float:
    """CPU microseconds per event with this many concurrent streams."""
    gap_seconds = 1 / EVENTS_A_SECOND
    events = int((seconds + 2 * SETTLE_SECONDS) * EVENTS_A_SECOND) + 50
    readers = [await Reader.open(proxy.port) for _ in range(streams)]
    asking = []
    for reader in readers:
        asking.append(asyncio.ensure_future(reader.ask(f"{events} events {gap_seconds} seconds")))
        await asyncio.sleep(gap_seconds / streams)
    await asyncio.sleep(SETTLE_SECONDS)
    before, cpu = sum(reader.events for reader in readers), proxy.cpu_seconds()
    await asyncio.sleep(seconds)
    after, spent = sum(reader.events for reader in readers), proxy.cpu_seconds() - cpu
    for reader, task in zip(readers, asking, strict=True):
        assert reader.transport is not None
        reader.transport.abort()
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    return spent / (after - before) * 1e6


@dataclass
class Spent:
    """CPU and requests of one proxy, over some turns."""

    cpu_seconds: float = 0.0
    requests: int = 0

    @property
    def microseconds(self) -> float:
        """CPU of one request."""
        return self.cpu_seconds / self.requests * 1e6


async def request_costs(proxies: list[Proxy], seconds: float) -> list[float]:
    """CPU microseconds per one-token request of each proxy, in turns, over so many seconds each."""
    spent = [Spent() for _ in proxies]
    for _ in range(max(1, round(seconds / REQUEST_TURN_SECONDS))):
        for proxy, sum_of_turns in zip(proxies, spent, strict=True):
            await _requests(proxy, sum_of_turns)
    return [each.microseconds for each in spent]


async def _requests(proxy: Proxy, spent: Spent) -> None:
    """Eight clients that each send one request after the other, for one turn."""
    readers = [await Reader.open(proxy.port) for _ in range(REQUEST_CLIENTS)]

    async def client(reader: Reader) -> None:
        while time.monotonic() < until:
            await reader.ask("1 events 0 seconds")
            spent.requests += 1

    for reader in readers:
        await reader.ask("1 events 0 seconds")
    until = time.monotonic() + REQUEST_TURN_SECONDS
    cpu = proxy.cpu_seconds()
    await asyncio.gather(*(client(reader) for reader in readers))
    spent.cpu_seconds += proxy.cpu_seconds() - cpu
    for reader in readers:
        assert reader.transport is not None
        reader.transport.abort()


async def costs(proxies: list[Proxy], streams: list[int], seconds: float, rounds: int) -> list[str]:
    """The table's lines: each figure is the median over rounds; in a round the proxies take turns."""
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for proxy in proxies:
            for count in streams:
                cost = await streaming_cost(proxy, count, seconds)
                found.setdefault((proxy.name, f"us an event, {count} streams"), []).append(cost)
        for proxy, cost in zip(proxies, await request_costs(proxies, seconds), strict=True):
            found.setdefault((proxy.name, REQUEST), []).append(cost)
    columns = list(dict.fromkeys(column for _, column in found))
    lines = [f"| proxy | {' | '.join(columns)} | RSS MB |", "|---" * (len(columns) + 2) + "|"]
    for proxy in proxies:
        cells = []
        for column in columns:
            values = found[proxy.name, column]
            first = median(found[proxies[0].name, column])
            ratio = "" if proxy is proxies[0] else f", x {median(values) / first:.2f}"
            cells.append(f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f}{ratio})")
        lines.append(f"| {proxy.name} | {' | '.join(cells)} | {proxy.resident_mb():.0f} |")
    return [*lines, *_ratios(proxies, columns, found)]


def _ratios(proxies: list[Proxy], columns: list[str], found: dict[tuple[str, str], list[float]]) -> list[str]:
    """This checkout to each other one under the same load, round by round."""
    lines = []
    for this in proxies:
        for other in proxies:
            if this.checkout is None and other.checkout is not None and this.load == other.load:
                for column in columns:
                    ratios = [
                        one / two for one, two in zip(found[this.name, column], found[other.name, column], strict=True)
                    ]
                    lines.append(
                        f"{this.name} / {other.name}, {column}: x {median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
                    )
    return ["", *lines] if lines else []


async def measured(folder: Path, streams: list[int], seconds: float, rounds: int, beside: list[Path]) -> list[str]:
    """Start the proxies and measure everything."""
    with ExitStack() as stack:
        async with running_origin() as origin:
            proxies = await _proxies(stack, origin, folder, beside)
            pin(os.getpid(), 1)
            for proxy in proxies:
                pin(proxy.pid, 0)
            return await costs(proxies, streams, seconds, rounds)


async def _proxies(stack: ExitStack, origin: Origin, folder: Path, beside: list[Path]) -> list[Proxy]:
    peer = stack.enter_context(nginx(origin.port, folder))
    found = [] if peer is None else [peer]
    config = folder / "missed.yml"
    config.write_text(MISSED)
    for flags, load in ([], ""), ([f"--config.file={config}"], ", each request misses"):
        for checkout in [*beside, None]:
            running = running_sidecar(origin.url, folder, flags=["--log.level=info", *flags], checkout=checkout)
            # In a thread: the origin answers the sidecar's probes in this loop.
            sidecar = await asyncio.to_thread(stack.enter_context, running)
            name = "this sidecar" if checkout is None else f"the sidecar of {checkout}"
            found.append(Proxy(f"{name}{load}", sidecar.port, sidecar.process.pid, load, checkout))
    return found


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--streams", type=int, nargs="+", default=[100, 300])
    options.add_argument("--seconds", type=float, default=8.0)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--beside", type=Path, nargs="+", default=[], metavar="CHECKOUT")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = uvloop.run(measured(Path(folder), chosen.streams, chosen.seconds, chosen.rounds, chosen.beside))
    print("\n".join(lines))
    if "nginx" not in lines[2]:
        print(
            "\nno peer: nginx is not installed (Debian: apt-get install nginx-light), so there is nothing to compare with"
        )
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(
        f"\n{EVENT_BYTES}-byte events, {EVENTS_A_SECOND} a second a stream; medians of {chosen.rounds} rounds (lowest to highest)"
    )
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load average {load}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
