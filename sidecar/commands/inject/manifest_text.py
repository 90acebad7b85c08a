"""Kubernetes manifests as their owners wrote them: text that is read document by document, changed in place and written again.

A document that nothing changes is written byte by byte as it came. One that changes keeps its comments, its order, its quotes and its
indentation, as far as ruamel.yaml keeps them; JSON stays JSON. A YAML stream is cut at its markers, `---` and `...` at the
beginning of a line, which no scalar can contain (YAML 1.2.2, 9.1.2). An object that stands at two places by an anchor is made
two before one of them changes (`owned`). This module knows YAML and JSON, and the kind `List`; it knows nothing of pods.
"""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any


Object = dict[str, Any]
"""One object of Kubernetes; ruamel's maps are dicts too."""
_NO_CHARACTER = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that a YAML stream cannot hold (YAML 1.2.2, 5.1), comments and markers included; a terminal obeys some of them."""
_DOCUMENT_MARKER = re.compile(r"^(?:---|\.\.\.)(?=[ \t\r\n]|$)[^\n]*\n?", re.MULTILINE)
_WIDEST = 1 << 20
"""Columns. No text is folded anew."""
_SEQUENCE_IN_MAP = re.compile(
    r"^( *)(?:- )?[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*( *)- ", re.MULTILINE
)


class ManifestError(ValueError):
    """A text that is no manifest; the message names the file, the line and what was expected."""


@dataclass(slots=True)
class Document:
    """One document of a stream. `objects`: what stands in it, those of a List one by one; a change to them is a change to it."""

    source: str
    first_line: int
    text: str
    root: Any
    objects: list[Object] = field(default_factory=list)
    changed: bool = False
    is_json: bool = False

    def written(self) -> str:
        """The text, anew if something has changed."""
        if not self.changed:
            return self.text
        return _json(self.root, self.text) if self.is_json else _yaml_text(self.root, self.text)


def read(text: str, source: str) -> list[Document]:
    """The documents of a stream, with the markers between them as documents without objects. Raises ManifestError."""
    if raw := _NO_CHARACTER.search(text):
        before = text[: raw.start()].split("\n")
        place = f"{source}:{len(before)}:{len(before[-1]) + 1}"
        raise ManifestError(f"{place}: this is no YAML: the character U+{ord(raw[0]):04X} stands there as it is")
    found, line = [], 1
    for piece, is_marker in _pieces(text):
        found.append(Document(source, line, piece, None) if is_marker else _of(piece, source, line))
        line += piece.count("\n")
    return found


def written(documents: Sequence[Document]) -> str:
    """The stream."""
    return "".join(document.written() for document in documents)


def of_some(document: Document, objects: Sequence[Object]) -> str:
    """The text of some of a document's objects alone, a document each: those of a List may have to go apart."""
    each = (_json(one, document.text) if document.is_json else _yaml_text(one, document.text) for one in objects)
    return "---\n".join(text if text.endswith("\n") else f"{text}\n" for text in each)


def owned(root: Any, *path: str | int) -> Any:
    """The value at this path below the root, which stands at no other place then: what an anchor shares is copied first.

    Raises KeyError or IndexError where there is none.
    """
    shared = _shared(root)
    node = root
    for step in path:
        value = node[step]
        if shared and isinstance(value, dict | list):
            node[step] = value = _copied(value)
        node = value
    return node


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    at = 0
    for marker in _DOCUMENT_MARKER.finditer(text):
        if at < marker.start():
            yield text[at : marker.start()], False
        rest = marker[0][3:].strip()
        if rest and not rest.startswith(("#", "%")):  # a document that begins on the line of its marker
            yield text[marker.start() : marker.start() + 3], True
            at = marker.start() + 3
        else:
            yield marker[0], True
            at = marker.end()
    if at < len(text):
        yield text[at:], False


def _parsed(text: str, source: str, first_line: int) -> Any:
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415  the doctor reads no manifest, as a rule

    from sidecar.commands.inject.bounded_yaml import BeyondBoundError  # noqa: PLC0415  as above

    try:
        # Of an end of line that is two characters, ruamel would take the first for a part of the comment before it.
        return _yaml(text).load(text.replace("\r\n", "\n"))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{source}:{first_line + mark.line}:{mark.column + 1}" if mark else f"{source}:{first_line}"
        if isinstance(error, BeyondBoundError):
            raise ManifestError(f"{place}: {error.problem}, and is not read{_hint(text)}") from None
        raise ManifestError(f"{place}: this is no YAML: {error.problem or error.context}{_hint(text)}") from None
    except (YAMLError, ValueError) as error:
        raise ManifestError(f"{source}:{first_line}: this is no YAML: {str(error).splitlines()[0]}") from None


