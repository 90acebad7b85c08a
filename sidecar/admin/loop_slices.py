"""Work in turns (`sidecar/history/slices.py`) on a loop that has traffic: whatever is ready comes between two steps."""

import asyncio
from typing import TypeVar

from sidecar.history.slices import Turns


T = TypeVar("T")


async def in_turns(work: Turns[T]) -> T:
    """All of it, with a turn of the loop after each step."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)
