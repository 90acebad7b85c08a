"""How each API begins, goes on, ends and fails, as engines write it: the material of the matrix of ends.

One `Api` a row. A stream is its events in order; a whole answer is one JSON value. Words of engines are real ones: vLLM 0.32 and 0.33,
SGLang 0.5.23, LMDeploy 0.18, llama.cpp b11434, TGI 3.3.6, Ollama fb307609, Triton 2.73, Anthropic's and OpenAI's references.
"""

import json
from dataclasses import dataclass, field
from typing import Any


def event(data: object, name: str = "") -> bytes:
    """A server-sent event."""
    return (f"event: {name}\n" if name else "").encode() + b"data: %b\n\n" % json.dumps(data).encode()


def line(data: object) -> bytes:
    """A line of JSON."""
    return json.dumps(data).encode() + b"\n"


DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Api:
    """One API of one engine. Each tuple holds events as bytes."""

    path: str
    begin: tuple[bytes, ...]
    token: bytes
    finish: tuple[bytes, ...]
    """The finish reason, and all that comes with it."""
    end: tuple[bytes, ...] = ()
    """The end mark, if the API has one besides the finish."""
    denied: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    """Ends that say that the answer is not whole, by a name."""
    whole: Any = None
    """A whole answer that is not streamed."""
    unfinished: Any = None
    """The same without its finish; None if the API has none."""
    failed: dict[str, Any] = field(default_factory=dict)
    """Whole answers, with status 200, that say that they failed."""
    media_type: str = "text/event-stream"
    has_marks: bool = True
    tokens: int | None = 2
    """Output tokens that a whole stream states."""


def _chat(delta: dict[str, object], reason: str | None = None, index: int = 0) -> bytes:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
    return event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]})


_USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
_ERRORS = {
    "an error": event({"error": {"message": "CUDA out of memory", "type": "InternalServerError", "code": 500}}),
    "an error object": event(
        {"object": "error", "message": "CUDA out of memory", "type": "InternalServerError", "code": 500}
    ),
}
_MESSAGE = {"role": "assistant", "content": "ab"}

CHAT = Api(
    "/v1/chat/completions",
    (_chat({"role": "assistant", "content": ""}),),
    _chat({"content": "a"}),
    (_chat({}, "stop"), event({"choices": [], "usage": _USAGE})),
    (DONE,),
    {
        "an abort": (_chat({}, "abort"), event({"choices": [], "usage": _USAGE}), DONE),
        "an error as its reason": (_chat({"content": "b"}, "error"), DONE),
        **{name: (said, DONE) for name, said in _ERRORS.items()},
        "an error in its choice": (event({"choices": [{"index": 0, "delta": {}, "error": {"code": 502}}]}), DONE),
        "an event named error": (event({"message": "gone"}, "error"),),
    },
    {"choices": [{"index": 0, "message": _MESSAGE, "finish_reason": "stop"}], "usage": _USAGE},
    {"choices": [{"index": 0, "message": _MESSAGE, "finish_reason": None}], "usage": _USAGE},
    {
        "an abort": {"choices": [{"index": 0, "message": _MESSAGE, "finish_reason": "abort"}], "usage": _USAGE},
        "an error": {"error": {"message": "CUDA out of memory", "code": 500}},
        "an error object": {"object": "error", "message": "CUDA out of memory", "code": 500},
    },
)  # fmt: skip


def _text(text: str, reason: str | None = None) -> bytes:
    return event({"object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": reason}]})


COMPLETIONS = Api(
    "/v1/completions",
    (),
    _text("a"),
    (_text("b", "length"), event({"choices": [], "usage": _USAGE})),
    (DONE,),
    {"an abort": (_text("", "abort"), DONE), **{name: (said, DONE) for name, said in _ERRORS.items()}},
    {"choices": [{"index": 0, "text": "ab", "finish_reason": "stop"}], "usage": _USAGE},
    {"choices": [{"index": 0, "text": "ab", "finish_reason": None}], "usage": _USAGE},
    {"an error": {"error": {"message": "gone"}}},
)


def _typed(kind: str, **more: object) -> bytes:
    return event({"type": kind, **more}, kind)


def _over(status: str, kind: str = "") -> bytes:
    usage = {"input_tokens": 9, "output_tokens": 2}
    said = {"id": "resp_1", "status": status, "output": [{"type": "message"}], "usage": usage}
    return _typed(f"response.{kind or status}", response=said)


_RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "ab"}]}],
    "usage": {"input_tokens": 9, "output_tokens": 2},
}
RESPONSES = Api(
    "/v1/responses",
    (_typed("response.created", response={"id": "resp_1", "status": "in_progress"}),),
    _typed("response.output_text.delta", delta="a"),
    (_over("completed"),),
    (),
    {
        "a failed status": (_over("failed"),),
        "a cancelled status": (_over("cancelled"),),
        "a cancelled status in the last event, as vLLM names it": (_over("cancelled", "completed"),),
        "an event named error": (event({"type": "error", "message": "gone"}, "error"),),
        "an error in its beginning": (_typed("response.in_progress", response={"error": {"code": "server_error"}}),),
        "an event of the type error": (_typed("response.error", code="server_error"),),
        "a failed status without its response": (_typed("response.failed", response=None),),
    },
    {**_RESPONSE, "status": "completed"},
    _RESPONSE,
    {
        "a failed status": {**_RESPONSE, "status": "failed", "error": {"code": "server_error"}},
        "a cancelled status": {**_RESPONSE, "status": "cancelled"},
    },
)

