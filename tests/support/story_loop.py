"""Runs a story on the event loop that the sidecar uses, and ends every connection that its clients opened, however it ends.

A transport that outlives its loop warns wherever the garbage collector finds it, in the middle of another test. The clients
in this folder hand theirs in as they connect; nothing else is known of them here.
"""

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import TypeVar

import uvloop


T = TypeVar("T")

_opened: ContextVar[list[asyncio.WriteTransport] | None] = ContextVar("_opened", default=None)


def opened(transport: asyncio.WriteTransport) -> None:
    """The story that runs now ends this connection at the latest with itself. On a loop of another kind, its owner does."""
    transports = _opened.get()
    if transports is not None:
        transports.append(transport)


def play(story: Coroutine[object, object, T], *, patience_seconds: float = 20.0) -> T:
    """What the story returns. It fails after a time that no story needs."""
    return uvloop.run(_ended(story, patience_seconds))


async def _ended(story: Coroutine[object, object, T], patience_seconds: float) -> T:
    transports: list[asyncio.WriteTransport] = []
    _opened.set(transports)
    try:
        return await asyncio.wait_for(story, patience_seconds)
    finally:
        for transport in transports:
            transport.abort()
        await asyncio.sleep(0)
