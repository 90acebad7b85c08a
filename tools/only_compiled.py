"""For the environment of `tools/on_the_wheel.py`, at the start of each of its Pythons: only a compiled sidecar may be imported.

A proof about the wheel that ran the sources beside it, because of the folder in which it was started, would prove nothing.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType


class OnlyCompiled:
    """Finds `sidecar` as Python does, and raises ImportError if it is not compiled. Knows no other module."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "sidecar":
            return None
        found = PathFinder.find_spec(name, path)
        if found is not None and found.origin and not any(Path(found.origin).parent.glob("compiled__mypyc.*")):
            raise ImportError(
                f"{sys.prefix} proves the compiled wheel, and {found.origin} is pure Python: start it elsewhere"
            )
        return found


def install() -> None:
    """From now on, in this process."""
    sys.meta_path.insert(0, OnlyCompiled)
