"""One side of a soak in a process of its own: orders come in, reports go out, one JSON object a line.

It knows pipes and the loop. The party behind it (`engine_side.py`, `client_side.py`) says what an order does and what a report
holds. A side ends when its orders end, so that none outlives the run that started it.
"""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from queue import Empty, Queue
from typing import Any, Protocol

import uvloop


REPORT_SECONDS = 1.0


class Party(Protocol):
    """The engine or the clients: the code that runs in the process."""

    async def start(self, order: dict[str, Any]) -> dict[str, Any]:
        """Begin; returns the first report."""

    def obey(self, order: dict[str, Any]) -> None: ...

    def report(self) -> dict[str, Any]: ...


def run(make: Callable[[], Party]) -> None:
    """The process's main: runs the party until standard input ends."""
    uvloop.run(_serve(make()))


async def _serve(party: Party) -> None:
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    _say(await party.start(json.loads(await orders.readline())))

    async def reports() -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            _say(party.report())

    reporting = loop.create_task(reports())
    while line := await orders.readline():
        party.obey(json.loads(line))
    reporting.cancel()


def _say(report: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


class SideProcess:
    """The other end of the pipes: starts the process, sends orders, keeps the last report."""

    def __init__(self, module: str, order: dict[str, Any], *, patience_seconds: float = 30.0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._reports: Queue[dict[str, Any]] = Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.order(order)
        self.last: dict[str, Any] = self._reports.get(timeout=patience_seconds)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._reports.put(json.loads(line))

    def order(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def now(self) -> dict[str, Any]:
        """The newest report. Raises RuntimeError once the process is gone."""
        if self._process.poll() is not None:
            raise RuntimeError(f"{self._process.args!r} exited with {self._process.returncode}")
        while True:
            try:
                self.last = self._reports.get_nowait()
            except Empty:
                return self.last

    def next(self, *, patience_seconds: float = 30.0) -> dict[str, Any]:
        """A report made after this call."""
        self.now()
        self._reports.get(timeout=patience_seconds)
        self.last = self._reports.get(timeout=patience_seconds)
        return self.last

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(timeout=10)
