"""A config file as plain values, with the line and column of each key and value, for config errors.

Knows places. It refuses to know the syntax of a file (`yaml.py`), and what a key means.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from sidecar.config.section import Path


class Place(NamedTuple):
    """Line and column in the file, both from 1."""

    line: int
    column: int


class Complaint(NamedTuple):
    """An error in the text itself."""

    path: Path
    place: Place
    text: str


@dataclass
class Document:
    tree: dict[str, object] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    """The first character of each value."""
    keys: dict[Path, Place] = field(default_factory=dict)
    """The first character of each key."""
    complaints: list[Complaint] = field(default_factory=list)

    def place_of(self, path: Path, *, at_key: bool = False) -> Place | None:
        """The place of a value (or of its key), else of the nearest value around it; None for an empty document."""
        if at_key and path in self.keys:
            return self.keys[path]
        around = (path[:length] for length in range(len(path), 0, -1))
        return next((self.values[each] for each in around if each in self.values), None)
