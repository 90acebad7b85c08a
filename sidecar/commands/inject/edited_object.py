"""One object under change, which remembers what each change overwrote: the annotation that `sidecar uninject` reads.

Each change is a path with the value before and the value now. In the annotation they are operations of RFC 6902 (JSON Patch) that lead back, the last
change first, each with what it must find: what was put is known again by its name, or else by itself, wherever it stands in its list by
then. The annotation is the object's own, never its pod template's, because a pod template that changes restarts the engine. What was made to hold
something goes when it holds nothing, so an empty map or list of the user's may go too; Kubernetes reads both as none. Comments and anchors are the text's
(`manifest_text.py`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sidecar.commands.inject.manifest_text import Object, owned
from sidecar.commands.inject.workload_kinds import Path


UNDO = "llm-phase-sidecar/undo"
"""Annotation with the steps back."""


class Change(NamedTuple):
    """One place of an object. None: nothing there. Where both values are the same, changes elsewhere were decided from it."""

    path: Path
    was: Any
    now: Any


class Edited:
    """An object that is changed by paths. What a path leads through is made where it is missing, and taken away with it again."""

    def __init__(self, one: Object) -> None:
        self.one = one
        self.changes: list[Change] = []
        """The first one first, each behind what it was decided from."""

    @property
    def changed(self) -> bool:
        """Whether anything was set."""
        return any(each.was != each.now for each in self.changes)

    def get(self, path: Path) -> Any:
        """The value there; None if there is none."""
        node: Any = self.one
        for step in path:
            try:
                node = node[step]
            except (KeyError, IndexError, TypeError):
                return None
        return node

    def rests_on(self, *paths: Path) -> None:
        """Note the values there, from which the changes are decided: where they are to be repeated, they must be the same."""
        for path in paths:
            while len(path) > 1 and self.get(path[:-1]) is None:
                path = path[:-1]  # noqa: PLW2901  a test below what is not there fails, whatever it expects
            there = _plain(self.get(path))
            self.changes.append(Change(path, there, there))

    def set(self, path: Path, value: Any) -> None:
        """A value in place of what is there, or where nothing is. An index that is the length of a list appends."""
        there = self.get(path)
        if there == value and there is not None:
            return
        for at in range(1, len(path)):
            if self.get(path[:at]) is None:
                self._put(path[:at], [] if isinstance(path[at], int) else {})
        self._put(path, value)

    def append(self, path: Path, value: Any) -> None:
        """A value at the end of the list there, which is made where it is missing."""
        self.set((*path, len(self.get(path) or ())), value)

    def remove(self, path: Path) -> None:
        """Take away the value there; in a list, those behind it move up."""
        parent = owned(self.one, *path[:-1])
        self.changes.append(Change(path, _plain(parent[path[-1]]), None))
        del parent[path[-1]]

    def sign(self) -> None:
        """Write the steps back into the object's annotations, before those of an earlier time."""
        if not (back := [*_back(self.changes)]):
            return
        annotations = ("metadata", "annotations")
        earlier = json.loads((self.get(annotations) or {}).get(UNDO, "[]"))
        self.set((*annotations, UNDO), json.dumps([*back, *earlier], separators=(",", ":")))

    def _put(self, path: Path, value: Any) -> None:
        parent, last = owned(self.one, *path[:-1]), path[-1]
        self.changes.append(Change(path, _plain(self.get(path)), _plain(value)))
        if isinstance(last, int) and last == len(parent):
            parent.append(value)
        else:
            parent[last] = value


def _back(changes: Sequence[Change]) -> Iterator[dict[str, Any]]:
    for path, was, now in reversed(changes):
        if was == now or (was is None and now in ({}, [])):
            continue  # nothing was overwritten; and what was made goes with what it holds
        step = {"op": "remove" if was is None else "add" if now is None else "replace", "path": pointer(path)}
        yield step | ({} if now is None else _mark(now)) | ({} if was is None else {"value": was})


class ChangedSinceError(ValueError):
    """An injected object whose parts are no longer where they were put."""


def undone(one: Object) -> bool:
    """Take back what was injected into this object; False if nothing was. Raises ChangedSinceError, and leaves the object as it came."""
    annotations = (one.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(UNDO)
    if text is None:
        return False
    try:
        steps = json.loads(text)
    except ValueError as error:
        raise ChangedSinceError(f"its annotation {UNDO} is not what was written: {error}") from None
    del annotations[UNDO]
    if not annotations:
        del one["metadata"]["annotations"]
    for step in steps:
        if step["op"] != "prune":  # of an earlier version: what was made to hold something
            _take_back(one, step)
    return True


def was_at(one: Object, path: Path) -> Any:
    """The value that stood at this path before the injection; None if it was not changed, or nothing stood there."""
    annotations = (one.get("metadata") or {}).get("annotations") or {}
    steps = json.loads(annotations.get(UNDO, "[]"))
    return next((step["value"] for step in reversed(steps) if step["path"] == pointer(path) and "value" in step), None)


def _take_back(one: Object, step: Mapping[str, Any]) -> None:
    *way, name = (each.replace("~1", "/").replace("~0", "~") for each in step["path"].split("/")[1:])
    parent, above = one, []
    try:
        for each in way:
            above.append((parent, _index(parent, each)))
            parent = owned(*above[-1])
        last = _place_of(parent, name, step)
        if step["op"] == "remove":
            del parent[last]
            _prune(parent, above)
        elif step["op"] == "add" and isinstance(parent, list):
            parent.insert(int(last), step["value"])
        else:
            parent[last] = step["value"]
    except (KeyError, IndexError, TypeError, ValueError, StopIteration):
        raise ChangedSinceError(
            f"{step['path']} is no longer what was put there: it was changed after `sidecar inject`"
        ) from None


def _prune(node: Any, above: list[tuple[Any, Any]]) -> None:
    """Take away what holds nothing by now, and what held it alone; an element of a list stays."""
    while not node and above and isinstance(above[-1][1], str):
        node, name = above.pop()
        del node[name]


def _index(parent: Any, name: str) -> Any:
    return int(name) if isinstance(parent, list) else name


def _place_of(parent: Any, name: str, step: Mapping[str, Any]) -> Any:
    """The place of what was put: in a list where its name is by now, or the one such value. Raises LookupError, StopIteration or ValueError."""
    if isinstance(parent, list) and "name" in step:
        return next(at for at, each in enumerate(parent) if isinstance(each, dict) and each.get("name") == step["name"])
    if isinstance(parent, list) and "put" in step and parent.count(step["put"]) == 1:
        return parent.index(step["put"])
    place = _index(parent, name)
    if "put" in step and parent[place] != step["put"]:
        raise ValueError(place)
    return place


def _mark(value: Any) -> dict[str, Any]:
    """How the value is known again: an element of a list by its name, wherever it stands then, and another value by itself."""
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        return {"name": value["name"]}
    return {} if isinstance(value, list) else {"put": value}


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def pointer(path: Path) -> str:
    """The path as RFC 6901 writes it."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
