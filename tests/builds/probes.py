"""Probes of all that the compiled files of this project do with bytes, numbers, text, loops, errors and classes, one small function each.

Those that are one expression stand in expressions.txt, which uses the names of this file. test_differences.py compiles both as the wheel is
compiled, calls each function with all its cases on both builds, and compares what they give. The functions are as odd as what they probe;
ruff leaves this file alone.
"""

import copy
import pickle
import struct
import weakref
from array import array
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from math import ceil, exp, floor, inf, log, log2, nan, sqrt
from typing import Any, ClassVar, Final, NamedTuple, TypeVar


F = TypeVar("F", bound=Callable[..., object])
PROBES: dict[str, tuple[Callable[..., object], list[tuple[Any, ...]]]] = {}
"""Each probe with the arguments of each of its calls."""

CHUNK: Final = b"%x\r\n%b\r\n"
LIMIT: Final = 3
changed = 0

TEXT = b"data: one\n\ndata: two\r\n\r\n"
BYTES = [b"", b"\n", b"a", b"a\n", b" ab ", TEXT, bytes(range(256))]
PLACES = [0, 1, 2, 3, 5, 24, 25, 256, 257, 1 << 40, -1, -2, -3, -24, -25, -257, -(1 << 40)]
HUGE = [2**53, 2**53 + 1, 2**61 - 1, 2**61, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64 + 1, 10**40]
INTS = [0, 1, 2, 3, 7, 10, 63, 64, 255, 1000, *HUGE]
SIGNED = [*INTS, *(-n for n in INTS)]
FLOATS = [
    *(0.0, -0.0, 0.1, 0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.7, -3.7, 1e-9, 1e16, 1e300, -1e300, 5e-324),
    *(-113.0, inf, -inf, nan),  # mypyc returns -113.0 for an error
]
TEXTS = [
    "",
    "a",
    " a ",
    "AbC",
    "\x85x\u2003",
    "ÄÖ",
    "straße",
    "x" * 70,
    chr(0xD800),
    "½²٣",
    "12",
    "1_0",
    " 7 ",
    "a,b,,c",
    "\U0001f600z",
]
NAMES = ["", "a", "ab", " ", ",", "é", "\u2003", "\U0001f600"]


def probe(*cases: tuple[Any, ...]) -> Callable[[F], F]:
    def add(function: F) -> F:
        PROBES[function.__name__] = (function, list(cases))
        return function

    return add


