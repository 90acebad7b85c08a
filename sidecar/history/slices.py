"""Long work in turns: a generator that yields wherever others may have the loop, and gives its result at the end. Pure.

Knows nothing of what is worked on, and of no loop either: `admin/turns.py` plays one on a loop that has traffic. A thread would
not do instead: Python's lock goes back to the loop only after 5 ms.
"""

from collections.abc import Generator
from typing import TypeVar


T = TypeVar("T")
Turns = Generator[None, None, T]
"""Each step takes well under 2 ms of CPU: that is how long every stream waits."""


def at_once(work: Turns[T]) -> T:
    """All of it now: where no loop has traffic."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
