"""A body that is read while it passes tells what a look into the whole of it tells."""

import base64
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.classify.body import peek
from sidecar.classify.found import Peek
from sidecar.classify.long_body import LongBody
from sidecar.classify.media import MEDIA_WINDOW_BYTES


NOISE = random.Random(5)
PIXELS = base64.b64encode(NOISE.randbytes(90_000)).decode()
WORDS = 'a "quoted" prompt\nwith {"model":"other","stream":true} in it. ' * 3000


def read(body: bytes, step: int) -> Peek | None:
    long = LongBody()
    for at in range(0, len(body), step):
        long.feed(body[at : at + step])
    return long.peek()


def compact(said: object) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode()


def with_image(url: str) -> dict[str, Any]:
    parts = [{"type": "text", "text": WORDS}, {"type": "image_url", "image_url": {"url": url}}]
    return {"messages": [{"role": "user", "content": parts}], "model": "m", "stream": True}


@pytest.mark.parametrize("step", [1000, 65_536])
@pytest.mark.parametrize(
    "said",
    [
        {"messages": [{"role": "user", "content": WORDS}] * 3, "model": "m", "stream": True, "max_tokens": 5, "n": 2},
        {"messages": [{"role": "user", "content": "hi"}] * 9000, "user": "u", "model": "m"},
        {"prompt": [WORDS, WORDS], "model": "m", "stream": False, "priority": 3},
        {"prompt": WORDS, "model": "m", "n": 4, "stream_options": {"include_usage": True}},
        {"input": WORDS, "instructions": WORDS, "text": {"format": {"type": "text"}}, "model": "m"},
        {"text": WORDS, "model": "m", "sampling_params": {"n": 1}},
        {"messages": [], "tools": [{"type": "mcp", "a": WORDS}], "previous_response_id": "r", "model": "m"},
        {"messages": None, "prompt": WORDS, "input": None, "text": None, "tools": None, "model": "m"},
    ],
    ids=["chat", "many messages", "prompts", "one prompt", "responses", "sglang", "held by the server", "nulls"],
)
def test_it_finds_what_a_look_into_all_of_it_finds(said: dict[str, Any], step: int) -> None:
    body = compact(said)

    assert read(body, step) == peek(body, whole=True)


@given(
    said=st.dictionaries(
        st.sampled_from(["model", "stream", "messages", "prompt", "input", "text", "user", "n", "max_tokens", "tools", "x"]),
        st.recursive(
            st.text(max_size=40) | st.integers(0, 9) | st.booleans() | st.none(),
            lambda each: st.lists(each, max_size=4) | st.dictionaries(st.sampled_from("abc"), each, max_size=3),
            max_leaves=9,
        ),
    ),
    step=st.integers(1, 80),
)  # fmt: skip
def test_it_finds_it_in_any_body(said: dict[str, Any], step: int) -> None:
    """Short ones too, in pieces of any length."""
    body = compact(said)
    found, whole = read(body, step), peek(body, whole=True)

    assert found is not None
    assert (found.model, found.stream, found.max_tokens, found.user, found.text_bytes, found.least_text_bytes) == (
        *(whole.model, whole.stream, whole.max_tokens, whole.user, whole.text_bytes, whole.least_text_bytes),
    )


@pytest.mark.parametrize("step", [1000, 65_536])
@pytest.mark.parametrize("prefix", ["data:image/png;base64,", "data:audio/wav;base64,"])
def test_an_image_is_no_text_and_what_stands_beside_it_is(prefix: str, step: int) -> None:
    body = compact(with_image(prefix + PIXELS))
    beside = len(compact(with_image("")["messages"]))
    found, whole = read(body, step), peek(body, whole=True)

    assert found is not None
    assert (found.model, found.stream, found.text_bytes) == ("m", True, None)
    for least in (found.least_text_bytes, whole.least_text_bytes):
        assert beside <= least <= beside + 2 * MEDIA_WINDOW_BYTES + len(prefix)


@pytest.mark.parametrize("name", ["tools", "response_format"])
def test_what_binds_the_form_of_the_answer_is_measured_whole(name: str) -> None:
    """It is longer than its outline by far; a tool that the server runs may stand behind all others."""
    tools = [{"type": "function", "function": {"name": f"f{n}", "description": "d" * 80}} for n in range(300)]
    binds = {"tools": [*tools, {"type": "web_search"}], "tool_choice": "required"}
    schema = {"type": "json_schema", "json_schema": {"schema": {f"p{n}": {"type": "string"} for n in range(900)}}}
    said = {"input": WORDS, "model": "m", **(binds if name == "tools" else {"response_format": schema})}
    found, whole = read(compact(said), 65_536), peek(compact(said), whole=True)

    assert found is not None
    assert (found.grammar_bytes, found.server_tools) == (whole.grammar_bytes, whole.server_tools)
    assert whole.grammar_bytes > 9000


def test_words_without_an_image_are_text_to_the_last_byte() -> None:
    found = read(compact({"prompt": "x" * 90_000, "model": "m"}), 65_536)

    assert found is not None
    assert found.text_bytes == found.least_text_bytes == 90_002


@pytest.mark.parametrize("body", [b"", b"[1]", b"no json", b'{"model":"m"', b'{"model":"m"} more'])
def test_what_is_no_json_object_is_not_read(body: bytes) -> None:
    found = read(body, 3)

    assert found is None or not found.whole