def _hint(text: str) -> str:
    return "; a Helm template is rendered first: helm template NAME CHART | sidecar inject" if "{{" in text else ""


def _of(text: str, source: str, line: int) -> Document:
    root, is_json = _parsed_json(text)
    if not is_json:
        root = _parsed(text, source, line)
    if isinstance(root, dict) and isinstance(root.get("items"), list) and _shared(root):
        # An anchor may share a part between two objects of a List: a change would reach both.
        root["items"] = [_copied(one) for one in root["items"]]
    document = Document(source, line, text, root, is_json=is_json)
    document.objects = list(_objects(root))
    return document


def _parsed_json(text: str) -> tuple[Any, bool]:
    """The value, and whether this is JSON: YAML in flow style begins like it. What is deeper than a YAML may be is left to the reader that refuses it."""
    if text.lstrip().startswith(("{", "[")):
        try:
            root = json.loads(text)
        except (ValueError, RecursionError):
            return None, False
        return root, not _is_deep(root)
    return None, False


def _objects(root: Any) -> Iterator[Object]:
    if isinstance(root, list):
        for one in root:
            yield from _objects(one)
    elif isinstance(root, dict) and isinstance(root.get("kind"), str):
        if root["kind"].endswith("List") and isinstance(root.get("items"), list):
            for one in root["items"]:
                yield from _objects(one)
        else:
            yield root


def _is_deep(root: Any) -> bool:
    """Whether it has more levels than a YAML may have."""
    from sidecar.commands.inject.bounded_yaml import MOST_LEVELS  # noqa: PLC0415  as above

    level = [root]
    for _ in range(MOST_LEVELS):
        level = [one for node in level for one in _below(node)]
    return bool(level)


def _shared(root: Any) -> bool:
    """Whether an anchor lets a map or a list stand at two places."""
    seen: set[int] = set()
    rest = [root]
    while rest:
        node = rest.pop()
        if isinstance(node, dict | list):
            if id(node) in seen or getattr(node, "merge", None):
                return True
            seen.add(id(node))
            rest += _below(node)
    return False


def _copied(node: Any) -> Any:
    copied = deepcopy(node)
    _forget_anchors(copied)
    return copied


def _forget_anchors(node: Any) -> None:
    """Take the names off this node and those below it: the original keeps its own."""
    if hasattr(node, "yaml_set_anchor"):  # JSON's have none
        node.yaml_set_anchor(None)
    for one in _below(node):
        _forget_anchors(one)


def _below(node: Any) -> Iterable[Any]:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def _yaml(text: str) -> Any:
    from ruamel.yaml import YAML  # noqa: PLC0415  as above

    from sidecar.commands.inject.bounded_yaml import BoundedComposer, WithoutDates  # noqa: PLC0415  as above

    yaml = YAML()
    yaml.Composer, yaml.Resolver = BoundedComposer, WithoutDates
    yaml.preserve_quotes = True
    yaml.width = _WIDEST
    yaml.allow_duplicate_keys = False
    yaml.brace_single_entry_mapping_in_flow_sequence = True
    offsets = {len(found[2]) - len(found[1]) for found in _SEQUENCE_IN_MAP.finditer(text)}
    if 0 not in offsets and offsets:
        yaml.indent(mapping=2, sequence=4, offset=2)
    else:
        yaml.indent(mapping=2, sequence=2, offset=0)
    return yaml


def _yaml_text(root: Any, was: str) -> str:
    out = io.StringIO()
    _yaml(was).dump(root, out)
    text = out.getvalue().replace("\n", "\r\n") if "\r\n" in was else out.getvalue()
    return text if was.endswith("\n") else text.rstrip("\r\n")


def _json(root: Any, was: str) -> str:
    indent = re.search(r"^([ \t]+)\S", was, re.MULTILINE)
    one_line = "\n" not in was.strip()
    text = json.dumps(root, ensure_ascii=False, indent=None if one_line else (indent[1] if indent else 2))
    text = _NO_CHARACTER.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return (text.replace("\n", "\r\n") if "\r\n" in was else text) + was[len(was.rstrip()) :]
