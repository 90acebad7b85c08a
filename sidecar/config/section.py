"""Sections of a config: classes whose annotations state what a file may hold, read strictly and with every mistake at once.

Knows the kinds of values that a config has: text, numbers, yes or no, words of a closed set, lists, mappings, and sections within
sections. No value is converted, but a whole number where any number may stand. It refuses to know files, places in them, and the
words for a mistake (`file.py`). Its names are those of pydantic, which a test compares it with (`tests/config/test_section.py`);
pydantic itself took a third of the start and 10 MB for that, and its messages were never shown.
"""

import math
import types
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    NoReturn,
    Self,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)


Path = tuple[str | int, ...]
"""Keys and list indexes from the root of a config to a value."""
KEY_MARK = "[key]"
"""Last step of the path of a mistake in a mapping's key."""
NO_KEYS: Mapping[Any, Any] = MappingProxyType({})
"""The default of a mapping."""
MISSING_KEY, UNKNOWN_KEY, NO_TEXT, REFUSED, NOT_TAKEN = "missing", "unknown key", "no text", "refused", "not taken"
"""The kinds of mistakes. A value is REFUSED with a message, and NOT_TAKEN if it has a wrong type or lies outside its limits."""
_WRONG: Final = object()
_NO_DEFAULT: Final = object()


class Before(NamedTuple):
    """A function that gets the value as written; it may replace it. Raises ValueError with the mistake."""

    call: Callable[[Any], Any]


class After(NamedTuple):
    """A function that gets a value of the right type; it may replace it. Raises ValueError with the mistake."""

    call: Callable[[Any], Any]


class Limits(NamedTuple):
    """The range of a number; the least and most characters of a text, or items of a list or mapping."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None

    def hold(self, value: Any) -> bool:
        size = len(value) if self.min_length is not None or self.max_length is not None else 0
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.min_length is None or size >= self.min_length)
            and (self.max_length is None or size <= self.max_length)
        )


class Mistake(NamedTuple):
    """One mistake in a tree of values."""

    path: Path
    kind: str
    value: object
    """The value as written; None for a key that is missing."""
    message: str = ""


class Mistakes(Exception):  # noqa: N818  there may be many
    """Every mistake in a tree of values."""

    def __init__(self, found: list[Mistake]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, each.path))}: {each.message or each.kind}" for each in found))
        self.found = tuple(found)


class Key(NamedTuple):
    """One key of a section."""

    annotation: Any
    """Its type, without the notes of `Annotated`."""
    metadata: tuple[Any, ...]
    """Those notes."""
    default: Any

    def is_required(self) -> bool:
        return self.default is _NO_DEFAULT


@dataclass_transform(kw_only_default=True)
class Section:
    """One section of a config: frozen, with no keys but its own, and no value that is not of the key's type."""

    model_fields: ClassVar[Mapping[str, Key]] = {}
    """The keys of the section, those of its bases first."""
    _kinds: ClassVar[Mapping[str, Any]] = {}
    """Key to its type, with the notes."""

    def __init_subclass__(cls) -> None:
        keys, kinds = dict(cls.model_fields), dict(cls._kinds)
        for name, kind in cls.__annotations__.items():
            bare, *notes = _noted(kind)
            keys[name] = Key(bare, tuple(notes), cls.__dict__.get(name, _NO_DEFAULT))
            kinds[name] = kind
        cls.model_fields, cls._kinds = keys, kinds

    def __init__(self, **said: Any) -> None:
        """Raises Mistakes."""
        found: list[Mistake] = []
        values = _keys(type(self), said, (), found)
        if found:
            raise Mistakes(found)
        _fill(self, values)

    @classmethod
    def model_validate(cls, tree: object) -> Self:
        """The section in a tree of values, as YAML has it. Raises Mistakes."""
        found: list[Mistake] = []
        section: Self = _section(cls, tree, (), found)
        if found:
            raise Mistakes(found)
        return section

    @classmethod
    def model_construct(cls, **values: Any) -> Self:
        """A section with these values and the other defaults; nothing is checked."""
        section = cls.__new__(cls)
        _fill(section, values)
        return section

    @property
    def model_fields_set(self) -> frozenset[str]:
        """The keys that were written, whatever their value."""
        said: frozenset[str] = self.__dict__["_said"]
        return said

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """The same with other values, which are not checked."""
        said = {name: value for name, value in self.__dict__.items() if name in self.model_fields_set}
        return type(self).model_construct(**{**said, **update})

    def model_dump(self, *, exclude_none: bool = False) -> dict[str, Any]:
        """The values by key, sections as such dicts too."""
        return {
            name: _dumped(self.__dict__[name], exclude_none)
            for name in self.model_fields
            if not (exclude_none and self.__dict__[name] is None)
        }

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.__dict__[name] for name in self.model_fields)))

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self._values().items())
        return f"{type(self).__name__}({said})"

    def _values(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.model_fields if name in self.__dict__}