def each(*values: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Every tuple with one of each."""
    rows: list[tuple[Any, ...]] = [()]
    for some in values:
        rows = [(*row, value) for row in rows for value in some]
    return rows


def ends(size: int, at: int) -> int:
    """The index that a slice makes of `at`."""
    return max(0, at + size) if at < 0 else min(at, size)


IN_ORDER = [(b, i, j) for b, i, j in each(BYTES, PLACES, PLACES) if ends(len(b), i) <= ends(len(b), j)]
TURNED = [(b, i, j) for b, i, j in each(BYTES, PLACES, PLACES) if ends(len(b), i) > ends(len(b), j)]


# --- bytes ---------------------------------------------------------------------------------------------------------------


@probe(*TURNED)
def a_slice_of_a_view_that_ends_before_it_begins(data: bytes, begin: int, end: int) -> bytes:
    with memoryview(data) as view:
        return bytes(view[begin:end])


@probe(*each(BYTES))
def a_buffer_filled(data: bytes) -> object:
    held = bytearray()
    held += data
    held += b"\r\n"
    held.extend(data[:1])
    first, size = held[0], len(held)
    del held[:1], held[3:]
    kept = bytes(held)
    head = held[:2] == b"a\n"
    held.clear()
    return kept, first, size, head, not held, held.strip()


@probe(*each(BYTES, [b"", b"x"]))
def bytes_packed(data: bytes, more: bytes) -> object:
    packed = struct.pack("!IH3s", len(data), len(more), data)
    return packed, struct.unpack("!IH3s", packed), struct.unpack_from("!I", packed, 0)[0]


# --- numbers -------------------------------------------------------------------------------------------------------------


@probe((True,), (False,))
def a_bool_in_a_list_of_ints(flag: bool) -> object:
    counts: list[int] = [flag]
    return counts


@probe(*each(FLOATS))
def the_value_that_means_an_error(number: float) -> object:
    def itself() -> float:
        return number

    def two() -> tuple[float, int]:
        return number, -1

    return itself(), two(), Held(number).value


@probe((1.5,), (1e300,))
def floats_by_identity(number: float) -> bool:
    other = number
    return number is other


@probe(*each([0, 1, 5, 1000], [0, 3, 1000, 2**70]))
def numbers_bisected(number: int, other: int) -> object:
    row = array("d", [0.0, 1.0, 5.0])
    row[0] = number
    return bisect_left([1, 5, 1000], number), row[-1], row[1:5].tolist(), row.tolist(), other % 7


# --- loops and collections -------------------------------------------------------------------------------------------------


@probe((1,), (5,))
def a_loop_variable_after_its_range(size: int) -> int:
    i = -1
    for i in range(size):
        pass
    return i


@probe((0,), (-3,))
def a_loop_variable_after_an_empty_range(size: int) -> int:
    i = -1
    for i in range(size):
        pass
    return i


@probe((0,), (3,))
def a_loop_that_moves_its_own_variable(size: int) -> object:
    seen = []
    for i in range(size):
        i += 10
        seen.append(i)
    for i in range(size, 0, -1):
        seen.append(i)
    for place, value in enumerate(seen, 1):
        seen[place - 1] = value * place
    return seen, list(reversed(seen))


@probe(([1, 2, 3],), ([],))
def a_list_that_grows_in_its_loop(numbers: list[int]) -> object:
    seen = []
    for number in numbers:
        seen.append(number)
        if len(numbers) < 6:
            numbers.append(number + 10)
    return seen, numbers


@probe(([1, 2, 3, 4],), ([],))
def a_list_that_shrinks_in_its_loop(numbers: list[int]) -> object:
    seen = []
    for number in numbers:
        seen.append(number)
        numbers.remove(number)
    return seen, numbers


@probe(({1: 2, 3: 4},), ({},))
def a_dict_that_grows_in_its_loop(table: dict[int, int]) -> object:
    for key in table:
        table[key + 10] = 1
    return table


@probe(({1: 2, 3: 4},), ({},))
def a_dict_that_shrinks_in_its_loop(table: dict[int, int]) -> object:
    for key, _ in table.items():
        del table[key]
    return table


@probe(({1: 2, 3: 4, 5: 6},))
def a_dict_whose_values_change_in_its_loop(table: dict[int, int]) -> object:
    for key, value in table.items():
        table[key] = value + 1
    for value in table.values():
        table[1] += value
    return table, [key for key in list(table) if table.pop(key)]


@probe(({1: 2, 3: 4, 5: 6},))
def a_dict_whose_keys_are_exchanged_in_its_loop(table: dict[int, int]) -> object:
    for at, key in enumerate(table):
        if at > 20:
            break
        del table[key]
        table[key + 100] = 1
    return sorted(table)


@probe(({1, 2},), (set(),))
def a_set_that_grows_in_its_loop(members: set[int]) -> object:
    for member in members:
        members.add(member + 10)
    return members


@probe(([1, 2],), ([],))
def a_deque_that_grows_in_its_loop(numbers: list[int]) -> object:
    row = deque(numbers)
    for number in row:
        row.append(number)
    return row


@probe(*each([[], [1], [1, 2, 3]], [[], [4], [4, 5, 6]]))
def lists_of_one_length(left: list[int], right: list[int]) -> object:
    found = []
    for a, b in zip(left, right, strict=True):
        found.append(a * b)
    return found


@probe(*each([[], [3, 1, 2], [1, 1]], PLACES, PLACES))
def a_slice_of_a_list(numbers: list[int], begin: int, end: int) -> object:
    held = list(numbers)
    held[begin:end] = [7, 8]
    kept = list(numbers)
    del kept[begin:end]
    return (
        numbers[begin:end],
        tuple(numbers)[begin:end],
        numbers[::-1],
        numbers[:begin:-1],
        held,
        kept,
        "abc"[begin:end],
    )


@probe(*each([[], [3, 1, 2]], [0, 1, -1, 5, -5]))
def a_list_emptied(numbers: list[int], at: int) -> object:
    gone = numbers.pop(at)
    numbers.insert(at, 9)
    numbers.sort(key=lambda n: -n)
    return gone, numbers, sorted(numbers), numbers.index(9), numbers.count(9), numbers.pop()


@probe(*each([{}, {"a": 1}], ["a", "b"]))
def a_dict_used(table: dict[str, int], key: str) -> object:
    with suppress(KeyError):
        table[key] += 1
    table.setdefault(key, 5)
    many: dict[str, list[int]] = {}
    many.setdefault(key, []).append(1)
    many.setdefault(key, []).append(2)
    return (
        table.get("x"),
        table.pop("x", None),
        table,
        many,
        next(iter(table)),
        {**table, "z": 1} | {"y": 2},
        key in table,
        len(table),
    )


@probe(*each([[], [1], [1, 2, 3]]))
def an_ordered_dict_used(numbers: list[int]) -> object:
    row = OrderedDict((n, n) for n in numbers)
    if numbers:
        row.move_to_end(numbers[0])
    return row.popitem(last=False), [*row]


@probe(*each([[], [1], [1, 2, 3]]))
def a_list_unpacked(numbers: list[int]) -> object:
    first, *rest = numbers
    a, b, c = numbers
    return first, rest, a, b, c


@probe((1,), (3,))
def functions_made_in_a_loop(size: int) -> object:
    late: list[Any] = [lambda: i for i in range(size)]
    bound: list[Any] = [lambda i=i: i for i in range(size)]
    total = 0

    def add(n: int = LIMIT) -> int:
        nonlocal total
        total += n
        return total

    return [f() for f in late], [f() for f in bound], add(), add(n=1), total


@probe((5,), (0,), (12,))
def a_chain_of_comparisons(n: int) -> object:
    asked = []

    def at(value: int) -> int:
        asked.append(value)
        return value

    return at(1) < at(n) <= at(10) != at(3), asked, (m := n + 1) > 3, m


def kept_between_calls(
    value: int, *more: int, row: list[int] = [], flag: bool = True, share: float = 0.5, **named: int
) -> object:
    row.append(value)
    return list(row), more, flag, share, sorted(named.items())


@probe((0,), (1,), (2,), (None,), ("a",), ((1, 2),))
def a_match(value: object) -> object:
    match value:
        case 0:
            return "zero"
        case int() as n if n > 1:
            return n
        case (a, b):
            return a, b
        case str() | None:
            return "text or nothing"
        case _:
            return "other"


# --- errors and generators -------------------------------------------------------------------------------------------------


@probe(("return",), ("none",))
def what_a_finally_leaves(how: str) -> object:
    done: list[object] = []

    def inner() -> int:
        for i in range(3):
            try:
                done.append(i)
                if how == "return":
                    return i
            except ValueError as error:
                done.append(str(error))
                raise
            else:
                done.append("else")
            finally:
                done.append("finally")
        return -1

    return inner(), done


@probe(*each([True, False], [True, False]))
def an_error_in_a_finally(first: bool, second: bool) -> object:
    try:
        if first:
            raise ValueError("first")
    finally:
        if second:
            raise KeyError("second")
    return "none"


@probe(("second",))
def the_context_of_an_error_in_a_handler(text: str) -> object:
    try:
        try:
            raise ValueError("first")
        except ValueError:
            raise KeyError(text)
    except KeyError as error:
        return repr(error.__context__), error.__cause__, error.__suppress_context__


@probe(("second",))
def the_cause_of_an_error(text: str) -> object:
    try:
        try:
            raise ValueError("first")
        except ValueError as error:
            raise KeyError(text) from error
    except KeyError as error:
        return repr(error.__cause__)


@probe(("from None",))
def the_context_of_an_error_from_none(text: str) -> object:
    try:
        try:
            raise ValueError("first")
        except ValueError as error:
            raise KeyError(text) from None
    except KeyError as error:
        return error.__cause__, error.__suppress_context__


@probe(("v",), ("k",), ("b",), ("",))
def errors_by_kind(kind: str) -> object:
    seen: list[object] = []
    try:
        try:
            if kind == "v":
                raise ValueError(kind)
            if kind == "k":
                raise KeyError(kind)
            if kind == "b":
                raise BaseException(kind)
        except (ValueError, TypeError) as error:
            seen.append(error.args)
            raise
        except Exception:
            seen.append("exception")
        else:
            seen.append("else")
    except BaseException as error:
        seen.append(type(error).__name__)
        seen.append(error.__traceback__ is not None)
    return seen


def counted(done: list[str], size: int) -> Iterator[int]:
    try:
        for i in range(size):
            yield i
    except ValueError:
        done.append("error")
        yield -1
    finally:
        done.append("over")


@probe((0,), (1,), (3,))
def a_generator_read_to_its_end(size: int) -> object:
    done: list[str] = []
    return list(counted(done, size)), done, sum(counted(done, 3)), [*counted(done, 2)]


@probe(("close",), ("throw",), ("next",))
def a_generator_told(how: str) -> object:
    done: list[str] = []
    steps: Any = counted(done, 3)
    found = [next(steps)]
    if how == "close":
        steps.close()
    elif how == "throw":
        found.append(steps.throw(ValueError()))
    found += steps
    return found, done


@probe((3,))
def a_generator_left_alone(size: int) -> object:
    done: list[str] = []
    steps = counted(done, size)
    next(steps)
    del steps
    return done


def stops_within(steps: Iterator[int]) -> Iterator[int]:
    yield next(steps)
    yield next(steps)


def returned(size: int) -> Iterator[Any]:
    steps: Any = counted([], size)
    yield (yield from steps)


# --- classes -------------------------------------------------------------------------------------------------------------


class Held:
    """A class as the product's are."""

    __slots__ = ("_private", "__weakref__", "unset", "value")
    kind: Final = "held"

    def __init__(self, value: float) -> None:
        self.value = value
        self._private = value
        if value == 0.5:
            self.unset = 1

    @property
    def twice(self) -> float:
        return 2 * self.value

    def is_called(self) -> float:
        return self.calls()

    def calls(self) -> float:
        return self.value


class Heir(Held):
    def calls(self) -> float:
        return super().calls() + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Heir) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


