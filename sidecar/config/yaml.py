"""A YAML text as plain values, with the place of each: what lets every config error name its line and column.

Knows YAML 1.2's core scalars (true and false are the only booleans: `via: off` is text, a time is text) and nothing of
what keys mean. Refuses tags, duplicate keys and documents that unfold (aliases of aliases) beyond a bound.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import yaml

from sidecar.config.describe import Path


_MOST_NODES = 100_000
"""A config has hundreds; a billion laughs has more."""
_DEEPEST = 12
"""The deepest key of a config, a header's value in a rule, stands at six."""


_PLAIN_CONTAINERS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class Place(NamedTuple):
    """Line and column in the file, both from 1."""

    line: int
    column: int


class Complaint(NamedTuple):
    """Something wrong with the text itself."""

    path: Path
    place: Place
    text: str


@dataclass
class Document:
    """What a file says, and where."""

    tree: dict[str, object] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    """Where each value begins."""
    keys: dict[Path, Place] = field(default_factory=dict)
    """Where each value's key begins."""
    complaints: list[Complaint] = field(default_factory=list)


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core schema: `yes`, `off`, `12:30`, `2024-01-01` and `0777` are no booleans, times or octals."""

    yaml_implicit_resolvers = {}  # noqa: RUF012  PyYAML's own class attribute, emptied so that 1.1's resolvers are gone


_CORE = {
    "null": (r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    "bool": (r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
    "int": (r"[-+]?[0-9]+", list("-+0123456789")),
    "float": (r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan)", list("-+.0123456789")),
}
for _name, (_pattern, _first) in _CORE.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^{_pattern}$"), _first)


def read(text: bytes) -> Document:
    """Read one YAML document. Never raises: what is wrong stands in `complaints`, and the rest is read as far as it goes."""
    document = Document()
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        said = ", ".join(filter(None, (error.context, error.problem)))
        document.complaints.append(Complaint((), place, f"is not YAML: {said}"))
    except yaml.reader.ReaderError as error:
        document.complaints.append(Complaint((), _place_of_byte(text, error.position), f"is not YAML: {error.reason}"))
    except RecursionError:
        document.complaints.append(Complaint((), Place(1, 1), "is nested too deeply"))
    else:
        _Walk(document).root(root)
    return document


def _place_of_byte(text: bytes, position: int) -> Place:
    before = text[:position].split(b"\n")
    return Place(len(before), len(before[-1]) + 1)


class _Walk:
    """One walk over the nodes, noting places and complaints."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._seen = 0

    def root(self, node: yaml.Node | None) -> None:
        value = None if node is None else self._value(node, ())
        if isinstance(value, dict):
            self._document.tree = value
        elif value is not None and node is not None:
            self._complain((), node, "must be a mapping of sections")

    def _complain(self, path: Path, node: yaml.Node, text: str) -> None:
        self._document.complaints.append(Complaint(path, _place(node), text))

    def _value(self, node: yaml.Node, path: Path) -> object:
        self._seen += 1
        if self._seen > _MOST_NODES or len(path) > _DEEPEST:
            if self._seen <= _MOST_NODES + 1:
                self._complain(path, node, "is too large, too deep, or contains itself")
                self._seen = _MOST_NODES + 1
            return None
        self._document.values[path] = _place(node)
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _PLAIN_CONTAINERS:
            self._complain(path, node, "has a tag, which is not supported")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        found: dict[str, object] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._complain(path, key_node, "has a key that is no text")
                continue
            key: str = key_node.value
            here = (*path, key)
            if key in found:
                first = self._document.keys[here]
                self._complain(here, key_node, f"stands twice; first in line {first.line}")
                continue
            self._document.keys[here] = _place(key_node)
            found[key] = self._value(value_node, here)
        return found

    def _scalar(self, node: yaml.Node, path: Path) -> object:
        text: str = node.value
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        match kind:
            case "str":
                return text
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" if len(text) <= 40:
                return int(text)
            case "int" | "float":
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
            case _:
                self._complain(path, node, "has a tag, which is not supported")
                return None


def _place(node: yaml.Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)
