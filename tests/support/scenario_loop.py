"""Runs a scenario on the sidecar's kind of event loop, and closes every connection of its clients, however it ends.

A transport that outlives its loop warns when the garbage collector finds it, in the middle of another test. The clients
in this folder register theirs as they connect; nothing else is known of them here.
"""

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import TypeVar

import uvloop


T = TypeVar("T")

_opened: ContextVar[list[asyncio.WriteTransport] | None] = ContextVar("_opened", default=None)


def opened(transport: asyncio.WriteTransport) -> None:
    """The running scenario closes this connection at its own end at the latest; on another kind of loop, its owner."""
    transports = _opened.get()
    if transports is not None:
        transports.append(transport)


def play(scenario: Coroutine[object, object, T], *, patience_seconds: float = 20.0) -> T:
    """Run the scenario; returns its result. Raises TimeoutError after a time that no scenario needs."""
    return uvloop.run(_ended(scenario, patience_seconds))


async def _ended(scenario: Coroutine[object, object, T], patience_seconds: float) -> T:
    transports: list[asyncio.WriteTransport] = []
    _opened.set(transports)
    try:
        return await asyncio.wait_for(scenario, patience_seconds)
    finally:
        for transport in transports:
            transport.abort()
        await asyncio.sleep(0)
