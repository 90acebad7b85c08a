"""Several addresses of one engine: in which order they are tried, and how the attempts overlap (RFC 8305, Happy Eyeballs).

The families alternate (section 4). An attempt that is neither done nor failed after ATTEMPT_DELAY_SECONDS goes on, and the next one
begins beside it (section 5); one that fails makes room for the next at once. The first connection wins. What did not connect
before the winner is tried last for a while. It refuses to know how a socket is connected (`pool.py`).

`aiohappyeyeballs` has the race, but not what the pool promises: it asks the loop alone whether a socket is connected, so that a loop of
ours that is late would count as the engine's time; of several errors it keeps no number, by which a lack of files of ours is told
from an engine that is down; and it remembers nothing.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from itertools import chain, zip_longest
from typing import Any


Address = tuple[int, int, int, Any]
"""Family, type, protocol and address, as socket(2) and connect(2) take them."""
ATTEMPT_DELAY_SECONDS = 0.25
"""RFC 8305 section 8: the recommended delay between two attempts."""
TRIED_LAST_SECONDS = 30.0
"""So long an address that did not connect is tried after the others: pods behind a headless Service are back within half a minute."""


class Remembered:
    """Which addresses did not connect, and when, by the seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._failed_at: dict[Address, float] = {}

    def in_order(self, found: Sequence[Address], at: float) -> list[Address]:
        """The addresses in the order of trying them; those that failed come last, the one that failed first before the others."""
        self._failed_at = {
            address: since for address, since in self._failed_at.items() if at - since < TRIED_LAST_SECONDS
        }
        families: dict[int, list[Address]] = {}
        for address in found:
            families.setdefault(address[0], []).append(address)
        alternating = [each for each in chain.from_iterable(zip_longest(*families.values())) if each is not None]
        return sorted(alternating, key=lambda address: self._failed_at.get(address, at - TRIED_LAST_SECONDS))

    def failed(self, address: Address, at: float) -> None:
        self._failed_at[address] = at

    def connected(self, address: Address) -> None:
        self._failed_at.pop(address, None)


async def first_connected(
    addresses: Sequence[Address],
    attempt: Callable[[Address], Coroutine[Any, Any, socket.socket]],
    failed: Callable[[Address, OSError | None], None],
    until: float,
) -> tuple[Address, socket.socket]:
    """The first address that connects, and its socket; all others are closed. Raises the last failure if none connects.

    `attempt` ends by itself, with OSError if it fails, and closes its socket if it is cancelled. `failed` is called with each
    address that did not connect, and its error, or None if only another one was earlier. `until`: no attempt begins after this
    instant of the loop's clock, but the first.
    """
    loop = asyncio.get_running_loop()
    left = list(reversed(addresses))
    running: dict[asyncio.Task[socket.socket], Address] = {}
    failure = OSError("no address")
    try:
        while left or running:
            if left:
                address = left.pop()
                running[loop.create_task(attempt(address))] = address
            done, _ = await asyncio.wait(
                running, timeout=ATTEMPT_DELAY_SECONDS if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in [each for each in running if each in done]:  # in the order of their beginning
                error = task.exception()
                if error is None:
                    for other in running.values():
                        if other != running[task]:
                            failed(other, None)
                    return running.pop(task), task.result()
                if not isinstance(error, OSError):
                    raise error
                failure = error
                failed(running.pop(task), error)
            if loop.time() >= until:
                left.clear()
        raise failure
    finally:
        for task in running:
            task.cancel()
            task.add_done_callback(_closed)


def _closed(late: asyncio.Task[socket.socket]) -> None:
    """Close the socket of an attempt that came second; its error is of no interest any more."""
    if not late.cancelled() and late.exception() is None:
        late.result().close()
