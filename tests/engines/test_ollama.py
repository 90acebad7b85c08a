"""Times that Ollama states, the queue that follows from them, and how its streams differ from other engines'."""

import json

import pytest

from sidecar.engines.engine import Engine
from sidecar.engines.kind import Wire
from sidecar.engines.ollama import Ollama
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from tests.support.walk import Walk


SECOND = 1_000_000_000
STATED = {
    "total_duration": 10 * SECOND,
    "load_duration": 3 * SECOND,
    "prompt_eval_duration": 2 * SECOND,
    "eval_duration": 4 * SECOND,
}


def queue(ttft: float | None = None, **stated: object) -> float | None:
    """The queue of an answer with these durations, in seconds; the answer is streamed if there is a TTFT."""
    marks = Marks(accepted_at=0, received_at=1.0, first_token_at=None if ttft is None else 1.0 + ttft)
    report = Ollama().in_band({**STATED, **stated}, Wire(marks, ttft is not None, ()))
    assert report is not None
    return report.queue_seconds


@pytest.mark.parametrize(
    ("ttft", "stated", "expected"),
    [
        pytest.param(None, {}, 1.0, id="what load, prefill and decode leave of the total"),
        pytest.param(5.5, {}, 0.5, id="what load and prefill leave of the TTFT, where that is less"),
        pytest.param(7.0, {}, 1.0, id="and not where it is more"),
        pytest.param(5.5, {"total_duration": None}, 0.5, id="the TTFT alone"),
        pytest.param(None, {"total_duration": 9 * SECOND - 1000}, 0.0, id="two clocks differ by a microsecond"),
        pytest.param(None, {"total_duration": 8 * SECOND}, None, id="parts that exceed their whole"),
        pytest.param(4.0, {}, None, id="a load that the wire cannot hold"),
        pytest.param(5.5, {"load_duration": None}, None, id="no load stated"),
        pytest.param(5.5, {"load_duration": "3s"}, None, id="an odd load"),
        pytest.param(5.5, {"prompt_eval_duration": -1}, None, id="no prefill"),
        pytest.param(None, {"eval_duration": None}, None, id="no decode"),
    ],
)
def test_the_queue_is_what_is_left(ttft: float | None, stated: dict[str, object], expected: float | None) -> None:
    """It is an upper bound, or nothing; loading a model is never part of it."""
    assert queue(ttft, **stated) == expected


def test_what_states_nothing_is_no_report() -> None:
    """Such are answers on `/v1/*`, and answers that only loaded a model."""
    assert Ollama().in_band({}, Wire(Marks(accepted_at=0), False, ())) is None


def post(path: str, **body: object) -> bytes:
    data = json.dumps({"model": "tiny", **body}).encode()
    return b"POST %s HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(data), data)


@pytest.mark.parametrize(("body", "streaming"), [({}, True), ({"stream": True}, True), ({"stream": False}, False)])
def test_a_request_that_does_not_say_stream_is_one(body: dict[str, object], streaming: bool) -> None:
    """This is known before any answer: the client left while it waited."""
    walk = Walk(engine=Engine("ollama", ["tiny"]))
    client = walk.client()
    client.send(post("/api/chat", messages=[], **body))

    client.end()

    assert [(account.streaming, account.outcome) for account in walk.accounts] == [
        (streaming, Outcome.CLIENT_CANCELLED)
    ]


def test_a_last_line_without_its_end_is_read() -> None:
    """The line ends with the answer."""
    walk = Walk(engine=Engine("ollama", ["tiny"]))
    walk.client().send(post("/api/generate", prompt="why?"))
    lines = b'{"response":"a","done":false}\n' + json.dumps({"response": "", "done": True, "eval_count": 7}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson; charset=utf-8\r\ncontent-length: %d\r\n\r\n"
    walk.engine.send(head % len(lines) + lines)

    (account,) = walk.accounts
    assert account.marks.usage is not None
    assert (account.outcome, account.marks.usage.completion_tokens) == (Outcome.OK, 7)


def test_usage_is_asked_for_on_chat_and_taken_out_again() -> None:
    """Its completions would put an empty usage into every chunk: there the request is sent on unchanged."""
    walk = Walk(engine=Engine("ollama", ["tiny"]))
    completions = post("/v1/completions", stream=True, prompt="why?")
    walk.client().send(completions)
    assert walk.engine.taken == completions

    client = walk.client()
    client.send(post("/v1/chat/completions", stream=True, messages=[]))
    assert b'"stream_options":{"include_usage":true}' in walk.engine.taken
    finish = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}\n\n'
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}\n\n'
    done = b"data: [DONE]\n\n"
    walk.engine.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    walk.engine.send(b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in (finish, usage, done)) + b"0\r\n\r\n")

    assert finish in client.taken
    assert done in client.taken
    assert b"usage" not in client.taken
    assert walk.value("llm_prompt_tokens_sum") == 5
