"""The signs of media that a field is searched for: all signs where parts may stand, one where there are only strings."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.classify.media import BYTES_A_BRACE, TAKEN_APART_BYTES, looks_for


LONG = "a prompt " * BYTES_A_BRACE
IMAGE = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}


def raw(*messages: object) -> bytes:
    return json.dumps(messages).encode()


def shows_media(field: str, said: bytes) -> bool:
    return any(look(said, 0, len(said)) for look in looks_for(field, said))


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(raw({"role": "user", "content": [IMAGE]}), id="a part"),
        pytest.param(raw({"role": "user", "content": [{"image_url": "u"}]}), id="a part without its type"),
        pytest.param(
            raw({"role": "user", "content": LONG}, {"role": "user", "content": [IMAGE]}), id="behind a long text"
        ),
        pytest.param(raw({"role": "user", "content": LONG, "input_audio": {"data": "aa"}}), id="beside the content"),
        pytest.param(raw({"role": "user", "content": {"type": "image", "text": LONG}}), id="content that is an object"),
        pytest.param(
            raw({"role": "user", "content": LONG + "![](data:image/png;base64,aa)"}), id="inline, in a string"
        ),
    ],
)
def test_media_are_seen_in_messages(said: bytes) -> None:
    assert shows_media("messages", said)


@pytest.mark.parametrize("text", [LONG, LONG + json.dumps(IMAGE), LONG + "\\u0061", LONG + '"image_url" :'])
def test_a_string_that_talks_about_media_is_text(text: str) -> None:
    """Within a string every quote is escaped, and a letter that is written as an escape hides no name."""
    assert not shows_media("messages", raw({"role": "user", "content": text}))


def test_a_field_without_parts_has_no_keys_of_media() -> None:
    said = b'{"image_url": "u"}'

    assert shows_media("input", said)
    assert not shows_media("prompt", said)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(raw({"role": "user", "content": "x" * TAKEN_APART_BYTES}), id="too long"),
        pytest.param(raw(*[{"role": "user", "content": "x" * 90}] * 4_000), id="too many"),
        pytest.param(raw({"role": [0] * 100_000}), id="a long list in one of them"),
    ],
)
def test_messages_that_take_long_to_take_apart_are_searched_for_all_signs(said: bytes) -> None:
    """In one call it would take up to 3 ms for a MiB."""
    assert looks_for("messages", said) == looks_for("messages", raw({"role": "user", "content": [IMAGE]}))


@given(st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": st.text() | st.none()}), min_size=1))
def test_messages_of_strings_are_searched_for_fewer_signs_and_the_same_result(messages: list[object]) -> None:
    """The content of the first is long, so that it pays to take them apart."""
    long = [{"role": "user", "content": LONG * len(messages)}, *messages]
    said = json.dumps(long, ensure_ascii=False).encode("utf-8", "surrogatepass")
    every = looks_for("messages", raw({"role": "user", "content": [IMAGE]}))

    assert len(looks_for("messages", said)) < len(every)
    assert shows_media("messages", said) == any(look(said, 0, len(said)) for look in every)
