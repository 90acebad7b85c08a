"""The signs of media that a field is searched for, and messages that are known to hold none, so that nothing is searched."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.classify import media
from sidecar.classify.body import peek
from sidecar.classify.media import BEGINNING_BYTES, has_many_braces, holds_inline, looks_for, taken_apart


LONG = "a prompt " * 64
IMAGE = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}


def raw(*messages: object) -> bytes:
    return json.dumps(messages, separators=(",", ":")).encode()


def shows_media(field: str, said: bytes) -> bool:
    return any(look(said, 0, len(said)) for look in looks_for(field))


def plain_bytes(messages: bytes) -> int | None:
    """Bytes of these messages if they are taken apart and all are plain."""
    body = b'{"messages":%b,"model":"m"}' % messages
    dear = len(body) > BEGINNING_BYTES and has_many_braces(body)
    apart = None if dear or holds_inline(body) else taken_apart(body)
    return None if apart is None else media.plain_bytes(apart.messages)


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


@given(messages=st.lists(PLAIN), escaped=st.booleans(), indent=st.sampled_from([None, 0, 1]))
def test_plain_messages_have_the_length_of_compact_json_however_they_are_written(
    messages: list[object], *, escaped: bool, indent: int | None
) -> None:
    compact = json.dumps(messages, ensure_ascii=escaped, separators=(",", ":")).encode("utf-8", "surrogatepass")
    written = json.dumps(messages, ensure_ascii=escaped, indent=indent).encode("utf-8", "surrogatepass")

    assert plain_bytes(written) == (len(compact) if b";base64," not in compact else None)


@pytest.mark.parametrize("parts", ['"content":[]', '"content": []'])
def test_parts_at_the_beginning_are_seen_without_taking_anything_apart(parts: str) -> None:
    """Else such a body, which is common, would be decoded twice."""
    body = '{"messages":[{"role":"user",%s}]}'

    assert taken_apart((body % parts).encode()) is None
    assert taken_apart((body % '"content":""').encode()) is not None


def test_the_last_of_duplicates_counts() -> None:
    plain, other = b'[{"role":"user","content":"abc"}]', b'[{"role":"user","content":{"type":"image"}}]'

    assert peek(b'{"messages":[],"messages":%b}' % plain, whole=True).text_bytes == len(plain)
    assert peek(b'{"messages":%b,"messages":%b}' % (plain, other), whole=True).text_bytes is None
    assert peek(b'{"messages":%b,"messages":%b}' % (other, plain), whole=True).text_bytes == len(plain)
    assert peek(b'{"messages":[{"content":"a","content":"abc"}]}', whole=True).text_bytes == len('[{"content":"abc"}]')


@pytest.mark.parametrize(
    "odd", [1, "a", None, {"role": "user", "content": 1}, {"role": "user", "content": "a", "x": 1}]
)
def test_messages_with_anything_else_are_not_plain(odd: object) -> None:
    assert plain_bytes(raw({"role": "user", "content": "a"}, odd)) is None


def test_a_body_without_messages_has_none_that_need_a_look() -> None:
    body = b'{"prompt":"a"}'
    apart = taken_apart(body)

    assert apart is not None
    assert (bytes(apart.prompt), apart.messages, media.plain_bytes(None)) == (b'"a"', None, 0)
