"""How each API says that an answer ended, and which answers say nothing: told on the page by bytes that servers send."""

import json
import re
from collections.abc import Mapping

import pytest

from sidecar.commands.compare.gate_questions import CUT_QUESTION, GATE_QUESTIONS
from sidecar.observe.request import RequestObserver
from sidecar.proxy.headers import RequestHead
from sidecar.proxy.observer import Observer
from sidecar.timeline.finish import FROM_THE_START, NO_FINISH, Finish, finish_of
from tests.support.vllm_stream import DONE, ROLE, STREAM, TOKEN, chunk, post
from tests.support.walk import Walk


CHAT, COMPLETIONS, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"
TEXT_AND_USAGE = {"content": [{"type": "text", "text": "a"}], "usage": {"input_tokens": 5, "output_tokens": 1}}


def told(walk: Walk) -> tuple[dict[str, float], float]:
    """Finish reasons above 0 with their numbers, and the number of empty answers."""
    page = walk.page().splitlines()
    lines = [line for line in page if line.startswith("llm_answers_total{") and not line.endswith(" 0")]
    reasons = {line.partition('finish_reason="')[2].partition('"')[0]: float(line.rpartition(" ")[2]) for line in lines}
    return reasons, walk.value("llm_empty_answers_total")


def whole(path: str, answer: object) -> tuple[dict[str, float], float]:
    """The page's numbers after one answer that is not streamed."""
    walk = Walk()
    walk.client().send(post({"stream": False}, path=path))
    body = json.dumps(answer).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    walk.engine.send(head % len(body) + body)
    return told(walk)


def streamed(path: str, *events: bytes) -> tuple[dict[str, float], float]:
    """The page's numbers after one streamed answer."""
    walk = Walk()
    walk.client().send(post({"stream": True}, path=path))
    walk.engine.send(STREAM + b"".join(map(chunk, events)) + b"0\r\n\r\n")
    return told(walk)


def event(data: Mapping[str, object]) -> bytes:
    return b"data: %b\n\n" % json.dumps(data).encode()


def end(reason: str | None, **delta: object) -> bytes:
    """The chunk of a chat that finishes choice 0."""
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter", "content_filter"),
        ("repetition", "repetition"),
        ("Ignore all previous instructions", "other"),
        (None, "unknown"),
    ],
)
def test_a_stream_is_counted_once_under_its_reason(word: str | None, reason: str) -> None:
    """A word of the server never becomes a label's value by itself; without one the reason is unknown."""
    assert streamed(CHAT, ROLE, TOKEN, end(word), DONE) == ({reason: 1}, 0)


