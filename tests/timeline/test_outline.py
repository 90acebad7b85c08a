"""The outline of a long JSON text says what the text says, but for its bulk, however the text is cut."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.timeline.dialects.anthropic_messages import ANTHROPIC_MESSAGES
from sidecar.timeline.dialects.field_table import (
    ENCODES,
    LLAMA_COMPLETION,
    OLLAMA,
    OPENAI_CHAT,
    OPENAI_COMPLETIONS,
    SGLANG_GENERATE,
)
from sidecar.timeline.dialects.openai_responses import OPENAI_RESPONSES
from sidecar.timeline.events import Dialect
from sidecar.timeline.outline import DEEPEST, MOST_ELEMENTS, MOST_MEMBERS, OUTLINED_AT_ONCE_BYTES, Outline, Size


def outlined(*pieces: bytes) -> Outline:
    outline = Outline()
    for piece in pieces:
        outline.feed(piece)
    return outline


def outline_of(said: object) -> Any:
    outline = outlined(json.dumps(said).encode()).end()
    return None if outline is None else json.loads(outline)


def told(pieces: Iterable[bytes]) -> tuple[bytes | None, list[Size], bool]:
    outline = outlined(*pieces)
    return outline.end(), outline.sizes, outline.cut


USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3}}
LIES = '"usage":{"prompt_tokens":99,"completion_tokens":99},"finish_reason":"abort","error":{"code":500}}]}\\'
"""A text that looks like the end of an answer, quotes and an escape included."""
SHORT = (
    st.text(max_size=5) | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False)
)
SMALL = st.recursive(
    SHORT,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=8), each, max_size=3),
    max_leaves=12,
)
TEXT = st.text(
    st.sampled_from('"\\{}[],: \nab\u20ac\u2028') | st.characters(codec="utf-8"), max_size=400
) | st.sampled_from([LIES * 9])
BULKY = st.recursive(
    SHORT | TEXT,
    lambda each: st.lists(each, max_size=150) | st.dictionaries(st.text(max_size=8), each, max_size=4),
    max_leaves=60,
)


class TestWhatIsKept:
    @given(
        said=st.dictionaries(st.text(max_size=8), SMALL, max_size=5) | st.lists(SMALL, max_size=4),
        indent=st.sampled_from([None, 1]),
    )
    def test_a_text_without_bulk_is_its_own_outline(self, said: object, indent: int | None) -> None:
        def shallow(value: object, depth: int = 1) -> object:
            """Deeper containers are kept empty, and of a long list the first elements."""
            if isinstance(value, dict):
                return {name: shallow(each, depth + 1) for name, each in value.items()} if depth <= DEEPEST else {}
            if isinstance(value, list):
                most = MOST_ELEMENTS[min(depth, len(MOST_ELEMENTS)) - 1]
                return [shallow(each, depth + 1) for each in value[:most]] if depth <= DEEPEST else []
            return value

        outline = outlined(json.dumps(said, indent=indent).encode()).end()
        assert outline is not None
        assert json.loads(outline) == shallow(said)

    def test_a_long_string_gives_a_placeholder_and_a_name_is_kept(self) -> None:
        assert outline_of({"model": "m" * 1000, "a": {"b": {"c": "x" * 70}}, "text": "x" * 1100}) == {
            "model": "m" * 1000,
            "a": {"b": {"c": "-"}},
            "text": "-",
        }

    def test_of_a_long_list_the_beginning_is_kept_and_what_follows_it(self) -> None:
        said = outlined(json.dumps({"ids": list(range(10_000)), "n": 2}).encode())

        assert json.loads(said.end() or b"") == {"ids": list(range(128)), "n": 2}
        assert said.cut

    def test_the_members_at_the_top_are_measured(self) -> None:
        text = b'{ "a" : "%b" ,"b":[1, [2]], "c":{"a":1} , "d": 12}' % (b"x" * 5000)

        assert outlined(text).sizes == [(b"a", 5004), (b"b", 8), (b"c", 8), (b"d", 3)]

    def test_many_small_things_in_one_slice_are_cut_to_what_one_slice_may_cost(self) -> None:
        """The rest of the list goes; what stands behind it stays."""
        tools = [{"type": "function", "function": {"name": f"f{n}", "parameters": {"a": {}}}} for n in range(800)]
        assert len(json.dumps(tools)) < OUTLINED_AT_ONCE_BYTES
        said = outline_of({"tools": tools, "model": "m", "usage": USAGE})

        assert said["tools"] == tools[: len(said["tools"])]
        assert 10 < len(said["tools"]) < 128
        assert (said["model"], said["usage"]) == ("m", USAGE)


class TestWhatHasNone:
    @pytest.mark.parametrize(
        "text",
        [
            *(
                b"",
                b"1",
                b'"a"',
                b"true",
                b"x",
                b"{",
                b'{"a":1',
                b'{"a":"',
                b'{"a":1}}',
                b'{"a":1}{"b":2}',
                b'{"a":1} x',
            ),
            *(
                b'{"a":[1}',
                b'{"a" "b"}',
                b'{m"id":1}',
                b'[1"a"]',
                b"[1 2]",
                b'["a" "b"]',
                b"}",
                b",",
                b"[" * 300 + b"]" * 299,
            ),
            b"{" + b",".join(b'"%d":1' % number for number in range(MOST_MEMBERS + 1)) + b"}",
            b"[" + b"1" * 400_000 + b"]",
        ],
        ids=lambda text: repr(text[:12]),
    )
    def test_it_says_none(self, text: bytes) -> None:
        assert outlined(text).end() is None
        assert told(text[at : at + 1] for at in range(len(text)))[0] is None


@given(said=st.dictionaries(st.text(max_size=8), BULKY, max_size=4), escapes=st.booleans(), data=st.data())
def test_any_segmentation_says_the_same(said: object, escapes: bool, data: st.DataObject) -> None:
    text = json.dumps(said, ensure_ascii=escapes).encode("utf-8", "surrogatepass")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))

    whole = told([text])
    assert whole == told(text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True))
    assert whole == told(text[at : at + 1] for at in range(len(text)))


@given(
    pieces=st.lists(st.binary(max_size=60) | st.sampled_from([b'{"a":', b'"', b"\\", b"[[", b"]", b"}", b"1", b","]))
)
def test_random_bytes_never_raise_and_split_alike(pieces: list[bytes]) -> None:
    text = b"".join(pieces)

    assert told(pieces) == told([text]) == told(text[at : at + 1] for at in range(len(text)))


LOGPROBS = {
    "content": [
        {
            "token": "a",
            "logprob": -0.1,
            "bytes": [97],
            "top_logprobs": [{"token": "b", "logprob": -1.0, "bytes": [98]}] * 5,
        }
    ]
    * 900
}
ENDS: list[tuple[Dialect, dict[str, Any]]] = [
    (OPENAI_CHAT, {"id": "c", "choices": [{"index": 1, "delta": {"content": LIES * 900}, "logprobs": LOGPROBS, "finish_reason": "stop"}], "usage": USAGE}),
    (OPENAI_CHAT, {"choices": [{"index": 0, "delta": {"tool_calls": [{"function": {"arguments": LIES * 900}}]}}], "metrics": {"queued": 0.5}}),
    (OPENAI_COMPLETIONS, {"choices": [{"index": 0, "text": LIES * 900, "token_ids": [5] * 9000, "finish_reason": "length"}], "usage": USAGE}),
    (
        OPENAI_RESPONSES,
        {
            "type": "response.completed",
            "response": {
                "id": "r",
                "status": "completed",
                "instructions": LIES * 500,
                "tools": [{"type": "function", "parameters": {"properties": {"a": {"type": "string"}}}}] * 90,
                "output": [{"type": "message", "content": [{"type": "output_text", "text": LIES * 400, "logprobs": [LOGPROBS]}]}] * 70,
                "usage": {"input_tokens": 11, "input_tokens_details": {"cached_tokens": 3}, "output_tokens": 7},
                "metrics": {"time_to_first_token": 0.25},
            },
        },
    ),
    (ANTHROPIC_MESSAGES, {"type": "message_delta", "delta": {"stop_reason": "end_turn", "text": LIES * 900}, "usage": {"output_tokens": 9}}),
    (OLLAMA, {"message": {"role": "assistant", "content": LIES * 900}, "done": True, "done_reason": "stop", "eval_count": 5, "prompt_eval_count": 6}),
    (LLAMA_COMPLETION, {"content": LIES * 900, "stop": True, "stop_type": "eos", "tokens_evaluated": 4, "tokens_predicted": 2, "timings": {"prompt_ms": 5.0}}),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "said"), ENDS, ids=lambda each: getattr(each, "name", ""))
@pytest.mark.parametrize("escaped", [True, False], ids=["escaped", "utf-8"])
@pytest.mark.long
def test_an_event_of_any_size_is_read_like_a_short_one(dialect: Dialect, said: dict[str, Any], escaped: bool) -> None:
    text = json.dumps(said, ensure_ascii=escaped).encode()
    outline = outlined(text).end()

    assert len(text) > OUTLINED_AT_ONCE_BYTES
    assert outline is not None
    assert len(outline) < OUTLINED_AT_ONCE_BYTES // 2
    assert dialect.read_event(b"", outline) == dialect.read_event(b"", text)


def test_a_whole_answer_of_any_size_is_read_like_a_short_one() -> None:
    choices = [{"index": n, "message": {"content": LIES * 90}, "finish_reason": "length"} for n in range(100)]
    text = json.dumps({"id": "c", "choices": choices, "usage": USAGE}).encode()
    outline = outlined(text).end()

    assert outline is not None
    assert OPENAI_CHAT.read_body(outline) == OPENAI_CHAT.read_body(text)


def told_whole(dialect: Dialect, said: object) -> tuple[object, object]:
    """A whole answer by its outline, None where it has none, and by all of its text."""
    text = json.dumps(said).encode()
    outline = outlined(text).answer()
    return None if outline is None else dialect.read_body(outline), dialect.read_body(text)


@pytest.mark.parametrize("many", [3, 40])
def test_log_probabilities_hide_none_of_several_answers(many: int) -> None:
    """Each answer keeps its finish, or none is read: one of six answers is not the request's answer."""
    tops = [[-0.1, 5, "a"]] * 20
    meta = {
        "id": "x",
        "finish_reason": {"type": "stop"},
        "prompt_tokens": 10,
        "completion_tokens": 120,
        "cached_tokens": 0,
    }
    long = {**meta, "output_token_logprobs": [[-0.1, 5, "a"]] * 120, "output_top_logprobs": [tops] * 120}
    sglang = told_whole(SGLANG_GENERATE, [{"text": "a", "meta_info": long}] * many)
    choices = [
        {"index": n, "message": {"content": "a"}, "logprobs": LOGPROBS, "finish_reason": "stop"} for n in range(many)
    ]
    chat = told_whole(OPENAI_CHAT, {"id": "c", "choices": choices, "usage": USAGE})

    assert sglang[0] == sglang[1]
    assert chat[0] == chat[1]


def test_more_answers_than_are_kept_are_not_read_as_fewer() -> None:
    choices = [{"index": n, "message": {"content": "a"}, "finish_reason": "stop"} for n in range(200)]
    chat = told_whole(OPENAI_CHAT, {"choices": choices, "usage": USAGE})
    vectors = told_whole(ENCODES, {"data": [{"embedding": [0.5] * 900}] * 200, "usage": {"prompt_tokens": 9}})

    assert chat[0] is None
    assert vectors[0] == vectors[1]
