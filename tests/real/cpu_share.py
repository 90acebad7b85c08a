"""Takes processor time from a real engine, without root: its processes are stopped with signals, and continued.

Short stops stretch each step and leave the engine well otherwise; a stop without an end is a hang: its sockets accept
connections, and nothing answers. Both end when the coroutine is cancelled. It knows a process group, and nothing about the
sidecar.
"""

import asyncio
import os
import signal

from tests.real.server import RunningEngine


RUNS_SECONDS, STOPS_SECONDS = 0.004, 0.007
"""The engine runs for 4 ms of each 11 ms. One of its steps takes about as long, so each step is stretched: by a factor of
three to four on two busy cores."""


async def cut(engine: RunningEngine) -> None:
    """Leave the engine about a third of its processor time until cancelled."""
    while True:
        try:
            _signal(engine, signal.SIGSTOP)
            await asyncio.sleep(STOPS_SECONDS)
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


def _signal(engine: RunningEngine, number: signal.Signals) -> None:
    assert engine.group is not None, "this engine has no process group of its own"
    os.killpg(engine.group, number)
