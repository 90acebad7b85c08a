"""The signs of media that a field is searched for, and messages that are known to hold none, so that nothing is searched."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.classify.media import looks_for, taken_apart


LONG = "a prompt " * 64
IMAGE = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}


def raw(*messages: object) -> bytes:
    return json.dumps(messages, separators=(",", ":")).encode()


def shows_media(field: str, said: bytes) -> bool:
    return any(look(said, 0, len(said)) for look in looks_for(field))


def plain_bytes(messages: bytes) -> int | None:
    """Bytes of these messages if all are plain."""
    apart = taken_apart(b'{"messages":%b,"model":"m"}' % messages)
    return None if apart is None else apart[1]


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
    assert plain_bytes(said) is None


@pytest.mark.parametrize("text", [LONG, LONG + json.dumps(IMAGE), LONG + "\\u0061", LONG + '"image_url" :'])
def test_a_string_that_talks_about_media_is_text(text: str) -> None:
    """Within a string every quote is escaped, and a letter that is written as an escape hides no name."""
    said = raw({"role": "user", "content": text})

    assert plain_bytes(said) == len(said)


def test_a_field_without_parts_has_no_keys_of_media() -> None:
    said = b'{"image_url": "u"}'

    assert shows_media("input", said)
    assert not shows_media("prompt", said)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(raw(*[{"role": "user", "content": "x" * 90}] * 4_000), id="too many"),
        pytest.param(raw({"role": "user", "content": LONG * 9}, *[{}] * 4_000), id="too many behind a long one"),
        pytest.param(raw(*[{"role": "user", "content": "x" * 20}] * 90), id="too short"),
    ],
)
def test_messages_that_take_long_to_take_apart_are_not(said: bytes) -> None:
    """Each takes nearly a microsecond."""
    assert plain_bytes(said) is None


PLAIN = st.fixed_dictionaries(
    {},
    optional={"role": st.just("user"), "content": st.text() | st.none(), "name": st.text(), "tool_call_id": st.text()},
)


@given(messages=st.lists(PLAIN), escaped=st.booleans())
def test_plain_messages_have_the_length_of_compact_json_and_show_no_media(
    messages: list[object], *, escaped: bool
) -> None:
    said = json.dumps(messages, ensure_ascii=escaped, separators=(",", ":")).encode("utf-8", "surrogatepass")
    read = json.loads(said.decode("utf-8", "surrogatepass"))

    assert plain_bytes(said) == (len(said) if b";base64," not in said else None)
    assert read == messages


@pytest.mark.parametrize(
    "odd", [1, "a", None, {"role": "user", "content": 1}, {"role": "user", "content": "a", "x": 1}]
)
def test_messages_with_anything_else_are_not_plain(odd: object) -> None:
    assert plain_bytes(raw({"role": "user", "content": "a"}, odd)) is None


def test_a_body_without_messages_has_none_that_need_a_look() -> None:
    apart = taken_apart(b'{"prompt":"a"}')

    assert apart is not None
    assert (bytes(apart[0].prompt), apart[0].messages, apart[1]) == (b'"a"', None, 0)
