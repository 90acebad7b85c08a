"""`make fairness`: streams' tokens while hostile writers attack the proxy, through the sidecar and through nginx, side by side.

Each writer of the library (`clients.py`, `answers.py`, `spans.py`) attacks with 1, 4 and 40 connections. The victims are
eight streams, whose tokens carry the instant at which the engine sent them. The delay that an attack may add: its p99 is at
most 5 ms above the larger of the proxy's own quiet p99 and nginx's p99 under the same attack, and no delay is above 50 ms.
A writer that misses is measured again after all others, twice at most, beside nginx in the same seconds and never for less
than 1.5 s; it counts as a miss if it misses each time. In half a second a p99 is five tokens, and one wait of 4 ms for the
processor delays as many; 1.5 s have fifteen. What else the machine does may last for seconds, so the same minute is no
second measurement.

Sidecar and nginx (one worker, buffering off) run on core 0; engine, attackers and victims run on core 1. Where the system
lets them, proxies have niceness -20, engine and attackers -10, and the victims' process, which measures, has real-time
priority: so other load of the machine counts little. `--quick` plays all writers with 40 connections, in
about three minutes; `--report` plays all three numbers and writes docs/evidence/fairness.md, in about a quarter of an hour.
"""

import argparse
import asyncio
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.checkout import is_frozen, named
from bench.fairness.answers import ANSWERS
from bench.fairness.clients import CLIENTS
from bench.fairness.spans import SPANS
from bench.fairness.victims import SETTLE_SECONDS, Delays, Victims
from bench.nginx_beside import nginx, pin
from tests.support.sidecar_process import running_sidecar


COUNTS = (1, 4, 40)
ADDED_MS = 5.0
MOST_MS = 50.0
RAMP_SECONDS = 0.15
"""From the begin of an attack to the begin of its window."""
QUICK_SECONDS = 0.5
FULL_SECONDS = 1.5
TIMES = 3
QUIET_EVERY = 8
"""Writers between two measurements of the quiet proxies."""
REPORT = Path(__file__).parents[2] / "docs" / "evidence" / "fairness.md"


@dataclass(frozen=True, slots=True)
class Row:
    """One writer with one number of connections."""

    side: str
    writer: str
    count: int
    quiet: Delays
    sidecar: Delays
    nginx: Delays | None

    @property
    def limit_ms(self) -> float:
        """The largest p99 that passes."""
        beside = self.nginx.p99 if self.nginx is not None else 0.0
        return min(max(self.quiet.p99, beside) + ADDED_MS, MOST_MS)

    @property
    def tightness(self) -> float:
        """The p99 as a share of the largest that passes."""
        return self.sidecar.p99 / self.limit_ms

    @property
    def passed(self) -> bool:
        return self.sidecar.p99 <= self.limit_ms and self.sidecar.longest <= MOST_MS and not self.sidecar.lost

    def __str__(self) -> str:
        verdict = "pass" if self.passed else "MISS"
        beside = "-" if self.nginx is None else str(self.nginx)
        return (
            f"| {self.side} | {self.writer} | {self.count} | {self.quiet} | {self.sidecar} | {beside} | "
            f"{self.limit_ms:.1f} | {verdict} |"
        )


HEAD = (
    "| side | writer | connections | sidecar, quiet | sidecar, attacked | nginx, attacked | p99 at most | verdict |\n"
    "|---|---|---|---|---|---|---|---|"
)


