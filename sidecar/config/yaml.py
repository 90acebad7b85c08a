"""Reads a YAML text into plain values and notes the line and column of each key and value, for config errors.

Scalars follow YAML 1.2's core: true and false are the only booleans and numbers are decimal, so `via: off`, a time and 1_000
are text. Tags, duplicate keys and documents that unfold beyond a bound (aliases of aliases) are refused. What a key means is
not known here.

PyYAML parses; the walk over its nodes is our own. ruamel.yaml keeps places too, but raises at the first duplicate key, turns
dates into objects, lets tags pass and needs the same walk against aliases that contain themselves, for twice PyYAML's import
time; strictyaml refuses `{url: ...}` and aliases, which configs use.
"""

import re
from collections.abc import Callable

import yaml

from sidecar.config.origins import Complaint, Document, Place
from sidecar.config.section import Path


_MOST_NODES = 100_000
"""A config has hundreds; a billion laughs has more."""
_DEEPEST_YAML = 12
"""The deepest key of a config, a header's value in a rule, stands at six."""

_CORE = "tag:yaml.org,2002:"
_CONTAINERS = (f"{_CORE}map", f"{_CORE}seq")
_SCALAR_TAGS: dict[str, tuple[re.Pattern[str], Callable[[str], object]]] = {
    f"{_CORE}null": (re.compile(r"(?:~|null|Null|NULL|)\Z"), lambda _: None),
    f"{_CORE}bool": (re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), lambda text: text.lower() == "true"),
    # Longer ones are floats: Python refuses to convert more than 4,300 digits.
    f"{_CORE}int": (re.compile(r"[-+]?[0-9]{1,40}\Z"), int),
    f"{_CORE}float": (
        re.compile(r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan)\Z"),
        lambda text: float(text.replace(".inf", "inf").replace(".nan", "nan")),
    ),
    f"{_CORE}str": (re.compile(r""), str),
}
"""How a scalar of each tag is written, and read. A plain scalar has the first tag whose pattern it matches."""


class _Loader(yaml.SafeLoader):
    """Gives plain scalars the tags of `_SCALAR_TAGS`, in place of YAML 1.1's (which has `yes`, `off`, 12:30 and octals)."""

    yaml_implicit_resolvers = {None: [(tag, pattern) for tag, (pattern, _) in _SCALAR_TAGS.items()]}  # noqa: RUF012  PyYAML's own


def read(text: bytes) -> Document:
    """Read one YAML document. Never raises: errors are in `complaints`, and the rest is read as far as possible."""
    document = Document()
    value, root = _read(text, document)
    if isinstance(value, dict):
        document.tree = value
    elif value is not None and root is not None:
        document.complaints.append(Complaint((), _place(root.start_mark), "must be a mapping of sections"))
    return document


def read_value(text: bytes) -> tuple[object, list[Complaint]]:
    """Read a YAML text that is one value of any kind, and its errors. Never raises."""
    document = Document()
    value, _ = _read(text, document)
    return value, document.complaints


def _read(text: bytes, document: Document) -> tuple[object, yaml.Node | None]:
    """The value of a text and its node; notes places and errors in the document."""
    root: yaml.Node | None = None
    try:
        root = yaml.compose(text, _Loader)
    except yaml.MarkedYAMLError as error:
        place = _place(error.problem_mark or error.context_mark)
        said = ", ".join(filter(None, (error.context, error.problem)))
        document.complaints.append(Complaint((), place, f"is not YAML: {said}"))
    except yaml.reader.ReaderError as error:
        document.complaints.append(Complaint((), _place_of_character(text, error), f"is not YAML: {error.reason}"))
    except RecursionError:
        document.complaints.append(Complaint((), Place(1, 1), "is nested too deeply"))
    else:
        if root is not None:
            return _Walk(document).value(root, ()), root
    return None, root


def _place(mark: yaml.Mark | None) -> Place:
    return Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)


def _place_of_character(text: bytes, error: yaml.reader.ReaderError) -> Place:
    # PyYAML counts bytes up to one that it cannot decode, but characters up to one that YAML forbids.
    if error.encoding == "unicode":
        before = text.decode(errors="replace")[: error.position]
    else:
        before = text[: error.position].decode(error.encoding, "replace")
    lines = before.split("\n")
    return Place(len(lines), len(lines[-1]) + 1)


class _Walk:
    """One walk over the nodes, which fills the document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._nodes = 0

    def _complain(self, path: Path, node: yaml.Node, text: str) -> None:
        self._document.complaints.append(Complaint(path, _place(node.start_mark), text))

    def value(self, node: yaml.Node, path: Path) -> object:
        self._nodes += 1
        self._document.values[path] = _place(node.start_mark)
        if self._nodes > _MOST_NODES or len(path) > _DEEPEST_YAML:
            if self._nodes <= _MOST_NODES + 1:
                self._complain(path, node, "is too large, too deep, or contains itself")
                self._nodes = _MOST_NODES + 1
            return None
        if isinstance(node, yaml.ScalarNode):
            pattern, read_scalar = _SCALAR_TAGS.get(node.tag, (None, str))
            if pattern and pattern.match(node.value):
                return read_scalar(node.value)
            self._complain(path, node, "has a tag, which is not supported")
            return None
        if node.tag not in _CONTAINERS:
            self._complain(path, node, "has a tag, which is not supported")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        found: dict[str, object] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._complain(path, key_node, "has a key that is not text")
                continue
            key: str = key_node.value
            here = (*path, key)
            if key in found:
                self._complain(here, key_node, f"appears twice, first in line {self._document.keys[here].line}")
                continue
            self._document.keys[here] = _place(key_node.start_mark)
            found[key] = self.value(value_node, here)
        return found
