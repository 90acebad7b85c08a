"""Sections read as strictly as pydantic reads the same shapes, and find the same mistakes."""

import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.admin.web_config import WebFile
from sidecar.config.schema import Config
from sidecar.config.section import (
    MISSING_KEY,
    NO_KEYS,
    NO_TEXT,
    NOT_TAKEN,
    REFUSED,
    UNKNOWN_KEY,
    After,
    Before,
    Limits,
    Mistakes,
    Path,
    Section,
)


STRICT = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
KINDS = {"missing": MISSING_KEY, "extra_forbidden": UNKNOWN_KEY, "string_type": NO_TEXT, "value_error": REFUSED}
TWINS: dict[type[Section], type[pydantic.BaseModel]] = {}
Said = tuple[Path, str, str]


def positive(value: int) -> int:
    if value <= 0:
        raise ValueError("is not positive")
    return value


class Inner(Section):
    size: Annotated[int, After(positive)]
    share: Annotated[float, Limits(ge=0, le=1)] = 0.5


class Outer(Section):
    inner: Inner | None = None
    names: Annotated[tuple[str, ...], Before(lambda one: (one,) if isinstance(one, str) else one)] = ()
    by_name: Annotated[Mapping[str, Inner], Limits(max_length=2)] = NO_KEYS


def test_a_section_has_what_was_written_and_the_defaults_of_the_rest() -> None:
    """It says what was written, and a copy with another value too. Nothing in it can be changed."""
    outer = Outer.model_validate({"inner": {"size": 3, "share": 1}, "names": "a"})
    copy = outer.model_copy(update={"names": ("b",)})

    assert (outer.inner, outer.names, outer.by_name) == (Inner(size=3, share=1.0), ("a",), {})
    assert outer.model_dump() == {"inner": {"size": 3, "share": 1.0}, "names": ("a",), "by_name": {}}
    assert ({*outer.model_fields_set}, copy.names, copy.inner) == ({"inner", "names"}, ("b",), outer.inner)
    assert hash(Inner(size=3)) == hash(Inner.model_validate({"size": 3}))
    assert repr(Inner(size=3)) == "Inner(size=3, share=0.5)"
    with pytest.raises(AttributeError, match="frozen"):
        outer.names = ()


def test_every_mistake_is_found_with_its_path() -> None:
    tree = {"inner": {"size": 0, "share": 2, "shape": 1}, "names": [1], "by_name": {"a": {}, 1: 5}}

    with pytest.raises(Mistakes) as raised:
        Outer.model_validate(tree)

    assert [each[:2] for each in raised.value.found] == [
        (("inner", "size"), REFUSED),
        (("inner", "share"), NOT_TAKEN),
        (("inner", "shape"), UNKNOWN_KEY),
        (("names",), NOT_TAKEN),
        (("by_name", "a", "size"), MISSING_KEY),
        (("by_name", 1, "[key]"), NO_TEXT),
        (("by_name", 1), NOT_TAKEN),
    ]


# --- beside pydantic -----------------------------------------------------------------------------------------------------


def twin(section: type[Section]) -> type[pydantic.BaseModel]:
    """The same shape as a model of pydantic."""
    if section in TWINS:
        return TWINS[section]
    keys: dict[str, Any] = {}
    for name, key in section.model_fields.items():
        kind = _twin_of(Annotated[key.annotation, *key.metadata] if key.metadata else key.annotation)
        default = (
            None if isinstance(key.default, Section) else dict(key.default) if key.default is NO_KEYS else key.default
        )
        keys[name] = (kind, ...) if key.is_required() else (kind, default)
    TWINS[section] = pydantic.create_model(section.__name__, __config__=STRICT, **keys)
    return TWINS[section]


