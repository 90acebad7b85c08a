"""The same work on many items at once, and the seeds that a command line names. It refuses to know what the work is."""

from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pool
from typing import TypeVar


_I = TypeVar("_I")
_O = TypeVar("_O")


def in_parallel(do: Callable[[_I], _O], todo: Sequence[_I], processes: int) -> Iterator[_O]:
    """The results of `do`, one for each item, as they come; in this process where one process or one item is all."""
    if processes == 1 or len(todo) < 2:
        yield from map(do, todo)
        return
    with Pool(processes) as pool:
        yield from pool.imap_unordered(do, todo)


def seeds(words: str) -> list[int]:
    """Seeds from text such as `3`, `3,5` or `10-29`. Raises ValueError."""
    found: list[int] = []
    for part in words.split(","):
        low, _, high = part.partition("-")
        found += range(int(low), int(high or low) + 1)
    return found