def seen(value: Any) -> Any:
    """The value, of which mypyc knows no type."""
    return value


class Shared:
    level = 1
    known: ClassVar[int] = 1


@dataclass(frozen=True)
class Row:
    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list, compare=False)
    share: float = 0.5


@dataclass
class Open:
    size: int
    seconds: float = 0.0


class Pair(NamedTuple):
    first: int
    second: float | None = None


class Colour(Enum):
    RED = 1
    BLUE = 2


class Word(StrEnum):
    ONE = "one"
    TWO = "two"


@probe((0.5,), (1.0,), (-113.0,))
def an_object(value: float) -> object:
    held, heir = Held(value), Heir(value)
    return (
        held.is_called(),
        heir.is_called(),
        heir.twice,
        held.kind,
        isinstance(heir, Held),
        heir == Heir(value),
        heir in {heir},
        held == Held(value),
    )


@probe((2.0,))
def an_attribute_that_no_class_has(value: float) -> object:
    held: Any = Held(value)
    held.other = 1
    return held.other


@probe(("x",))
def a_text_for_an_attribute_that_is_a_number(value: Any) -> object:
    held = Held(1.0)
    held.value = value
    return held.value


@probe((3,))
def a_class_attribute_changed_later(level: int) -> object:
    shared, kind = Shared(), seen(Shared)
    kind.level = level
    was = shared.level
    kind.level = 1
    return was


