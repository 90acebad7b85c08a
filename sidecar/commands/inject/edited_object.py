"""One object under change, which remembers how to take each change back: the annotation that `sidecar uninject` reads.

The steps back are operations of RFC 6902 (JSON Patch) and one more, the last change first, in one annotation of the object itself: never of its pod
template, because a pod template that changes restarts the engine. The steps forward are operations of RFC 6902 too, with a `test` of what each was
decided from: `kustomize_component.py` writes them. Comments and anchors are the text's (`manifest_text.py`).
"""

import json
from collections.abc import Mapping
from typing import Any

from sidecar.commands.inject.manifest_text import Object, owned
from sidecar.commands.inject.workload_kinds import Path


UNDO = "llm-phase-sidecar/undo"
"""Annotation with the steps back."""
_PRUNE = "prune"
"""The step that JSON Patch has not: what was made to hold something goes, if it holds nothing of others by now."""


class Edited:
    """An object that is changed by paths. What a path leads through is made where it is missing, and taken away with it again."""

    def __init__(self, one: Object) -> None:
        self.one = one
        self.forward: list[dict[str, Any]] = []
        """The changes, the first one first, each behind the tests of what was there. A test of null holds where nothing is."""
        self._back: list[dict[str, Any]] = []

    @property
    def changed(self) -> bool:
        """Whether anything was set."""
        return bool(self._back)

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
            self.forward.append({"op": "test", "path": _pointer(path), "value": _plain(self.get(path))})

    def set(self, path: Path, value: Any) -> None:
        """A value in place of what is there, or where nothing is. An index that is the length of a list appends."""
        there = self.get(path)
        if there == value and there is not None:
            return
        for at in range(1, len(path)):
            if self.get(path[:at]) is None:
                self._put(path[:at], [] if isinstance(path[at], int) else {}, made=True)
        self._put(path, value)

    def append(self, path: Path, value: Any) -> None:
        """A value at the end of the list there, which is made where it is missing."""
        self.set((*path, len(self.get(path) or ())), value)

    def remove(self, path: Path) -> None:
        """Take away the value there; in a list, those behind it move up."""
        parent = owned(self.one, *path[:-1])
        self.rests_on(path)
        self.forward.append({"op": "remove", "path": _pointer(path)})
        self._back.append({"op": "add", "path": _pointer(path), "value": _plain(parent[path[-1]])})
        del parent[path[-1]]

    def sign(self) -> None:
        """Write the steps back into the object's annotations, before those of an earlier time."""
        if not self._back:
            return
        annotations = ("metadata", "annotations")
        earlier = (self.get(annotations) or {}).get(UNDO)
        back = [*reversed(self._back), *(json.loads(earlier) if earlier else [])]
        if self.get(annotations) is None:
            # The annotation is itself the first thing to take away again, with the map that was made for it.
            back.append({"op": _PRUNE, "path": _pointer(annotations)})
        self.set((*annotations, UNDO), json.dumps(back, ensure_ascii=False, separators=(",", ":")))

    def _put(self, path: Path, value: Any, *, made: bool = False) -> None:
        parent, last = owned(self.one, *path[:-1]), path[-1]
        step = {"op": _PRUNE if made else "remove", "path": _pointer(path), **({} if made else _mark(value))}
        if isinstance(last, int) and last == len(parent):
            self.forward.append({"op": "add", "path": f"{_pointer(path[:-1])}/-", "value": _plain(value)})
            parent.append(value)
        else:
            self.rests_on(path)
            op = "add" if self.get(path) is None else "replace"
            self.forward.append({"op": op, "path": _pointer(path), "value": _plain(value)})
            if isinstance(last, int) or last in parent:
                step |= {"op": "replace", "value": _plain(parent[last])}
            parent[last] = value
        self._back.append(step)


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
    for step in steps:
        _take_back(one, step)
    return True


def was_at(one: Object, path: Path) -> Any:
    """The value that stood at this path before the injection; None if it was not changed, or nothing stood there."""
    annotations = (one.get("metadata") or {}).get("annotations") or {}
    steps = json.loads(annotations.get(UNDO, "[]"))
    return next((step["value"] for step in reversed(steps) if step["path"] == _pointer(path) and "value" in step), None)


def _take_back(one: Object, step: Mapping[str, Any]) -> None:
    *way, name = (_unescaped(each) for each in step["path"].split("/")[1:])
    try:
        parent: Any = one
        for each in way:
            parent = owned(parent, _index(parent, each))
        last = _place_of(parent, name, step)
        _check(parent[last] if "put" in step else None, step.get("put"))
        if step["op"] == "add" and isinstance(parent, list):
            parent.insert(int(last), step["value"])
        elif step["op"] in ("add", "replace"):
            parent[last] = step["value"]
        elif step["op"] == "remove" or not parent[last]:
            del parent[last]
    except (KeyError, IndexError, TypeError, ValueError, StopIteration):
        raise ChangedSinceError(
            f"{step['path']} is no longer what was put there: it was changed after `sidecar inject`"
        ) from None


def _check(there: Any, put: Any) -> None:
    if there != put:
        raise ValueError(there)


def _index(parent: Any, name: str) -> Any:
    return int(name) if isinstance(parent, list) else name


def _place_of(parent: Any, name: str, step: Mapping[str, Any]) -> Any:
    """A named element of a list is where its name is by now."""
    if isinstance(parent, list) and "name" in step:
        return next(at for at, each in enumerate(parent) if isinstance(each, dict) and each.get("name") == step["name"])
    return _index(parent, name)


def _mark(value: Any) -> dict[str, Any]:
    """How the value is known again: an element of a list by its name, wherever it stands then, and another value by itself."""
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        return {"name": value["name"]}
    return {} if isinstance(value, list) else {"put": _plain(value)}


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _pointer(path: Path) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")
