"""The real process under the shipped manifest's memory limit: attacks, and twice each budget.

The process is never killed, `/metrics` and `/-/healthy` answer throughout, memory stays below 60 % of the limit and comes
back after the burst; under the attacks S1 to S4 no request of another client is refused.
"""

import asyncio
import resource
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from bench.soak.invariants import LEFT_BY_MANY_MIB, LEFT_MIB, OF_THE_LIMIT, SETTLE_SECONDS
from sidecar.proxy.errors import Failure
from sidecar.timeline.outcome import Outcome
from tests.support.attacks import ATTACKS, CHAT, OVERLOADS, SLOW, Attack, flock
from tests.support.memory_limit import Limited, limited_sidecar
from tests.support.plain_engine import plain_answer, plain_engine
from tools.budgets_page import shipped_memory_bytes


pytestmark = [pytest.mark.live, pytest.mark.timed, pytest.mark.timeout(180)]

LIMIT_BYTES = shipped_memory_bytes()
SLOW_UPLOAD = (
    CHAT + b"Content-Type: application/json\r\nContent-Length: 81920\r\n\r\n",
    *(b" " * 8192 for _ in range(10)),
)
"""An honest upload over a slow line: its head, then 8 KiB every 0.3 s."""
REQUEST = CHAT + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
LARGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1048576\r\n\r\n" + b"x" * (1 << 20)


def answer(request: bytes) -> bytes:
    """Nothing on the slow path; else a websocket, a large body, or what a plain engine says."""
    line = request.split(b"\r\n", 1)[0]
    if SLOW in line:
        return b""
    if b"/large" in line:
        return LARGE
    return SWITCHED if b"/ws" in line else plain_answer(request)


class Others:
    """Clients that have nothing to do with the attack, and the probes of the kubelet and of Prometheus."""

    def __init__(self, sidecar: Limited) -> None:
        self._sidecar = sidecar
        self.answered = 0
        self.refused: list[str] = []
        self.probed = 0
        self.unanswered: list[str] = []

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        """Three clients, one that uploads slowly, and a prober for the length of the block."""
        work = (*(self._ask(REQUEST) for _ in range(3)), self._ask(*SLOW_UPLOAD), self._probe())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, *pieces: bytes) -> None:
        while True:
            writer = None
            try:
                async with asyncio.timeout(30):
                    reader, writer = await asyncio.open_connection("127.0.0.1", self._sidecar.port)
                    for piece in pieces[:-1]:
                        writer.write(piece)
                        await asyncio.sleep(0.3)
                    writer.write(pieces[-1])
                    head = await reader.readuntil(b"\r\n\r\n")
                if b" 200 " in head[:20]:
                    self.answered += 1
                else:
                    self.refused.append(head[:200].decode())
            except (OSError, EOFError, TimeoutError) as error:
                self.refused.append(repr(error))
            finally:
                if writer is not None:
                    writer.transport.abort()
            await asyncio.sleep(0.02)

    async def _probe(self) -> None:
        while True:
            for path in ("/metrics", "/-/healthy"):
                try:
                    await asyncio.to_thread(self._sidecar.page, path, patience_seconds=5.0)
                    self.probed += 1
                except OSError as error:
                    self.unanswered.append(f"{path}: {error!r}")
            await asyncio.sleep(0.2)


async def replay(name: str, attack: Attack, folder: Path) -> tuple[Others, Limited]:
    """Replay one attack; asserts what holds for each."""
    left_bytes = (LEFT_BY_MANY_MIB if name == "pipelines" else LEFT_MIB) << 20
    async with plain_engine(answer) as url:
        entered = limited_sidecar(url, folder, LIMIT_BYTES)
        sidecar = await asyncio.to_thread(entered.__enter__)
        try:
            others = Others(sidecar)
            async with others.asking():
                await asyncio.sleep(1.0)
                before = sidecar.resident_bytes()
                limits = await asyncio.to_thread(sidecar.budgets)
                async with flock(sidecar.port) as attackers:
                    await attack.run(attackers, limits)
                    await asyncio.sleep(1.0)
                    page = await asyncio.to_thread(sidecar.page, "/metrics")
                peak, ended_at = sidecar.peak_bytes, time.monotonic()
                while sidecar.resident_bytes() > before + left_bytes:
                    if time.monotonic() - ended_at > SETTLE_SECONDS:
                        break
                    await asyncio.sleep(0.25)
            back, after = time.monotonic() - ended_at, sidecar.resident_bytes()
            sys.stdout.write(
                f"\n{name} ({sidecar.how}): {before >> 20} MiB before, peak {peak >> 20}, {after >> 20} {back:.0f} s later;"
                f" others: {others.answered} answered, {len(others.refused)} refused; {others.probed} probes\n"
            )
            assert sidecar.alive
            assert others.unanswered == []
            assert others.probed > 0
            assert peak < OF_THE_LIMIT * LIMIT_BYTES
            assert after <= before + left_bytes
            assert blamed_on_the_engine(page) == []
        finally:
            with suppress(OSError):
                await asyncio.to_thread(entered.__exit__, None, None, None)
    return others, sidecar


def blamed_on_the_engine(page: str) -> list[str]:
    """Lines of requests with an outcome of the engine that are not 0."""
    outcomes = [f'outcome="{outcome}"' for outcome in Outcome if outcome.startswith("engine_")]
    lines = (
        line for line in page.splitlines() if line.startswith(("llm_requests_total", "llm_passthrough_requests_total"))
    )
    return [line for line in lines if any(one in line for one in outcomes) and not line.endswith((" 0", " 0.0"))]


@pytest.fixture(autouse=True)
def _many_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_takes_nothing_from_other_clients(name: str, tmp_path: Path) -> None:
    """Not one of their requests is refused, and no outcome names the engine."""
    others, _ = asyncio.run(replay(name, ATTACKS[name], tmp_path))

    assert others.refused == []
    assert others.answered > 20


@pytest.mark.parametrize("name", OVERLOADS)
def test_twice_a_budget_never_kills_the_process(name: str, tmp_path: Path) -> None:
    """Others are turned away if whole requests fill all places, or uploads faster than theirs do; nothing else fails."""
    others, _ = asyncio.run(replay(name, OVERLOADS[name], tmp_path))

    expected = [f"x-sidecar-error: {failure.reason}" for failure in (Failure.TOO_MANY_IN_FLIGHT, Failure.MADE_ROOM)]
    assert [text for text in others.refused if not any(one in text for one in expected)] == []
