"""Sections of a config: classes whose annotations state once what a file may hold. Reading, errors, flags and docs follow from them.

Knows the kinds of values that a config has: text, numbers, yes or no, words of a closed set, lists, mappings, and sections within
sections. Reading is strict, and finds every mistake at once: no value is converted, but a whole number where any number may stand.
It refuses to know files, places in them, and what a key means.
"""

import math
import re
import types
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from inspect import get_annotations
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from msgspec import Struct

from sidecar.config.written_durations import DURATION_FORMS, as_seconds


Path = tuple[str | int, ...]
"""Keys and list indexes from the root of a config to a value."""
KEY_MARK = "[key]"
"""Last step of the path of a mistake in a mapping's key."""
NO_KEYS: Mapping[Any, Any] = MappingProxyType({})
"""The default of a mapping."""
MISSING_KEY, UNKNOWN_KEY, TWICE, NO_TEXT = "missing", "unknown key", "twice", "no text"
REFUSED, NOT_TAKEN = "refused", "not taken"
"""The kinds of mistakes. A name of a mapping stands TWICE if it is read as another one. A value is REFUSED with a message, and NOT_TAKEN if it has a wrong type or lies outside its limits."""
_REQUIRED: Final = object()


class _Wrong:
    """Stands for a value that is wrong: no comparison with it holds, it has no items, and each part of it is wrong too."""

    def _never(self, _other: object) -> bool:
        return False

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _never
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __call__(self, *_: object) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return self


WRONG: Final[Any] = _Wrong()


class Before(NamedTuple):
    """A function that gets the value as written; it may replace it. Raises ValueError with the mistake."""

    call: Callable[[Any], Any]


class Check(NamedTuple):
    """A function that gets a value of the right type. Raises ValueError with the mistake."""

    call: Callable[[Any], object]


class Holds(NamedTuple):
    """A condition on a value of the right type, or the pattern of a whole text; and the mistake where it does not hold."""

    condition: Callable[[Any], object] | str
    mistake: str

    def call(self, value: Any) -> None:
        holds = re.fullmatch(self.condition, value) if isinstance(self.condition, str) else self.condition(value)
        if not holds:
            raise ValueError(self.mistake)


class After(NamedTuple):
    """A function that gets a value of the right type, and returns the one to take. Raises ValueError with the mistake."""

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


class Description(NamedTuple):
    """Words for the values that a key accepts, where its type and limits do not give them."""

    text: str
    secret: bool = False
    """The value must not be shown, even if it is wrong."""
    url: bool = False
    """It is secret for its user, password and query alone, which are left out where a right one is shown."""


class Flag(NamedTuple):
    """The key is a flag too. `value`: its placeholder in the help; None for a flag without a value. `name`: if it is not the key's."""

    value: str | None
    help: str
    name: str = ""


class Mark(NamedTuple):
    """A property that keys have or have not."""

    name: str


class Mistake(NamedTuple):
    """One mistake in a tree of values."""

    path: Path
    kind: str
    value: object
    """The value as written; None for a key that is missing."""
    message: str = ""


if TYPE_CHECKING:
    _Frozen = Struct  # to mypy, because a protocol that names an attribute takes no frozen one
else:

    class _Frozen(Struct, frozen=True):
        pass


class Section(_Frozen):
    """One section of a config, frozen. Its constructor takes values of the right types and checks none; `Accepted.read` does."""


