"""Runs another program for the length of a `with` block: starts it, waits until it answers, and ends it.

It handles processes, and one URL that says when a program is ready. The callers choose the programs: `demo.py` starts
the sidecar, `servers.py` Prometheus and Alertmanager.
"""

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp


LOOPBACK = "127.0.0.1"
READY_SECONDS = 30.0
STOP_SECONDS = 10.0
"""A program that has not ended this long after SIGTERM is killed: its clients are gone, it has nothing to wait for."""


class DemoError(Exception):
    """The demo cannot continue; the message says why and what to do."""


@asynccontextmanager
async def running(
    name: str,
    command: Sequence[str | Path],
    *,
    ready_url: str,
    env: Mapping[str, str] | None = None,
    given_up: asyncio.Event | None = None,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a process; yields it when `ready_url` answers 200 or `given_up` is set. `env` is added to this process's own.

    Raises DemoError with the end of the process's log if it ends before that, or is not ready within 30 s.
    """
    with tempfile.TemporaryFile() as log:
        # In its own session, so that Ctrl-C in the terminal reaches only the demo, which ends its programs in order.
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            await _until_ready(name, process, ready_url, given_up or asyncio.Event())
            yield process
        except DemoError as error:
            log.seek(0)
            raise DemoError(f"{error}\n{log.read().decode(errors='replace')[-4000:]}") from None
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), STOP_SECONDS)
                except TimeoutError:
                    process.kill()
                    await process.wait()


async def _until_ready(name: str, process: asyncio.subprocess.Process, url: str, given_up: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + READY_SECONDS
    async with aiohttp.ClientSession() as client:
        while loop.time() < deadline:
            if process.returncode is not None:
                raise DemoError(f"{name} did not start: it ended with exit code {process.returncode}")
            with suppress(aiohttp.ClientError, OSError):
                async with client.get(url) as answer:
                    if answer.status == 200:
                        return
            with suppress(TimeoutError):
                await asyncio.wait_for(given_up.wait(), 0.1)
                return
    raise DemoError(f"{name} was not ready within {READY_SECONDS:.0f} s")


def bindable(flag: str, port: int) -> int:
    """The port, or a free one for 0. Raises DemoError if it is taken; the message names `flag` to choose another."""
    with socket.socket() as probe:
        # The same option as the program will set: a port in TIME_WAIT does not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise DemoError(
                f"port {port} is not available ({error.strerror}): stop the program that uses it (another demo?),"
                f" or choose another with {flag}; {flag}=0 takes any free one"
            ) from None
        chosen: int = probe.getsockname()[1]
        return chosen


def free_ports(count: int) -> list[int]:
    """`count` different ports that are free now; nothing reserves them."""
    # All are held open until the last is known: otherwise the kernel may give out one of them twice.
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((LOOPBACK, 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
