"""Sections are read strictly, with every mistake at once, and say what they accept and which values are secrets."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from sidecar.config.schema import WHOLE_CONFIG, EngineConfig, LaneRule
from sidecar.config.section import (
    KEY_MARK,
    MISSING_KEY,
    NO_KEYS,
    NO_TEXT,
    NOT_TAKEN,
    REFUSED,
    TWICE,
    UNKNOWN_KEY,
    WRONG,
    Accepted,
    After,
    Before,
    Check,
    Limits,
    Mistake,
    Path,
    Section,
    dotted,
)
from sidecar.config.values import is_secret
from tests.support.configs import section_of


def positive(value: int) -> None:
    if value <= 0:
        raise ValueError("is not positive")


class Inner(Section):
    size: Annotated[int, Check(positive)]
    share: Annotated[float, Limits(ge=0, le=1)] = 0.5


class Outer(Section):
    inner: Inner | UnsetType | None = UNSET
    names: Annotated[tuple[str, ...], Before(lambda one: (one,) if isinstance(one, str) else one)] = ()
    by_name: Annotated[Mapping[Annotated[str, After(str.lower)], Inner], Limits(max_length=2)] = NO_KEYS


def test_a_section_has_what_was_written_and_the_defaults_of_the_rest() -> None:
    """A copy has another value too. Nothing in it can be changed."""
    outer = section_of(Outer, {"inner": {"size": 3, "share": 1}, "names": "a"})

    assert outer == Outer(inner=Inner(size=3, share=1.0), names=("a",))
    assert replace(outer, names=("b",)) == Outer(inner=Inner(size=3, share=1.0), names=("b",))
    assert (section_of(Outer, {}).inner, section_of(Outer, {"inner": None}).inner) == (UNSET, None)
    with pytest.raises(AttributeError, match="immutable"):
        outer.names = ()


def test_every_mistake_is_found_with_its_path() -> None:
    """Right values beside a mistake are read all the same, with WRONG for the rest."""
    tree = {
        "inner": {"size": 0, "share": 2, "shape": 1},
        "names": ("a", 1),
        "by_name": {"a": {}, 1: 5, "A": {"size": 1}},
    }

    found: list[Mistake] = []
    read = Accepted(Outer).read(tree, (), found)

    assert [each[:2] for each in found] == [
        (("inner", "size"), REFUSED),
        (("inner", "share"), NOT_TAKEN),
        (("inner", "shape"), UNKNOWN_KEY),
        (("names", 1), NO_TEXT),
        (("by_name", "a", "size"), MISSING_KEY),
        (("by_name", 1, KEY_MARK), NO_TEXT),
        (("by_name", 1), NOT_TAKEN),
        (("by_name", "A"), TWICE),
    ]
    assert (read.names[0], read.by_name["a"]) == ("a", Inner(size=1))
    assert [read.names[1] is WRONG, read.inner.size is WRONG, read.inner is WRONG] == [True, True, False]


NUMBERS = (0, 1, 2, 0.5, -1, 10**400, float("nan"), float("inf"))
ODD: tuple[Any, ...] = (*NUMBERS, True, None, "1", "", (), {}, b"")


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        (int, (0, 1, 2, -1, 10**400)),
        (float, (0.0, 1.0, 2.0, 0.5, -1.0)),
        (bool, (True,)),
        (str, ("1", "")),
        (str | None, (None, "1", "")),
        (Literal["1"], ("1",)),
        (tuple[str, ...], ((),)),
        (Mapping[str, str], ({},)),
        (Annotated[int, Limits(gt=0, le=1)], (1,)),
        (Annotated[str, Limits(min_length=1)], ("1",)),
    ],
)
def test_no_value_is_converted_but_a_whole_number_where_any_may_stand(kind: Any, taken: tuple[object, ...]) -> None:
    """Yes and no are no numbers, and what is not finite is none either."""
    found: list[Mistake] = []
    read = [Accepted(kind).read(value, (), found) for value in ODD]
    right = [value for value in read if value is not WRONG]

    assert [(type(value), value) for value in right] == [(type(value), value) for value in taken]
    assert len(found) == len(ODD) - len(taken)


@pytest.mark.parametrize("odd", [lambda: WRONG == 1, lambda: WRONG != 1, lambda: WRONG > 1, lambda: bool(WRONG.a.b)])
def test_what_is_wrong_is_in_no_relation_to_anything(odd: Any) -> None:
    """So that a check of one value against another needs to ask for neither."""
    assert odd() is False
    assert [*WRONG.items()] == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("lanes", "rules", 0, "lane"), "lanes.rules[0].lane"),
        (("lanes", "rules", 2, "headers", "X-Team", KEY_MARK), "lanes.rules[2].headers.X-Team"),
        ((), ""),
    ],
)
def test_a_path_is_written_as_a_reader_of_the_file_would(path: Path, text: str) -> None:
    """The mark of a mistake in a mapping's key is left out."""
    assert dotted(path) == text


DURATION = "a number above 0 and at most 86400, or with a unit: 500ms, 2s, 5m, 1h or 1m30s"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (("engine", "connect_timeout_seconds"), DURATION),
        (("proxy", "max_in_flight"), "a whole number at least 1 and at most 100000"),
        (("engine", "estimate"), "one of: auto, never"),
        (("engine", "scrape_llama_cpp"), "true or false"),
        (("engine", "metrics_port"), "a whole number at least 1 and at most 65535"),
        (("lanes", "rules", 3, "models"), "a list of 1 to 64, each text; a * at its end matches any rest"),
        (("objectives", "chat", KEY_MARK), "a declared lane"),
        (("prompt_buckets",), "a mapping with keys out of: edges"),
    ],
)
def test_a_key_says_what_it_accepts(path: Path, said: str) -> None:
    """Bounds and words are those of the schema, also behind `| None`."""
    assert str(WHOLE_CONFIG.at(path)) == said


def test_sections_are_found_by_their_path() -> None:
    """A value is no section; a path that leads nowhere finds nothing."""
    found = [WHOLE_CONFIG.at(path) for path in (("engine",), ("lanes", "rules", 3), ("engine", "url"))]

    assert [each.section for each in found if each is not None] == [EngineConfig, LaneRule, None]
    assert [WHOLE_CONFIG.at(path) for path in (("engine", "url", "deeper"), ("nowhere",))] == [None, None]


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        (("lanes", "api_keys", "nightly"), True),
        (("lanes", "api_keys"), True),
        (("lanes",), True),
        (("engine", "url"), True),
        (("engine", "kind"), False),
        (("shutdown",), False),
        (("lanes", "rules", 0, "headers", "authorization"), True),
        (("lanes", "rules", 0, "headers", "x-tenant"), False),
    ],
)
def test_a_section_is_as_secret_as_its_most_secret_value(path: Path, secret: bool) -> None:
    """A wrong type may be the secret itself (`api_keys: sk-...`), so a message must not show it there either. A URL may hold a password."""
    assert is_secret(path, WHOLE_CONFIG) is secret
