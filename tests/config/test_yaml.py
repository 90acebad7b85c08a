"""A YAML text becomes plain values with their places, or errors with places; no text raises anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.origins import Complaint, Place
from sidecar.config.yaml import read


def test_words_that_yaml_once_took_for_something_else_are_text() -> None:
    """`off`, `no`, 12:30 and 0777 are texts, as in YAML 1.2, so `via: off` needs no quotes."""
    document = read(b"a: off\nb: no\nc: 12:30\nd: 0777\ne: 2024-01-01\nf: 1_000\ng: ~\nh: 1e3\ni: true\nj: -2.5")

    assert document.tree == {
        "a": "off",
        "b": "no",
        "c": "12:30",
        "d": 777,
        "e": "2024-01-01",
        "f": "1_000",
        "g": None,
        "h": 1000.0,
        "i": True,
        "j": -2.5,
    }


def test_each_key_and_value_has_its_place() -> None:
    """Lines and columns count from 1; in a list each item has a place of its own."""
    document = read(b"web:\n  listen_address: :1\nlanes: {names: [a, b]}")

    assert document.keys == {
        ("web",): (1, 1),
        ("web", "listen_address"): (2, 3),
        ("lanes",): (3, 1),
        ("lanes", "names"): (3, 9),
    }
    assert document.values == {
        (): (1, 1),
        ("web",): (2, 3),
        ("web", "listen_address"): (2, 19),
        ("lanes",): (3, 8),
        ("lanes", "names"): (3, 16),
        ("lanes", "names", 0): (3, 17),
        ("lanes", "names", 1): (3, 20),
    }


@pytest.mark.parametrize("scalar", ["!!int abc", "!!float x", "!!bool x", "!!null x", "!!int 1.5", "!secret x"])
def test_a_tag_that_its_text_does_not_fit_is_an_error(scalar: str) -> None:
    """A core tag on a text of another type is refused like an unknown tag, and its key has no value."""
    document = read(f"a: {scalar}".encode())

    assert document.complaints == [Complaint(("a",), Place(1, 4), "has a tag, which is not supported")]
    assert document.tree == {"a": None}


def test_a_tag_that_its_text_fits_changes_nothing() -> None:
    """`!!str 12` is text, as `"12"` is."""
    assert read(b"a: !!str 12\nb: !!int 12\nc: !!float 12").tree == {"a": "12", "b": 12, "c": 12.0}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("# \u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\na: b\nb: \x07".encode(), Place(3, 4)),
        ("# \u00e9\na: \u00e9".encode() + b"\xff", Place(2, 5)),
        (b"\xff\xfea\x00\x00\xd8", Place(1, 3)),
    ],
    ids=["a character that YAML forbids", "no UTF-8", "no UTF-16"],
)
def test_what_is_no_text_has_its_place(text: bytes, place: Place) -> None:
    """The column counts characters, whatever stands before the first byte that cannot be read."""
    (complaint,) = read(text).complaints

    assert complaint.place == place


def test_a_billion_laughs_are_an_error() -> None:
    """Nested aliases are cut off, not expanded: one error, at the item where the reader stopped."""
    laughs = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    laughs += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (complaint,) = read("\n".join(laughs).encode()).complaints

    assert complaint.text == "is too large, too deep, or contains itself"


def test_every_key_of_a_mapping_that_contains_itself_has_the_place_of_its_value() -> None:
    """Also the last one, which is behind the place where the reader stopped."""
    document = read(b"&x\na: 1\nb: *x\n")

    assert [complaint.text for complaint in document.complaints] == ["is too large, too deep, or contains itself"]
    assert document.keys.keys() <= document.values.keys()


@pytest.mark.long
def test_a_tower_of_brackets_is_an_error() -> None:
    """Ten thousand open brackets end in an error with a place, not in a RecursionError."""
    assert read(b"engine: " + b"[" * 10_000).complaints == [Complaint((), Place(1, 1), "is nested too deeply")]


FRAGMENTS = st.sampled_from(
    ["!!int ", "!!float ", "!!bool ", "!!null ", "!!set ", "!", "&a ", "*a", "\n- ", "a: ", "[", "]"]
)


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text("{}[]:,-&*!|> \n\"'#?ab1.~").map(str.encode),
        st.lists(st.one_of(FRAGMENTS, st.text("a1.~", max_size=3))).map(lambda parts: "".join(parts).encode()),
    )
)
def test_no_bytes_raise_anything(text: bytes) -> None:
    """For any bytes, reading ends in a tree or in errors."""
    document = read(text)

    assert isinstance(document.tree, dict)
    assert all(complaint.place >= (1, 1) for complaint in document.complaints)