_BLOCK = {"type": "text", "text": "ab"}
_COUNTS = {"input_tokens": 9, "output_tokens": 2}
MESSAGES = Api(
    "/v1/messages",
    (
        _typed("message_start", message={"type": "message", "content": [], "usage": {"input_tokens": 9, "output_tokens": 0}}),
        _typed("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        _typed("ping"),
    ),
    _typed("content_block_delta", index=0, delta={"type": "text_delta", "text": "a"}),
    (
        _typed("content_block_stop", index=0),
        _typed("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
    ),
    (_typed("message_stop"),),
    {
        "an error": (_typed("error", error={"type": "overloaded_error", "message": "Overloaded"}),),
        "an abort": (_typed("message_delta", delta={"stop_reason": "abort"}), _typed("message_stop")),
    },
    {"type": "message", "content": [_BLOCK], "stop_reason": "end_turn", "usage": _COUNTS},
    {"type": "message", "content": [_BLOCK], "stop_reason": None, "usage": _COUNTS},
    {"an error": {"type": "error", "error": {"type": "api_error", "message": "gone"}}},
)  # fmt: skip

OLLAMA = Api(
    "/api/chat",
    (),
    line({"model": "tiny", "message": {"role": "assistant", "content": "a"}, "done": False}),
    (line({"model": "tiny", "message": {"content": ""}, "done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 2}),),
    (),
    {"an error": (line({"error": "llama runner process has terminated"}),)},
    {"message": _MESSAGE, "done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 2},
    {"message": _MESSAGE, "done": False},
    {"an error": {"error": "llama runner process has terminated"}},
    media_type="application/x-ndjson",
)  # fmt: skip

_LLAMA_END = {
    "index": 0,
    "content": "",
    "stop": True,
    "stop_type": "limit",
    "tokens_predicted": 2,
    "tokens_evaluated": 9,
}
LLAMA = Api(
    "/completion",
    (),
    event({"index": 0, "content": "a", "stop": False}),
    (event(_LLAMA_END),),
    (),
    {"an error": (event({"error": {"code": 500, "message": "context shift is disabled"}}),)},
    {**_LLAMA_END, "content": "ab"},
    {"index": 0, "content": "ab"},
    {"an error": {"error": {"code": 500, "message": "gone"}}},
)

_TGI_END = {"finish_reason": "length", "generated_tokens": 2, "input_length": 9}
TGI = Api(
    "/generate_stream",
    (),
    event({"index": 1, "token": {"id": 5, "text": "a"}, "generated_text": None, "details": None}),
    (event({"index": 2, "token": {"id": 5, "text": "b"}, "generated_text": "ab", "details": _TGI_END}),),
    (),
    {
        "an error": (
            event({"error": "Request failed during generation: Server error: gone", "error_type": "generation"}),
        )
    },
    {"generated_text": "ab", "details": _TGI_END},
    {},
    {"an error": {"error": "gone", "error_type": "generation"}},
)


def _sglang(tokens: int, reason: object = None) -> dict[str, object]:
    return {
        "text": "a" * tokens,
        "meta_info": {"prompt_tokens": 9, "completion_tokens": tokens, "finish_reason": reason},
    }


SGLANG = Api(
    "/generate",
    (),
    event(_sglang(1)),
    (event(_sglang(2, {"type": "length", "length": 2})),),
    (DONE,),
    {
        "an abort": (event(_sglang(2, {"type": "abort", "message": "Abort before prefill"})), DONE),
        "an abort with a status": (event(_sglang(2, {"type": "abort", "status_code": 500})), DONE),
        "an error": (event({"error": {"message": "gone"}}), DONE),
    },
    _sglang(2, {"type": "stop"}),
    _sglang(2),
    {"an abort": _sglang(2, {"type": "abort", "status_code": 500}), "an error": {"error": {"message": "gone"}}},
)

TRITON = Api(
    "/v2/models/tiny/generate_stream",
    (),
    event({"model_name": "tiny", "text_output": "a"}),
    (event({"model_name": "tiny", "text_output": "b"}),),
    (),
    {"an error": (event({"error": "in ensemble 'ensemble', gone"}),)},
    {"model_name": "tiny", "text_output": "ab"},
    None,
    {"an error": {"error": "gone"}},
    has_marks=False,
    tokens=None,
)


def _tokens(ids: list[int], reason: str | None = None) -> bytes:
    return event({"request_id": "r", "choices": [{"index": 0, "token_ids": ids, "finish_reason": reason}]})


TOKENS = Api(
    "/inference/v1/generate",
    (),
    _tokens([5]),
    (_tokens([6], "length"), event({"request_id": "r", "choices": [], "usage": _USAGE})),
    (DONE,),
    {"an abort": (_tokens([], "abort"), DONE), "an error": (_ERRORS["an error"], DONE)},
    {"request_id": "r", "choices": [{"index": 0, "token_ids": [5, 6], "finish_reason": "length"}]},
    {"request_id": "r", "choices": [{"index": 0, "token_ids": [5, 6], "finish_reason": None}]},
    {"an error": {"error": {"message": "gone", "code": 500}}},
)

SPOKEN = {
    "tokens": TOKENS,
    "chat": CHAT,
    "completions": COMPLETIONS,
    "responses": RESPONSES,
    "messages": MESSAGES,
    "ollama": OLLAMA,
    "llama.cpp": LLAMA,
    "tgi": TGI,
    "sglang": SGLANG,
    "triton": TRITON,
}