class Accepted:
    """The values that may stand at a place: their type, taken apart, with the notes of `Annotated`."""

    def __init__(self, annotation: Any, default: object = _REQUIRED) -> None:
        self.default = default
        self.notes: list[Any] = []
        self._may_be_none = False
        while (origin := get_origin(annotation)) in (Annotated, Union, types.UnionType):
            annotation, *more = get_args(annotation)
            if origin is Annotated:
                self.notes += more
            else:  # of a type with None or UNSET: no key has another
                self._may_be_none |= types.NoneType in more
        self.type: Any = origin or annotation
        parts = get_args(annotation)
        self.words: tuple[str, ...] = parts if self.type is Literal else ()
        """Those of a closed set."""
        self.parts = tuple(Accepted(part) for part in parts if part is not ... and self.type is not Literal)
        """The kind of a list's items; those of a mapping's keys and values."""
        self.section: type[Section] | None = (
            annotation if isinstance(annotation, type) and issubclass(annotation, Section) else None
        )

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED

    @property
    def keys(self) -> Mapping[str, "Accepted"]:
        """Those of a section; any other kind has none."""
        return NO_KEYS if self.section is None else keys_of(self.section)

    @property
    def secret(self) -> bool:
        """Whether the value, or one inside it, must not be shown. A wrong type may be the secret itself (`api_keys: sk-...`)."""
        inside = (*self.parts, *self.keys.values())
        return any(isinstance(note, Description) and note.secret for note in self.notes) or any(
            kind.secret for kind in inside
        )

    @property
    def hidden(self) -> bool:
        """Whether no part of a right value, or of a list's items, is shown."""
        own = any(isinstance(note, Description) and note.secret and not note.url for note in self.notes)
        return own or (self.type is tuple and self.parts[0].hidden)

    def at(self, path: Path) -> "Accepted | None":
        """The kind of the value at a path below this one; None if the path leads to nothing."""
        found: Accepted | None = self
        for step in path:
            if found is None:
                break
            if found.section is not None:
                found = found.keys.get(str(step))
            elif found.parts:
                # The path of a key's own error is (..., key, KEY_MARK): the mark steps from the value's kind to the key's.
                found = found.parts[0 if path[-1] == KEY_MARK and path[-2] == step else -1]
            elif step != KEY_MARK:
                found = None
        return found

    # --- reading ---------------------------------------------------------------------------------------------------------

    def read(self, written: Any, path: Path, found: list[Mistake]) -> Any:
        """The value, with WRONG for all that is wrong in it after its mistake was added to `found`; WRONG is taken without one."""
        before = len(found)
        try:
            value = written
            for note in reversed(self.notes):
                if isinstance(note, Before) and value is not WRONG:
                    value = note.call(value)
            if value is WRONG or (value is None and self._may_be_none):
                return value
            value = self._bare(value, path, found)
            for note in self.notes if len(found) == before else ():
                if isinstance(note, Limits) and not note.hold(value):
                    found.append(Mistake(path, NOT_TAKEN, written))
                    return WRONG
                if isinstance(note, Check | Holds | After):
                    changed = note.call(value)
                    value = changed if isinstance(note, After) else value
        except ValueError as error:
            found.append(Mistake(path, REFUSED, written, str(error)))
            return WRONG
        return value

    def _bare(self, value: Any, path: Path, found: list[Mistake]) -> Any:
        taken = WRONG
        if self.section is not None:
            if isinstance(value, Mapping):
                return self.section(**self._keys(value, path, found))
            taken = value if isinstance(value, self.section) else WRONG
        elif self.parts:
            if isinstance(value, self.type):
                return self._items(value, path, found)
        elif self.type is Literal:
            taken = value if isinstance(value, str) and value in self.words else WRONG
        elif self.type in (int, float):
            taken = self._number(value)
        elif isinstance(value, self.type):
            taken = value
        if taken is WRONG:
            found.append(Mistake(path, NO_TEXT if self.type is str else NOT_TAKEN, value))
        return taken

    def _items(self, value: Any, path: Path, found: list[Mistake]) -> Any:
        item = self.parts[-1]
        items: dict[Any, Any] = {}
        for key, each in value.items() if self.type is Mapping else enumerate(value):
            name = self.parts[0].read(key, (*path, key, KEY_MARK), found) if self.type is Mapping else key
            if name is not WRONG and name in items:
                found.append(Mistake((*path, key), TWICE, key))
            items[name] = item.read(each, (*path, key), found)
        items.pop(WRONG, None)
        return items if self.type is Mapping else tuple(items.values())

    def _number(self, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return WRONG
        if self.type is int:
            return value if isinstance(value, int) else WRONG
        try:
            number = float(value)
        except OverflowError:  # of a whole number with hundreds of digits
            return WRONG
        return number if math.isfinite(number) else WRONG

    def _keys(self, tree: Mapping[Any, Any], path: Path, found: list[Mistake]) -> dict[str, Any]:
        values = {}
        for name, kind in self.keys.items():
            if name in tree:
                values[name] = kind.read(tree[name], (*path, name), found)
            elif kind.required:
                values[name] = WRONG
                found.append(Mistake((*path, name), MISSING_KEY, None))
        found += [Mistake((*path, name), UNKNOWN_KEY, tree[name]) for name in tree if name not in self.keys]
        return values

    # --- words -----------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        """The accepted values: "a number above 0 and at most 86400", "one of: auto, never"."""
        for note in self.notes:
            if isinstance(note, Description):
                return note.text
        if self.words:
            return f"one of: {', '.join(self.words)}"
        if self.section is not None:
            return f"a mapping with keys out of: {', '.join(self.keys)}"
        limits = next((note for note in self.notes if isinstance(note, Limits)), Limits())
        if self.parts:
            size = "" if limits.max_length is None else f" of {limits.min_length or 0} to {limits.max_length}"
            *names, item = self.parts
            return f"a mapping{size} from {names[0]} to {item}" if names else f"a list{size}, each {item}"
        if self.type not in (int, float):
            return "true or false" if self.type is bool else "text"
        low = (
            f" at least {limits.ge}"
            if limits.ge is not None
            else f" above {limits.gt}"
            if limits.gt is not None
            else ""
        )
        high = f"{' and' if low else ''} at most {limits.le}" if limits.le is not None else ""
        unit = f", or with a unit: {DURATION_FORMS}" if Before(as_seconds) in self.notes else ""
        return f"a {'whole ' if self.type is int else ''}number{low}{high}{unit}"


@cache
def keys_of(section: type[Section]) -> Mapping[str, Accepted]:
    """The keys of a section, those of its bases first."""
    annotations = {name: of for base in reversed(section.__mro__) for name, of in get_annotations(base).items()}
    names, defaults = section.__struct_fields__, section.__struct_defaults__
    required = (_REQUIRED,) * (len(names) - len(defaults))
    return {
        name: Accepted(annotations[name], default) for name, default in zip(names, (*required, *defaults), strict=True)
    }


def dotted(path: Path) -> str:
    """A path as text: `lanes.rules[0].lane`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path if step != KEY_MARK)
    return "".join(steps).removeprefix(".")