@probe((1.0,))
def a_weak_reference_after_its_object(value: float) -> bool:
    held = Held(value)
    seen = weakref.ref(held)
    del held
    return seen() is None


@probe((1.0,))
def a_method_replaced_from_outside(value: float) -> float:
    setattr(Held, "calls", lambda self: 7.0)
    try:
        return Held(value).is_called()
    finally:
        delattr(Held, "calls")
        setattr(Held, "calls", lambda self: self.value)


def one() -> int:
    return 1


@probe((2,))
def a_function_replaced_from_outside(value: int) -> int:
    kept = globals()["one"]
    globals()["one"] = lambda: value
    try:
        return one()
    finally:
        globals()["one"] = kept


@probe((9,))
def a_constant_replaced_from_outside(value: int) -> int:
    globals()["LIMIT"] = value
    try:
        return LIMIT
    finally:
        globals()["LIMIT"] = 3


@probe((9,))
def a_variable_of_the_module(value: int) -> int:
    global changed
    changed = value
    globals()["changed"] += 1
    return changed


@probe(("a", 1), ("a", 3), ("", -1))
def a_frozen_dataclass(name: str, size: int) -> object:
    row, plain = Row(name, size), Row(name)
    plain.parts.append(1)
    return (
        row,
        row == plain,
        hash(row) == hash(plain),
        replace(row, size=7),
        row.parts,
        seen(Row).__match_args__,
        {row: 1}[Row(name, size)],
        row.share,
    )


