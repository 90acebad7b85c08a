"""The form of a fuzz target, and the ways in which each target cuts its bytes into segments.

It knows bytes only. It refuses to know a parser, a library to compare it with, and who draws the bytes: a target is called by
libFuzzer (`child.py`), and by `test_corpora.py` in every run of the tests.
"""

import inspect
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType

import hatch_build


CALLS_AT_LEAST = 30_000
"""Calls that a check may make however short its bytes are: the comparisons with a library are among them."""


@dataclass(frozen=True, slots=True)
class Target:
    """One parser, and what must hold for it whatever the bytes."""

    name: str
    check: Callable[[bytes], None]
    """Raises AssertionError, or what the parser itself must not raise."""
    seeds: tuple[bytes, ...] = ()
    """Bytes from which the drawing begins where no corpus is kept yet."""
    words: tuple[bytes, ...] = ()
    """Words of the language, which libFuzzer inserts."""
    most_bytes: int = 1024
    calls_a_byte: int = 400
    """Bound on the Python and C calls of one check for each byte, over all the ways in which it cuts the bytes."""

    def checked_within_bounds(self, data: bytes) -> None:
        """`check`, with its calls counted: work is linear in the bytes."""
        calls = calls_of(lambda: self.check(data))
        bound = CALLS_AT_LEAST + self.calls_a_byte * len(data)
        assert calls <= bound, f"{calls} calls for {len(data)} bytes; the bound is {bound}"


def compiled_in(check: Callable[..., object]) -> set[str]:
    """The modules that the wheel compiles and that a check names, itself or in another function or class of its file."""
    listed = hatch_build.pyproject()["tool"]["sidecar"]["compiled"]
    compiled = {path.removesuffix(".py").replace("/", ".") for path in listed}
    home = inspect.getmodule(check)
    found: set[str] = set()
    seen: set[str] = set()
    ahead = _names_in(inspect.unwrap(check).__code__)
    while ahead:
        name = ahead.pop()
        named = vars(home).get(name)
        if name in seen or named is None:
            continue
        seen.add(name)
        module: str = getattr(named, "__module__", None) or ""
        if module in compiled:
            found.add(module)
        elif inspect.getmodule(named) is home:
            functions = [named, *vars(named).values()] if inspect.isclass(named) else [named]
            ahead |= {each for one in functions if inspect.isfunction(one) for each in _names_in(one.__code__)}
    return found


def _names_in(code: CodeType) -> set[str]:
    """The names that some code uses, and the functions within it."""
    within = [each for each in code.co_consts if isinstance(each, CodeType)]
    return {*code.co_names, *(name for each in within for name in _names_in(each))}


def calls_of(work: Callable[[], object]) -> int:
    """The number of calls that `work` makes, of Python and of C functions. Raises what `work` raises."""
    calls = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def cuts(data: bytes) -> Iterator[list[bytes]]:
    """Ways to cut the bytes: whole, byte by byte, and two drawn from the bytes themselves, so that a find is found again."""
    yield [data]
    yield [data[at : at + 1] for at in range(len(data))]
    draw = random.Random(zlib.crc32(data))
    for pieces in (2, 6):
        places = sorted(draw.randint(0, len(data)) for _ in range(pieces - 1))
        yield [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True) if start < end]
