"""Runs sliced work (`sidecar/history/slices.py`) on a loop that has traffic: ready tasks run between two slices."""

import asyncio
from typing import TypeVar

from sidecar.history.slices import Sliced


T = TypeVar("T")


async def run_sliced(work: Sliced[T]) -> T:
    """Run all slices, and give the loop to other tasks after each."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)