class Attackers:
    """The attackers' process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.fairness.attackers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.pid = self._process.pid

    async def say(self, command: str) -> None:
        """Begin an attack (`PORT COUNT NAME`), or end it (nothing)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()
        await asyncio.to_thread(self._process.stdout.readline)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Bench:
    """The victims of both proxies, and the attackers."""

    def __init__(self, attackers: Attackers, ports: dict[str, int], web_port: int, seconds: float) -> None:
        self._attackers = attackers
        self._ports = ports
        self._web_port = web_port
        self._seconds = seconds
        self.victims = {name: Victims(port) for name, port in ports.items()}

    async def quiet(self, name: str) -> Delays:
        await self.victims[name].open()
        return await self.victims[name].window(2 * self._seconds)

    async def attacked(self, name: str, writer: str, count: int, seconds: float) -> Delays:
        victims = self.victims[name]
        await victims.open()
        port = self._web_port if writer in SPANS else self._ports[name]
        await self._attackers.say(f"{port} {count} {writer}")
        await asyncio.sleep(RAMP_SECONDS)
        measuring = asyncio.ensure_future(victims.window(seconds + SETTLE_SECONDS))
        await asyncio.sleep(seconds)
        await self._attackers.say("")
        found = await measuring
        return Delays(found.p50, found.p99, found.longest, await victims.open())

    async def rows(self, writers: list[tuple[str, str]], counts: list[int]) -> list[Row]:
        """The rows of all writers (side and name); one that missed is measured again after all others."""
        rows = []
        for number, (side, name) in enumerate(writers):
            if number % QUIET_EVERY == 0:
                quiet = await self.quiet("sidecar")
            for count in counts:
                rows.append(await self._measured(side, name, count, quiet, self._seconds))
                print(rows[-1], flush=True)
        for _ in range(TIMES - 1):
            for number, row in enumerate(rows):
                if not row.passed:
                    rows[number] = await self._again(row)
                    print(f"again: {rows[number]}", flush=True)
        return rows

    async def _again(self, row: Row) -> Row:
        """A row that missed, measured beside quiet proxies of the same seconds."""
        quiet = await self.quiet("sidecar")
        return await self._measured(row.side, row.writer, row.count, quiet, max(self._seconds, FULL_SECONDS))

    async def _measured(self, side: str, writer: str, count: int, quiet: Delays, seconds: float) -> Row:
        sidecar = await self.attacked("sidecar", writer, count, seconds)
        has_peer = "nginx" in self._ports and side != "spans"
        beside = await self.attacked("nginx", writer, count, seconds) if has_peer else None
        return Row(side, writer, count, quiet, sidecar, beside)


def started_engine(stack: ExitStack) -> tuple[subprocess.Popen[bytes], int]:
    """The engine's process, and its port."""
    engine = stack.enter_context(
        subprocess.Popen([sys.executable, "-m", "bench.fairness.engine"], stdout=subprocess.PIPE)
    )
    stack.callback(engine.kill)
    assert engine.stdout is not None
    return engine, int(engine.stdout.readline())