def _fill(section: Section, values: dict[str, Any]) -> None:
    defaults = {name: key.default for name, key in section.model_fields.items() if not key.is_required()}
    section.__dict__.update(defaults | values, _said=frozenset(values))


def _dumped(value: Any, exclude_none: bool) -> Any:
    if isinstance(value, Section):
        return value.model_dump(exclude_none=exclude_none)
    if isinstance(value, tuple):
        return tuple(_dumped(item, exclude_none) for item in value)
    if isinstance(value, Mapping):
        return {key: _dumped(item, exclude_none) for key, item in value.items()}
    return value


def _noted(kind: Any) -> tuple[Any, ...]:
    """A type, and after it the notes of `Annotated`."""
    return get_args(kind) if get_origin(kind) is Annotated else (kind,)


def _read(kind: Any, written: Any, path: Path, found: list[Mistake]) -> Any:
    """A value of this type with its notes, or _WRONG after its mistakes were added to `found`."""
    kind, *notes = _noted(kind)
    try:
        value = written
        for note in reversed(notes):
            if isinstance(note, Before):
                value = note.call(value)
        value = _bare(kind, value, path, found)
        if value is _WRONG:
            return _WRONG
        for note in notes:
            if isinstance(note, Limits) and not note.hold(value):
                found.append(Mistake(path, NOT_TAKEN, written))
                return _WRONG
            if isinstance(note, After):
                value = note.call(value)
    except ValueError as error:
        found.append(Mistake(path, REFUSED, written, str(error)))
        return _WRONG
    return value


def _bare(kind: Any, value: Any, path: Path, found: list[Mistake]) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):  # of a type and None: no key has another
        (one,) = (each for each in get_args(kind) if each is not types.NoneType)
        return None if value is None else _read(one, value, path, found)
    if origin is tuple and isinstance(value, tuple):
        item = get_args(kind)[0]
        items = tuple(_read(item, each, (*path, at), found) for at, each in enumerate(value))
        return _WRONG if any(each is _WRONG for each in items) else items
    if origin is Mapping and isinstance(value, Mapping):
        name, item = get_args(kind)
        pairs = [
            (_read(name, key, (*path, key, KEY_MARK), found), _read(item, each, (*path, key), found))
            for key, each in value.items()
        ]
        return _WRONG if any(each is _WRONG for pair in pairs for each in pair) else dict(pairs)
    if isinstance(kind, type) and issubclass(kind, Section):
        return _section(kind, value, path, found)
    taken = _WRONG
    if origin is Literal:
        taken = value if isinstance(value, str) and value in get_args(kind) else _WRONG
    elif kind in (str, bool):
        taken = value if isinstance(value, kind) else _WRONG
    elif kind in (int, float):
        taken = _number(kind, value)
    if taken is _WRONG:
        found.append(Mistake(path, NO_TEXT if kind is str else NOT_TAKEN, value))
    return taken


def _section(kind: type[Section], value: Any, path: Path, found: list[Mistake]) -> Any:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        found.append(Mistake(path, NOT_TAKEN, value))
        return _WRONG
    before = len(found)
    values = _keys(kind, value, path, found)
    return kind.model_construct(**values) if len(found) == before else _WRONG


def _keys(kind: type[Section], tree: Mapping[Any, Any], path: Path, found: list[Mistake]) -> dict[str, Any]:
    """The values of a section's keys; useless if there were mistakes."""
    values = {}
    for name, key in kind.model_fields.items():
        if name in tree:
            values[name] = _read(kind._kinds[name], tree[name], (*path, name), found)  # noqa: SLF001  of this module
        elif key.is_required():
            found.append(Mistake((*path, name), MISSING_KEY, None))
    found += [Mistake((*path, name), UNKNOWN_KEY, tree[name]) for name in tree if name not in kind.model_fields]
    return values


def _number(kind: type, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _WRONG
    if kind is int:
        return value if isinstance(value, int) else _WRONG
    try:
        number = float(value)
    except OverflowError:
        return _WRONG
    return number if math.isfinite(number) else _WRONG
