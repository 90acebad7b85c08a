"""The knowledge of a learner as plain numbers, which may be written to a file, and are checked when they come back. Pure.

A learner names its lasting attributes in `KEPT`, each with its shape. `state` copies them; `checked` reads such a copy
against the same shapes, and changes nothing; `take` puts what was checked into force. What belongs to one process
(instants, requests in flight) has no shape here. It refuses to know what the numbers mean, and where they are kept.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from math import inf, isfinite
from typing import Any, ClassVar, Protocol


LONGEST_TEXT = 256
MOST_ITEMS = 4096


class OddStateError(ValueError):
    """The place of what is odd in a state, and what it is."""


class Shape(Protocol):
    """How one value is written and read. `read` raises OddStateError."""

    plain: bool
    """Whether a value is written as it is, so that a list of such values is copied as a whole."""

    def written(self, value: Any) -> Any: ...

    def read(self, told: Any, place: str) -> Any: ...


class Amount:
    """A finite number of at least `low` (0 unless told); with `whole` an integer."""

    plain = True

    def __init__(self, low: float = 0.0, *, whole: bool = False) -> None:
        self._low, self._whole = low, whole

    def written(self, value: float) -> float:
        return value

    def read(self, told: Any, place: str) -> float:
        known = (int,) if self._whole else (int, float)
        if isinstance(told, bool) or not isinstance(told, known):
            raise OddStateError(f"{place}: {_shown(told)} is no {'whole ' if self._whole else ''}number")
        # A whole number may be too large for a float, which is what it is used as.
        if (isinstance(told, int) and abs(told) > 1 << 60) or not isfinite(told) or told < self._low:
            raise OddStateError(f"{place}: {_shown(told)} is not a number from {self._low:g} on")
        return told if self._whole else float(told)


class Past:
    """An instant of an earlier process: it is written as null, and read as long ago."""

    plain = False

    def written(self, _value: float) -> None:
        return None

    def read(self, told: Any, place: str) -> float:
        if told is not None:
            raise OddStateError(f"{place}: {_shown(told)} is not null")
        return -inf


class Text:
    """A label value."""

    plain = True

    def written(self, value: str) -> str:
        return value

    def read(self, told: Any, place: str) -> str:
        if not isinstance(told, str) or not 0 < len(told) <= LONGEST_TEXT:
            raise OddStateError(f"{place}: {_shown(told)} is no text of 1 to {LONGEST_TEXT} characters")
        return told


class Maybe:
    """A value, or None."""

    plain = False

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def written(self, value: Any) -> Any:
        return None if value is None else self._shape.written(value)

    def read(self, told: Any, place: str) -> Any:
        return None if told is None else self._shape.read(told, place)


class Row:
    """A few values, each with a shape of its own. `make` takes them as arguments, and `split` takes them apart again.

    Where `split` is told, they are the numbers of a sum, and not all of them are 0.
    """

    def __init__(
        self,
        *shapes: Shape,
        make: Callable[..., Any] = lambda *values: values,
        split: Callable[[Any], Sequence[Any]] | None = None,
    ) -> None:
        self._shapes, self._make, self._split = shapes, make, split
        self.plain = split is None and all(shape.plain for shape in shapes)

    def written(self, value: Any) -> list[Any]:
        values = value if self._split is None else self._split(value)
        return [shape.written(each) for shape, each in zip(self._shapes, values, strict=True)]

    def read(self, told: Any, place: str) -> Any:
        items = _items(told, place, len(self._shapes))
        if len(items) != len(self._shapes):
            raise OddStateError(f"{place}: {len(items)} values in place of {len(self._shapes)}")
        pairs = zip(self._shapes, items, strict=True)
        found = [shape.read(each, f"{place}[{at}]") for at, (shape, each) in enumerate(pairs)]
        if self._split is not None and not any(found):
            raise OddStateError(f"{place}: all are 0")
        return self._make(*found)


class Many:
    """A list of values of one shape, at most `most`; `make` takes the list."""

    plain = False

    def __init__(self, shape: Shape, most: int = MOST_ITEMS, make: Callable[[list[Any]], Any] = list) -> None:
        self._shape, self._most, self._make = shape, most, make

    def written(self, value: Any) -> list[Any]:
        return list(value) if self._shape.plain else [self._shape.written(each) for each in value]

    def read(self, told: Any, place: str) -> Any:
        items = _items(told, place, self._most)
        return self._make([self._shape.read(each, f"{place}[{at}]") for at, each in enumerate(items)])


class Table:
    """A mapping, written as a list of pairs; at most `most` of them, and no key twice."""

    plain = False

    def __init__(self, key: Shape, value: Shape, most: int = MOST_ITEMS) -> None:
        self._key, self._value, self._most = key, value, most

    def written(self, value: Mapping[Hashable, Any]) -> list[Any]:
        return [[self._key.written(key), self._value.written(each)] for key, each in value.items()]

    def read(self, told: Any, place: str) -> dict[Hashable, Any]:
        row = Row(self._key, self._value)
        pairs = [row.read(each, f"{place}[{at}]") for at, each in enumerate(_items(told, place, self._most))]
        found = dict(pairs)
        if len(found) != len(pairs):
            raise OddStateError(f"{place}: a key stands there twice")
        return found


class Inner:
    """Another learner, which is made anew when it is read. `make`: a new one."""

    plain = False

    def __init__(self, make: "Callable[[], Learner]") -> None:
        self._make = make

    def written(self, value: "Learner") -> dict[str, Any]:
        return value.state()

    def read(self, told: Any, place: str) -> "Learner":
        made = self._make()
        made.take(made.checked(told, place))
        return made


class Learner:
    """Something that learns. Its state is what it has learned, and no more."""

    __slots__ = ()
    KEPT: ClassVar[Mapping[str, Shape]] = {}
    """Attribute to its shape."""
    SINCE: ClassVar[Sequence[str]] = ()
    """Attributes that older states lack: they stay as they are then."""

    def state(self) -> dict[str, Any]:
        """A copy of all that was learned, in values that JSON knows."""
        *_, told = self.slices()
        return told

    def slices(self) -> Iterator[dict[str, Any]]:
        """The same, more complete with each slice: a table is copied value by value. Complete at the end."""
        told: dict[str, Any] = {}
        for name, shape in self.KEPT.items():
            value = getattr(self, name)
            if isinstance(shape, Table):
                rows = told[_name(name)] = list[Any]()
                for item in list(value.items()):
                    rows += shape.written(dict([item]))
                    yield told
            else:
                told[_name(name)] = shape.written(value)
        yield told

    def restore(self, state: Any) -> None:
        """Know what was learned when this state was written. Raises OddStateError, and changes nothing then."""
        self.take(self.checked(state, type(self).__name__))

    def checked(self, state: Any, place: str) -> dict[str, Any]:
        """The values of this state by attribute. Raises OddStateError."""
        if not isinstance(state, dict):
            raise OddStateError(f"{place}: {_shown(state)} is no mapping")
        names = {_name(name) for name in self.KEPT}
        odd = sorted(
            ({str(name) for name in state} ^ names) - {_name(name) for name in self.SINCE if _name(name) not in state}
        )
        if odd:
            raise OddStateError(f"{place}.{odd[0][:LONGEST_TEXT]}: {'missing' if odd[0] in names else 'unknown'}")
        found = {
            name: shape.read(state[_name(name)], f"{place}.{_name(name)}")
            for name, shape in self.KEPT.items()
            if _name(name) in state
        }
        problem = self.problem(found)
        if problem is not None:
            raise OddStateError(f"{place}: {problem}")
        return found

    def take(self, found: Mapping[str, Any]) -> None:
        """Put what was checked into force."""
        for name, value in found.items():
            setattr(self, name, value)

    def problem(self, _found: Mapping[str, Any]) -> str | None:
        """The oddness of values that are each in order; None if there is none."""
        return None


def _name(attribute: str) -> str:
    return attribute.lstrip("_")


def _items(told: Any, place: str, most: int) -> Sequence[Any]:
    if not isinstance(told, list | tuple):
        raise OddStateError(f"{place}: {_shown(told)} is no list")
    if len(told) > most:
        raise OddStateError(f"{place}: {len(told)} values, more than {most}")
    return told


def _shown(told: Any) -> str:
    return repr(told)[:40]