@probe((3,))
def a_frozen_dataclass_written(size: int) -> object:
    row: Any = Row("a")
    row.size = size
    return row.size


@probe((3,))
def an_open_dataclass(size: int) -> object:
    row = Open(size)
    row.size += 1
    row.seconds = 2.5
    return row, row == Open(size + 1, 2.5), row.seconds


@probe((1, None), (2, 2.5))
def a_named_tuple(first: int, second: float | None) -> object:
    pair = Pair(first, second)
    a, b = pair
    return pair, pair._replace(first=9), a, b, pair == (first, second), pair[0], pair.second is None


@probe((1,), (2,))
def a_member_of_an_enum(value: int) -> object:
    colour = Colour(value)
    return (
        colour,
        colour is Colour.RED,
        colour.name,
        [*Colour],
        {Colour.RED: 1}.get(colour),
        f"{colour}",
        colour in (Colour.RED,),
    )


@probe(("one",), ("two",))
def a_member_that_is_text(value: str) -> object:
    word = Word(value)
    return (
        word,
        word == value,
        f"{word}",
        word in {"one": 1},
        str(word),
        word is Word.ONE,
        word + "!",
        [*Word],
        {"one": 1}.get(word),
    )


@probe((1.0,))
def an_object_copied(value: float) -> object:
    row = Row("a", 2)
    return copy.copy(row), copy.deepcopy(row)


@probe(([1, "a"],), (["a"],))
def a_list_whose_members_are_other(numbers: list[int]) -> object:
    for number in numbers:
        if number == 1:
            continue
        return number
    return None


@probe(((1, 2),), ((1.0, 2),))
def a_pair_by_identity(pair: tuple[int, int]) -> object:
    other = pair
    return pair is other, pair == other, pair[-1]


def deeper(depth: int) -> int:
    return 0 if depth == 0 else 1 + deeper(depth - 1)
