"""Takes processor time from a real engine, without root: its processes are stopped with signals, and continued.

Short stops stretch each step and leave the engine well otherwise; a stop without an end is a hang: its sockets accept
connections, and nothing answers. Both end when the coroutine is cancelled. It knows a process group, and nothing about the
sidecar.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.real.server import RunningEngine


RUNS_SECONDS, STOPS_SECONDS = 0.004, 0.007
"""The engine runs for 4 ms of each 11 ms. One of its steps takes about as long, so each step is stretched: by a factor of
three to four on two busy cores."""


async def cut(engine: RunningEngine, stops_seconds: float = STOPS_SECONDS) -> None:
    """Leave the engine about a third of its processor time until cancelled; less with longer stops."""
    while True:
        try:
            _signal(engine, signal.SIGSTOP)
            await asyncio.sleep(stops_seconds)
        finally:
            _signal(engine, signal.SIGCONT)
        await asyncio.sleep(RUNS_SECONDS)


async def take_all(engine: RunningEngine) -> None:
    """Stop the engine until cancelled."""
    try:
        _signal(engine, signal.SIGSTOP)
        await asyncio.Event().wait()
    finally:
        _signal(engine, signal.SIGCONT)


@contextmanager
def core_stopped(engine: RunningEngine) -> Iterator[None]:
    """Stop vLLM's engine core for the length of a `with` block: its API server goes on, and says that all is well."""
    cores = [number for number in _members(engine) if b"EngineCore" in _command(number)]
    assert cores, "no process of this engine is called EngineCore"
    try:
        for number in cores:
            os.kill(number, signal.SIGSTOP)
        yield
    finally:
        for number in cores:
            os.kill(number, signal.SIGCONT)


def _members(engine: RunningEngine) -> list[int]:
    numbers = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    return [number for number in numbers if _group(number) == engine.group]


def _group(number: int) -> int | None:
    try:
        return os.getpgid(number)
    except ProcessLookupError:
        return None


def _command(number: int) -> bytes:
    return Path(f"/proc/{number}/cmdline").read_bytes()


def _signal(engine: RunningEngine, number: signal.Signals) -> None:
    assert engine.group is not None, "this engine has no process group of its own"
    os.killpg(engine.group, number)