def _twin_of(kind: Any) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return Annotated[_twin_of(parts[0]), *map(_note, parts[1:])]
    if origin in (Union, types.UnionType):
        return Union[tuple(map(_twin_of, parts))]  # noqa: UP007  of a tuple
    if origin is tuple:
        return tuple[_twin_of(parts[0]), ...]  # type: ignore[misc]  # a type made at run time
    if origin is Mapping:
        return Mapping[_twin_of(parts[0]), _twin_of(parts[1])]  # type: ignore[misc]  # types made at run time
    return twin(kind) if isinstance(kind, type) and issubclass(kind, Section) else kind


def _note(note: object) -> object:
    if isinstance(note, Before):
        return pydantic.BeforeValidator(note.call)
    if isinstance(note, After):
        return pydantic.AfterValidator(note.call)
    if isinstance(note, Limits):
        return pydantic.Field(**{name: limit for name, limit in note._asdict().items() if limit is not None})
    return note


KEYS = st.text(max_size=3) | st.integers(-9, 9)
WORDS = ("", "a", "a b", "none", "other", "99 %", "1s", ":1", "127.0.0.1:80", "http://a:1", "/a", "x-a", "*", "f" * 64)
NUMBERS = (0, 1, 2, 0.5, 0.9, 1e9, -1, 10**400, 2**31, float("nan"), float("inf"))
ODD: st.SearchStrategy[Any] = st.sampled_from((*WORDS, *NUMBERS, None, True, (), [], {}, b""))


def trees(kind: Any) -> st.SearchStrategy[Any]:
    """Values for a type, most of them right in part."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return trees(parts[0])
    if origin in (Union, types.UnionType):
        return st.one_of(*map(trees, parts))
    if origin is Literal:
        return st.sampled_from(parts) | ODD
    if origin is tuple:
        return ODD | st.lists(trees(parts[0]), max_size=2)
    if origin is Mapping:
        return ODD | st.dictionaries(st.sampled_from(WORDS) | KEYS, trees(parts[1]), max_size=2)
    if isinstance(kind, type) and issubclass(kind, Section):
        needed = {name: trees(key.annotation) for name, key in kind.model_fields.items() if key.is_required()}
        more = [*(name for name in kind.model_fields if name not in needed), "unknown"]
        chosen = st.lists(st.sampled_from(more), max_size=2, unique=True)
        whole = chosen.flatmap(
            lambda names: st.fixed_dictionaries(
                needed
                | {name: trees(kind.model_fields[name].annotation) if name != "unknown" else ODD for name in names}
            )
        )
        return st.one_of(whole, whole, whole, st.fixed_dictionaries({}, optional=needed), ODD)
    return {str: st.sampled_from(WORDS), bool: st.booleans()}.get(kind, st.sampled_from(NUMBERS)) | ODD


def read_by_section(section: type[Section], tree: object) -> dict[str, Any] | set[Said]:
    try:
        read = section.model_validate(tree)
    except Mistakes as mistakes:
        return {(each.path, each.kind, each.message) for each in mistakes.found}
    return {name: value for name, value in read.model_dump().items() if name in read.model_fields_set}


def read_by_pydantic(section: type[Section], tree: object) -> dict[str, Any] | set[Said]:
    try:
        read = twin(section).model_validate(tree)
    except pydantic.ValidationError as error:
        return {
            (each["loc"], KINDS.get(each["type"], NOT_TAKEN), _message(each["type"], each["msg"]))
            for each in error.errors(include_url=False)
        }
    return {name: value for name, value in read.model_dump().items() if name in read.model_fields_set}


def _message(kind: str, message: str) -> str:
    return message.removeprefix("Value error, ") if kind == "value_error" else ""


@pytest.mark.parametrize("section", [Config, WebFile], ids=["config", "web config"])
def test_sections_find_what_pydantic_finds(section: type[Section]) -> None:
    """Any tree gives the same values, or the same mistakes at the same paths."""

    @given(trees(section))
    def same(tree: object) -> None:
        assert read_by_section(section, tree) == read_by_pydantic(section, tree)

    same()