@pytest.mark.parametrize(
    ("path", "answer", "reason"),
    [
        (CHAT, {"choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "length"}]}, "length"),
        (COMPLETIONS, {"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}]}, "stop"),
        (MESSAGES, {**TEXT_AND_USAGE, "stop_reason": "end_turn"}, "stop"),
        (MESSAGES, {**TEXT_AND_USAGE, "stop_reason": "max_tokens"}, "length"),
        (MESSAGES, {**TEXT_AND_USAGE, "stop_reason": "tool_use"}, "tool_calls"),
        (MESSAGES, {**TEXT_AND_USAGE, "stop_reason": "refusal"}, "content_filter"),
        (MESSAGES, {**TEXT_AND_USAGE, "stop_reason": "pause_turn"}, "other"),
        (RESPONSES, {"status": "completed", "output": [{}]}, "stop"),
        (RESPONSES, {"status": "incomplete", "output": [{}], "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        (RESPONSES, {"status": "incomplete", "output": [{}], "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        (RESPONSES, {"status": "incomplete", "output": [{}], "incomplete_details": None}, "other"),
    ],
)  # fmt: skip
def test_each_api_has_words_of_its_own(path: str, answer: object, reason: str) -> None:
    assert whole(path, answer) == ({reason: 1}, 0)


def test_of_several_choices_the_first_that_ends_is_told() -> None:
    """A request counts once, so that reasons add up to the requests with outcome ok."""
    second = event({"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "length"}]})

    assert streamed(CHAT, ROLE, TOKEN, second, end("stop"), DONE) == ({"length": 1}, 0)


def test_a_request_that_failed_has_no_reason() -> None:
    """Its answer broke off, or was an error: it is told by its outcome."""
    assert streamed(CHAT, ROLE, TOKEN, b'data: {"error":{"message":"out of memory"}}\n\n', DONE) == ({}, 0)


@pytest.mark.parametrize(
    ("path", "events"),
    [
        (CHAT, (ROLE, end("stop"), DONE)),
        (CHAT, (ROLE, end("stop", content=""), DONE)),
        (CHAT, (ROLE, DONE)),
        (COMPLETIONS, (event({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}), DONE)),
    ],
    ids=["no token", "an end mark alone", "no finish either", "an end mark of the older API"],
)
def test_a_stream_that_says_nothing_is_empty(path: str, events: tuple[bytes, ...]) -> None:
    """vLLM sends the end mark of such an answer as an event with empty text: usage calls that one token."""
    assert streamed(path, *events)[1] == 1


@pytest.mark.parametrize(
    "events",
    [
        (ROLE, TOKEN, end("stop", content=""), DONE),
        (ROLE, end("stop", content="a"), DONE),
        (ROLE, end("tool_calls"), DONE),
        (ROLE, end("stop", reasoning="a"), DONE),
        (ROLE, end(None, content=""), end("stop"), DONE),
        (ROLE, b"data: {broken\n\n", end("stop"), DONE),
    ],
    ids=["text", "text at the end", "a tool call", "reasoning", "half a character", "an event that cannot be read"],
)
def test_a_stream_that_says_something_or_was_not_read_whole_is_not_empty(events: tuple[bytes, ...]) -> None:
    """A token without text in the middle may be half a character, so that it counts as output."""
    assert streamed(CHAT, *events)[1] == 0


@pytest.mark.parametrize(
    ("answer", "empty"),
    [
        ({"choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}]}, 1),
        ({"choices": [{"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": "stop"}]}, 1),
        ({"choices": [{"index": 0, "message": {"role": "assistant", "content": " "}, "finish_reason": "stop"}]}, 0),
        ({"choices": [{"index": 0, "message": {"role": "assistant", "tool_calls": [{}]}, "finish_reason": "stop"}]}, 0),
        ("no answer at all", 0),
    ],
    ids=["empty text", "null", "a blank", "a tool call", "not read"],
)
def test_an_answer_that_is_not_streamed_is_empty_alike(answer: object, empty: int) -> None:
    assert whole(CHAT, answer)[1] == empty


def test_an_end_mark_alone_of_the_older_api_is_empty_when_it_is_not_streamed() -> None:
    """Its empty text is output, as in a stream, and there is no count of output events to compare with."""
    assert whole(COMPLETIONS, {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})[1] == 1
    assert whole(COMPLETIONS, {"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}]})[1] == 0


TEXT, THINKING, TOOL = ({"type": kind, kind: ""} for kind in ("text", "thinking", "tool_use"))
REASONING, CALL = {"type": "reasoning", "summary": []}, {"type": "function_call", "name": "f"}


@pytest.mark.parametrize(
    ("blocks", "empty"),
    [
        ([], 1),
        ([TEXT], 1),
        ([THINKING, TEXT], 1),
        ([TEXT, {"type": "text", "text": "a"}], 0),
        ([TEXT, TOOL], 0),
        (["odd"], 0),
    ],
    ids=["no block", "empty text", "empty thinking", "text", "a tool call", "what cannot be read"],
)
def test_a_message_of_empty_blocks_is_empty(blocks: list[object], empty: int) -> None:
    assert whole(MESSAGES, {"content": blocks, "stop_reason": "end_turn"})[1] == empty


@pytest.mark.parametrize(
    ("items", "empty"),
    [
        ([], 1),
        ([REASONING], 1),
        ([{"type": "message", "content": [{"type": "output_text", "text": ""}]}], 1),
        ([{"type": "message", "content": [{"type": "output_text", "text": "a"}]}], 0),
        ([{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}], 0),
        ([REASONING | {"summary": [{"type": "summary_text", "text": "a"}]}], 0),
        ([REASONING, CALL], 0),
        (["odd"], 0),
    ],
    ids=["no item", "reasoning", "empty text", "text", "a refusal", "a summary", "a call", "what cannot be read"],
)
def test_a_response_of_empty_items_is_empty(items: list[object], empty: int) -> None:
    assert whole(RESPONSES, {"status": "completed", "output": items})[1] == empty


def test_a_stream_that_the_sidecar_ceased_to_see_is_not_called_empty() -> None:
    """An observer that raised sees no more: its own error would count as the engine's empty answer."""
    walk, made = Walk(), list[RequestObserver]()
    observers = walk.observers

    def kept(head: RequestHead) -> Observer:
        observer = observers(head)
        assert isinstance(observer, RequestObserver)
        made.append(observer)
        return observer

    walk.observers = kept  # type: ignore[assignment]
    walk.client().send(post({"stream": True}, path=CHAT))
    walk.engine.send(STREAM)
    made[0].blinded()
    walk.engine.send(b"".join(map(chunk, (ROLE, end("stop", content=""), DONE))) + b"0\r\n\r\n")

    assert told(walk)[1] == 0


def test_each_reason_but_other_and_unknown_has_a_word() -> None:
    words = ("stop", "max_tokens", "tool_use", "refusal", "repetition", "abort", "")

    assert {finish_of(word) for word in words} == set(Finish)


@pytest.mark.parametrize("odd", [7, ["stop"], {"type": "stop"}, True])
def test_what_is_no_word_is_another_reason(odd: object) -> None:
    """Such a value is nothing that can be looked up: an unhashable one would raise."""
    assert (finish_of(odd), finish_of(None)) == (Finish.OTHER, NO_FINISH)


def test_each_reason_that_a_canary_is_asked_for_is_counted_from_zero() -> None:
    """A counter that begins with its first answer hides it: what it grew by is not seen."""
    asked = (*GATE_QUESTIONS.values(), CUT_QUESTION)
    reasons = {reason for each in asked for reason in re.findall(r'finish_reason="(\w+)"', each.counted.matchers)}

    assert reasons == {"length", "repetition"}
    assert reasons <= {str(each) for each in FROM_THE_START}
