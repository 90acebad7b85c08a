"""Allocations that a call asks of Python's allocators, counted in C: no clock, and so the same number on any machine.

`allocations.c` is compiled where the counter is made. It counts malloc, calloc and realloc of the domains `mem` and `obj`, gross:
a block that is freed again is one too.
"""

import ctypes
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

from hatch_build import c_compiler, lacking
from tests.support.tools import missing


SOURCE = Path(__file__).with_suffix(".c")


class Counter:
    """Counts the allocations of calls."""

    def __init__(self, folder: Path) -> None:
        """`folder`: for the compiled counter. Without a compiler or Python.h: skips the calling test, or fails it under CI."""
        reason = lacking()
        if reason is not None:
            missing(reason)
        made = folder / "allocations.so"
        headers = sysconfig.get_path("include")
        subprocess.run(
            [c_compiler(), "-O1", "-shared", "-fPIC", f"-I{headers}", str(SOURCE), "-o", str(made)], check=True
        )
        self._count = ctypes.PyDLL(str(made)).allocations_of
        self._count.argtypes, self._count.restype = [ctypes.py_object], ctypes.c_longlong

    def of(self, call: Callable[[], object]) -> int:
        """Allocations of this thread within one call. Raises what the call raises."""
        return int(self._count(call))
