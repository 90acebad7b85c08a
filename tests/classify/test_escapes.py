"""A character that is written as an escape counts as the bytes of UTF-8 that it has, wherever the text is cut and in whichever way it is read."""

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.classify.body import peek
from sidecar.classify.escapes import EscapedBytes
from sidecar.classify.long_body import LongBody
from sidecar.classify.media import MEDIA_WINDOW_BYTES
from tests.fuzz.bodies import in_steps
from tests.support.walk import HEAD, LAST, TOKEN, Walk


ascii_alone = partial(json.dumps, separators=(",", ":"))
in_utf8 = partial(json.dumps, separators=(",", ":"), ensure_ascii=False)
MIXED = 'a\x00\x7f\x80é߿ࠀ你\ud7ff\ue000\uffff\U00010000😀\U0010ffff\\u4f60 \\\\u4f60 \n"\\'
CHINESE = "请用三句话概括下面的会议记录。" * 40 + "\\u4f60\n" + "😀é"
PARTS = [{"type": "text", "text": CHINESE}]
BODIES: dict[str, dict[str, Any]] = {
    "messages": {"messages": [{"role": "system", "content": CHINESE}, {"role": "user", "content": "你", "name": "é"}]},
    "parts": {"messages": [{"role": "user", "content": PARTS}]},
    "messages and tools": {"messages": [{"role": "user", "content": CHINESE}], "tools": [{"description": CHINESE}]},
    "a prompt": {"prompt": CHINESE},
    "prompts": {"prompt": [CHINESE, CHINESE]},
    "a Responses request": {"input": CHINESE, "text": {"format": {"type": "json_schema", "name": CHINESE}}},
    "Messages": {"system": CHINESE, "messages": [{"role": "user", "content": PARTS}]},
    "no text": {"prompt": "a", "metadata": {"title": CHINESE}, "user": "ä"},
    "TGI": {"inputs": CHINESE, "parameters": {"stop": [CHINESE]}},
}


def in_pieces(body: bytes, piece_bytes: int) -> int | None:
    long = LongBody()
    for at in range(0, len(body), piece_bytes):
        long.feed(body[at : at + piece_bytes])
    found = long.peek()
    assert found is not None
    return found.text_bytes


@given(st.text())
def test_what_is_left_are_the_bytes_of_utf_8(text: str) -> None:
    """But for a control character, which JSON writes as an escape in any case."""
    escapes = EscapedBytes()
    escapes.feed(json.dumps(text).encode())
    short = sum(5 for each in text if each < " " and each not in "\b\t\n\f\r")

    assert len(json.dumps(text)) - escapes.found == len(json.dumps(text, ensure_ascii=False).encode()) - short


@pytest.mark.parametrize("upper", [False, True], ids=["small", "capital"])
def test_a_text_may_be_cut_anywhere(*, upper: bool) -> None:
    """Behind a backslash, within four digits, between the halves of a pair; in two pieces and in many."""
    text = json.dumps(MIXED).encode()
    text = text.upper().replace(b"\\U", b"\\u").replace(b"\\N", b"\\n") if upper else text
    whole = EscapedBytes()
    whole.feed(text)
    for at in range(len(text) + 1):
        two = EscapedBytes()
        two.feed(text[:at])
        two.feed(bytearray(text[at:]))
        assert two.found == whole.found, at
    for size in range(1, 9):
        many = EscapedBytes()
        for at in range(0, len(text), size):
            many.feed(text[at : at + size])
        assert many.found == whole.found, size
    # One byte of UTF-8 for two of the fourteen, two for three, three for five, and four for three of them, which are pairs.
    assert whole.found == 2 * 5 + 3 * 4 + 5 * 3 + 3 * 8


@given(st.binary(max_size=64) | st.text("\\u0d8", max_size=64).map(str.encode), st.integers(1, 9))
def test_no_bytes_raise_and_a_cut_changes_nothing(text: bytes, size: int) -> None:
    whole, many = EscapedBytes(), EscapedBytes()
    whole.feed(text + b"      ")
    for at in range(0, len(text), size):
        many.feed(text[at : at + size])
    many.feed(b"      ")

    assert many.found == whole.found


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_is_as_long_in_either_spelling(body: dict[str, Any]) -> None:
    plain, escaped = in_utf8(body).encode(), ascii_alone(body).encode()
    expected = peek(plain, whole=True).text_bytes

    assert expected is not None
    assert len(escaped) > len(plain)
    assert peek(escaped, whole=True).text_bytes == in_steps(escaped).text_bytes == expected
    assert {in_pieces(escaped, size) for size in (1, 2, 3, 5, 7, 64, len(escaped))} == {in_pieces(plain, 64)}


IMAGE = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://é/x.png"}}]}]}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_least_that_a_prompt_can_be_is_as_long_in_either_spelling(body: dict[str, Any]) -> None:
    """Escapes alone are letters, digits and backslashes, as base64 may be; they are no media."""
    said = IMAGE | body | {"conversation": "c"}
    plain, escaped = in_utf8(said).encode(), ascii_alone(said).encode()
    expected = peek(plain, whole=True)

    assert expected.text_bytes is None
    assert peek(escaped, whole=True).least_text_bytes == in_steps(escaped).least_text_bytes == expected.least_text_bytes


@pytest.mark.parametrize("plus", ["+", "\\u002B"], ids=["as it is", "of .NET"])
def test_the_escapes_of_an_image_are_no_text_and_leave_the_text_beside_it(plus: str) -> None:
    """An image of 600 KB, and 300 bytes of text."""
    url = "data:image/png;base64," + ("iVBORw0KGgo" * 5 + "+abcd/=") * 10_000
    said = {"messages": [{"content": [{"type": "image_url", "image_url": {"url": url}}, {"text": "words and " * 30}]}]}
    body = in_utf8(said).replace("+abcd", plus + "abcd").encode()

    for least in (peek(body, whole=True).least_text_bytes, in_steps(body).least_text_bytes):
        assert 300 <= least <= 300 + 3 * MEDIA_WINDOW_BYTES


def test_who_writes_ascii_alone_has_the_lane_and_bucket_of_others() -> None:
    """500 tokens of four bytes; as escapes they would be a thousand."""
    counted = []
    for spelt in (in_utf8, ascii_alone):
        walk = Walk()
        body = spelt({"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "你" * 660}]}).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n"
        walk.client().send(head % len(body) + body)
        walk.engine.send(HEAD + TOKEN + LAST + b"0\r\n\r\n")
        (account,) = walk.accounts
        counted.append(account.labels)
    assert counted[0] == counted[1]
