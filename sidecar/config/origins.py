"""The values of a config file with the place of each, and the merged ones with their sources: a flag, a variable, a line of the file.

Knows which source won for a key and which ones lost. Refuses to know a file's syntax (`yaml.py`), the meaning of a key, and the order of
precedence: the caller sets values in that order (`file.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

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


class Kind(StrEnum):
    """The kinds of sources, the strongest first. What no source sets has its default."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"


class Source(NamedTuple):
    """The place of a value."""

    kind: Kind
    where: str
    """`--engine.url`, `$SIDECAR__ENGINE__URL` or `sidecar.yml:3`."""
    over: tuple[str, ...] = ()
    """The places of values for the same key that lost, the strongest first."""


Sources = Mapping[Path, Source]
"""The source of each key that some source sets. The path of a part (one lane's objectives) may stand beside its whole's."""


class Merged:
    """A tree of values into which stronger sources write over weaker ones."""

    def __init__(self, tree: dict[str, Any], sources: dict[Path, Source]) -> None:
        self.tree = tree
        self.sources = sources

    def set(self, path: Path, value: object, source: Source) -> None:
        """Write a value over the present one. A section that is no mapping stays as it is: it is an error of its own."""
        node: Any = self.tree
        for depth, step in enumerate(path[:-1]):
            inner = node.get(step)
            # A mapping whose keys are all commented out is null, and an objective may be switched off by a word.
            if inner is None or (depth > 0 and isinstance(inner, str)):
                inner = node[step] = {}
            if not isinstance(inner, dict):
                return
            node = inner
        node[path[-1]] = value
        beaten = [each for each in self.sources if each[: len(path)] == path]
        over = tuple(place for each in beaten for place in (self.sources[each].where, *self.sources[each].over))
        for each in beaten:
            del self.sources[each]
        self.sources[path] = source._replace(over=(*source.over, *dict.fromkeys(over)))

    def outside(self, path: Path) -> str | None:
        """The flag or variable that set the value at a path, or a value around it; None if none did."""
        around = (self.sources.get(path[:length]) for length in range(len(path), 0, -1))
        return next((each.where for each in around if each is not None and each.kind is not Kind.FILE), None)

    def outside_below(self, path: Path) -> str | None:
        """The flag or variable that set a part of the value at a path; None if none did."""
        below = (each for at, each in self.sources.items() if at[: len(path)] == path)
        return next((each.where for each in below if each.kind is not Kind.FILE), None)
