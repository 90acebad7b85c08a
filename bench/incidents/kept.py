"""Finished runs on disk: a bench of hours that was interrupted goes on where it stood.

A run is kept under the commit that played it, so that no result of another tree is ever read. A tree with uncommitted
changes has no name: its runs are neither kept nor read. It knows files; it refuses to know what a run is.
"""

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from bench.checkout import REPOSITORY, commit, is_frozen


FOLDER = REPOSITORY / ".cache" / "incidents"
"""The folder belongs to this checkout, and git ignores it."""
_I = TypeVar("_I")
_O = TypeVar("_O")


def frozen() -> Path | None:
    """Folder of the runs of this commit; None if the tree has changes that are not committed."""
    return FOLDER / commit() if is_frozen() else None


@dataclass(frozen=True, slots=True)
class Kept(Generic[_I, _O]):
    """Does a piece of work, or reads what it gave before. `do` must give the same for items of the same `repr`."""

    do: Callable[[_I], _O]
    folder: Path | None
    """None: every piece is done, and none is kept."""

    def __call__(self, item: _I) -> _O:
        if self.folder is None:
            return self.do(item)
        named = f"{self.do.__module__}.{self.do.__qualname__} {item!r}"
        path = self.folder / f"{hashlib.sha256(named.encode()).hexdigest()[:24]}.pickle"
        if path.exists():
            found: _O = pickle.loads(path.read_bytes())  # written below, by this checkout
            return found
        given = self.do(item)
        self.folder.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".half")
        half.write_bytes(pickle.dumps(given))
        half.replace(path)
        return given