def raise_priority(pid: int, niceness: int) -> None:
    """Give all threads of a process this niceness, if the system lets us."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, int(task.name), niceness)


async def measured(folder: Path, counts: list[int], seconds: float, only: str) -> list[Row]:
    """Start everything and play every writer whose name contains `only`."""
    with ExitStack() as stack:
        engine, engine_port = started_engine(stack)
        peer = stack.enter_context(nginx(engine_port, folder))
        sidecar = stack.enter_context(
            running_sidecar(f"http://127.0.0.1:{engine_port}", folder, flags=["--log.level=warning"])
        )
        attackers = Attackers()
        stack.callback(attackers.close)
        for pid in (os.getpid(), engine.pid, attackers.pid):
            pin(pid, 1)
            raise_priority(pid, -10)
        ports = {"sidecar": sidecar.port}
        proxies = [sidecar.process.pid]
        if peer is not None:
            ports["nginx"] = peer.port
            proxies.append(peer.pid)
        for pid in proxies:
            pin(pid, 0)
            raise_priority(pid, -20)
        bench = Bench(attackers, ports, sidecar.web_port, seconds)
        for victims in bench.victims.values():
            await victims.open()
        await asyncio.sleep(1.0)
        writers = [(side, name) for side, found in SIDES.items() for name in found if only in name]
        rows = await bench.rows(writers, counts)
        for victims in bench.victims.values():
            await victims.close()
    return rows


SIDES = {"client": CLIENTS, "engine": ANSWERS, "spans": SPANS}
TITLES = {"client": "Hostile clients", "engine": "Hostile engines", "spans": "Hostile senders of spans"}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--report", action="store_true")
    options.add_argument("--only", default="", metavar="WORDS", help="writers whose names contain these words")
    options.add_argument("--connections", type=int, nargs="+", default=None)
    chosen = options.parse_args()
    if chosen.report and not is_frozen():
        options.error("--report: the tree has changes that are not committed: commit them first")
    tree = named()  # before the measurement: a commit may come while it runs
    counts = chosen.connections or ([max(COUNTS)] if chosen.quick else list(COUNTS))
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    began = time.monotonic()
    print(f"p50 / p99 / longest delay of a token, in milliseconds\n\n{HEAD}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        seconds = QUICK_SECONDS if chosen.quick else FULL_SECONDS
        rows = uvloop.run(measured(Path(folder), counts, seconds, chosen.only))
    missed = [row for row in rows if not row.passed]
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    summary = (
        f"{len(rows) - len(missed)} of {len(rows)} rows pass; {len({row.writer for row in rows})} writers; "
        f"{tree}, Python {platform.python_version()}, {os.cpu_count()} CPUs, load average {load}, "
        f"{time.monotonic() - began:.0f} s"
    )
    print(f"\n{summary}")
    if chosen.report:
        REPORT.write_text(report(rows, summary))
    for row in missed:
        print(f"MISSED: {row.writer} with {row.count} connections", file=sys.stderr)
    if not any(row.nginx for row in rows if row.side != "spans"):
        print("NO PEER: nginx is not installed (Debian: apt-get install nginx-light)", file=sys.stderr)
        return 1 if missed or os.environ.get("CI") else 0
    return 1 if missed else 0


def report(rows: Sequence[Row], summary: str) -> str:
    """The page of the evidence: of each writer the number of connections that came nearest to its bound."""
    nearest: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: (row.passed, -row.tightness)):
        nearest.setdefault((row.side, row.writer), row)
    head = (
        "# Fairness: a token's delay under attack\n\n"
        "`make fairness ARGS=--report` wrote this page. It prints a row for each writer and number of connections, with p50, p99 and\n"
        "longest delay. Here stands, of each writer, the row whose p99 came nearest to its bound. All times are in milliseconds.\n\n"
        f"Eight streams carry in each token the instant of its sending. Each hostile writer attacks with {_listed(COUNTS)} connections, through\n"
        f"the sidecar and through nginx (one worker, buffering off) in turns. A row passes if p99 is at most {ADDED_MS:g} above the larger of the\n"
        f"sidecar's own quiet p99 and nginx's under the same attack, and no delay is above {MOST_MS:g}; a miss is measured {TIMES} times. Limits: one\n"
        f"machine, proxies on one core and load on another, windows of {FULL_SECONDS:g} s; spans have no peer.\n\n"
        f"{summary}.\n"
    )
    parts = [head]
    for side, words in TITLES.items():
        found = [row for (of, _), row in nearest.items() if of == side]
        if found:
            parts.append(
                f"## {words}\n\n| writer | connections | quiet p99 | attacked p99 | longest | nginx's p99 | p99 at most |\n{'|---' * 7}|\n"
                + "".join(map(_line, sorted(found, key=lambda row: list(SIDES[side]).index(row.writer))))
            )
    return "\n".join(parts)


def _line(row: Row) -> str:
    beside = "-" if row.nginx is None else f"{row.nginx.p99:.2f}"
    missed = "" if row.passed else ", **missed**"
    return (
        f"| {row.writer} | {row.count} | {row.quiet.p99:.2f} | {row.sidecar.p99:.2f} | {row.sidecar.longest:.1f} | {beside} |"
        f" {row.limit_ms:.1f}{missed} |\n"
    )


def _listed(counts: Sequence[int]) -> str:
    return f"{', '.join(map(str, counts[:-1]))} and {counts[-1]}"


if __name__ == "__main__":
    sys.exit(main())
