"""Describes the values that a key accepts, for config errors and for the type column of docs/configuration.md.

Reads the typed models of `schema.py`, so that messages, docs and checks cannot differ. Files and values are not known here.
"""

import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from sidecar.config.schema import Config
from sidecar.config.section import KEY_MARK, Before, Key, Limits, Path, Section
from sidecar.config.values import Description, as_seconds, may_authenticate
from sidecar.config.written_durations import DURATION_FORMS


def dotted(path: Path) -> str:
    """A path as text: `lanes.rules[0].lane`."""
    text = ""
    for step in path:
        if step == KEY_MARK:
            continue
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def model_at(path: Path, root: type[Section] = Config) -> type[Section] | None:
    """The section at a path; None if the path leads to a value or to nothing. `root`: the shape of the whole file."""
    found, _ = _type_at(path, root)
    return found if isinstance(found, type) and issubclass(found, Section) else None


def expected(path: Path, root: type[Section] = Config) -> str:
    """The accepted values at a path: "a number above 0 and at most 86400", "one of: auto, never"."""
    return _words(*_type_at(path, root))


def is_secret(path: Path, root: type[Section] = Config) -> bool:
    """Whether the value at a path, or one inside it, must not be shown."""
    below_headers = path[path.index("headers") + 1 :][:1] if "headers" in path else ()
    return _has_secret(*_type_at(path, root)) or any(may_authenticate(str(name).lower()) for name in below_headers)


def takes_text(path: Path) -> bool:
    """Whether the value at a path is text, of any form or out of a closed set."""
    kind, _ = _type_at(path, Config)
    return kind is str or get_origin(kind) is Literal


def takes_list(path: Path) -> bool:
    """Whether the value at a path is a list."""
    return get_origin(_type_at(path, Config)[0]) is tuple


def _has_secret(kind: Any, notes: list[object]) -> bool:
    if any(isinstance(note, Description) and note.secret for note in notes):
        return True
    # A wrong type may be the secret itself (`api_keys: sk-...`), so a container is secret if its items are.
    if get_origin(kind) in (tuple, Mapping):
        return any(_has_secret(*_unwrap(argument, [])) for argument in get_args(kind) if argument is not ...)
    if isinstance(kind, type) and issubclass(kind, Section):
        return any(_has_secret(*_field(field)) for field in kind.model_fields.values())
    return False


def _field(field: Key) -> tuple[Any, list[object]]:
    return _unwrap(field.annotation, list(field.metadata))


def _type_at(path: Path, root: type[Section]) -> tuple[Any, list[object]]:
    """The bare type at a path, with its constraints; (None, []) for a path that the model does not have."""
    kind: Any = root
    notes: list[object] = []
    for step in path:
        if isinstance(kind, type) and issubclass(kind, Section):
            field = kind.model_fields.get(str(step))
            kind, notes = (None, []) if field is None else _field(field)
        elif get_origin(kind) is tuple:
            kind, notes = _unwrap(get_args(kind)[0], [])
        elif get_origin(kind) is Mapping:
            name, value = get_args(kind)
            # The path of a key's own error is (..., key, "[key]"): the mark steps from the value's type to the key's.
            kind, notes = _unwrap(name if path[-1] == KEY_MARK and path[-2] == step else value, [])
        elif step != KEY_MARK:
            return None, []
    return kind, notes


def _unwrap(kind: Any, notes: list[object]) -> tuple[Any, list[object]]:
    """Take Annotated and `| None` off a type, and collect their constraints."""
    while True:
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            notes += more
        elif get_origin(kind) in (Union, types.UnionType):
            kind = next(argument for argument in get_args(kind) if argument is not types.NoneType)
        else:
            return kind, notes


def _words(kind: Any, notes: list[object]) -> str:
    for note in notes:
        if isinstance(note, Description):
            return note.text
    origin = get_origin(kind)
    if origin is Literal:
        return "one of: " + ", ".join(get_args(kind))
    if origin is tuple:
        item = _words(*_unwrap(get_args(kind)[0], []))
        return f"a list{_sizes(notes)}, each {item}"
    if origin is Mapping:
        name, value = (_words(*_unwrap(argument, [])) for argument in get_args(kind))
        return f"a mapping{_sizes(notes)} from {name} to {value}"
    if kind is bool:
        return "true or false"
    if kind in (int, float):
        unit = f", or with a unit: {DURATION_FORMS}" if Before(as_seconds) in notes else ""
        return ("a whole number" if kind is int else "a number") + _range(notes) + unit
    if isinstance(kind, type) and issubclass(kind, Section):
        return "a mapping with keys out of: " + ", ".join(kind.model_fields)
    return "text"


def _range(notes: list[object]) -> str:
    bounds = _bounds(notes)
    low = f"at least {bounds['ge']}" if "ge" in bounds else f"above {bounds['gt']}" if "gt" in bounds else ""
    high = f"at most {bounds['le']}" if "le" in bounds else ""
    return (" " + " and ".join(filter(None, (low, high)))) if low or high else ""


def _sizes(notes: list[object]) -> str:
    bounds = _bounds(notes)
    return f" of {bounds.get('min_length', 0)} to {bounds['max_length']}" if "max_length" in bounds else ""


def _bounds(notes: list[object]) -> dict[str, Any]:
    limits = [note._asdict() for note in notes if isinstance(note, Limits)]
    return {name: limit for each in limits for name, limit in each.items() if limit is not None}
