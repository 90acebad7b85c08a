"""The table of APIs that are read by `fields.py`: which field carries what, one row an API, and what its engines do with it.

A new API is a row here, its path in `sidecar/timeline/apis.py`, and a recorded stream. Versions: vLLM 0.33, SGLang 0.5.23, llama.cpp b11434,
LMDeploy 0.18, TGI 3.3.6, Triton 2.73. Some rows have a narrow type of token, for the short way of a stream.
"""

from types import GenericAlias
from typing import Annotated, Any, Literal

import msgspec

from sidecar.timeline.dialects.fields import Fields
from sidecar.timeline.events import EXTRAS, RENAMED
from sidecar.timeline.proof import NO_MARKS


_ARGUMENTS = dict[str, Any]
_OPENAI: _ARGUMENTS = {
    "choices": "choices",
    "index": "index",
    "ends": ("finish_reason",),
    "reason": "finish_reason",
    "prompt_tokens": ("usage.prompt_tokens",),  # the cached ones included
    "cached_tokens": (
        "usage.prompt_tokens_details:cached_tokens",
    ),  # null in vLLM without --enable-prompt-tokens-details
    "completion_tokens": ("usage.completion_tokens",),  # those of reasoning included
    "reasoning_tokens": (
        "usage.completion_tokens_details:reasoning_tokens",
        "usage.reasoning_tokens",
    ),  # the last: SGLang
    "extras": EXTRAS,
    "has_usage_option": True,
}
"""Chunks with choices, usage, an error, and the fields that engines add, as OpenAI and the engines that follow it write them."""


def _narrow(fields: list[Any], absent: tuple[str, ...]) -> Any:
    """The type of an object with these fields, in which those are absent or null."""
    members = [*fields, *((each, None, None) for each in absent)]
    return msgspec.defstruct("Narrow", members, module=__name__, kw_only=True, frozen=True, rename=RENAMED)


def _chunk_of(*fields: Any) -> Any:
    """Decodes a chunk with one choice of these fields, without a finish, and with nothing else of this table: raises for any other."""
    one = GenericAlias(tuple, (_narrow([("index", Literal[0], 0), *fields], ("finish_reason", "error")),))
    chunk = _narrow([("choices", one), ("usage", msgspec.UnsetType, msgspec.UNSET)], ("error", *EXTRAS))
    return msgspec.json.Decoder(chunk).decode


class _Object(msgspec.Struct, frozen=True):
    pass


class _Delta(msgspec.Struct, frozen=True):
    content: Annotated[str, msgspec.Meta(min_length=1)]


OPENAI_CHAT = Fields(
    "openai_chat",
    # Sound with an id or an end alone frames the sound.
    answer=("content", "tool_calls", "function_call", "refusal", "images", "audio:data", "audio:transcript"),
    reasoning=(
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "reasoning_text",
        "thinking",
    ),  # the third: OpenRouter
    within=("delta", "message"),
    blank="content",
    framed_by="role",  # each server sends the role frame at another moment
    token=_chunk_of(("delta", _Delta), ("message", _Object | None, None)),
    **_OPENAI,
)
"""`/v1/chat/completions`, as OpenAI, vLLM, SGLang, llama.cpp and LMDeploy serve it."""

OPENAI_COMPLETIONS = Fields(
    "openai_completions",
    answer=("text",),
    blank="text",
    farewell=("timings",),  # llama.cpp's last chunk is no token; timings are by default in no other (seen on its wire)
    token=_chunk_of(("text", str)),
    **_OPENAI,
)
"""`/v1/completions`, OpenAI's older API: it has no role frame. With several prompts the indexes run over prompts times `n`."""

VLLM_GENERATE = Fields("vllm_generate", answer=("token_ids", "text"), **_OPENAI)
"""`/inference/v1/generate`, vLLM's API of tokens in and tokens out (`entrypoints/scale_out/token_in_token_out`), as llm-d uses it. The text is
there where the request asked for it, and the prompt comes as `token_ids`, so that its length is known exactly.
"""

LLAMA_COMPLETION = Fields(
    "llama_completion",
    answer=("content",),
    blank="content",
    farewell=("stop",),
    text="content",
    index="index",
    ends=("stop",),
    reason="stop_type",
    says_done=True,
    prompt_tokens=("tokens_evaluated",),
    cached_tokens=(
        "timings:cache_n",
    ),  # `tokens_cached` is what the slot holds after the answer, prompt and output together
    completion_tokens=("tokens_predicted",),
    extras=EXTRAS,
    lists=True,
)
"""llama.cpp's own `/completion`, `/completions` and `/infill` (`tools/server/server-task.cpp`). The last event states counts and `timings`."""

OLLAMA_DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
OLLAMA = Fields(
    "ollama",
    answer=("content", "response", "tool_calls", "images", "image"),
    reasoning=("thinking",),
    within=("message",),  # of a chat
    ends=("done",),
    reason="done_reason",
    receipts=("load", "unload"),  # of a request without a prompt, which loads the model or unloads it
    says_done=True,
    prompt_tokens=("prompt_eval_count",),
    completion_tokens=("eval_count",),
    extras=OLLAMA_DURATIONS,
    streams_unsaid=True,
    in_lines=True,
)
"""Ollama's own `/api/chat` and `/api/generate` (fb307609, `api/types.go` and `server/routes.go`). A line without content before the last is no
output: a parser of tool calls or thinking inside Ollama holds text back.
"""

SGLANG_GENERATE = Fields(
    "sglang_generate",
    answer=("text", "output_ids"),
    generated="meta_info.completion_tokens",  # each event has the whole text so far, which a token may leave as it was
    index="index",
    ends=("meta_info.finish_reason",),
    reason="meta_info.finish_reason",  # an object
    prompt_tokens=("meta_info.prompt_tokens",),
    cached_tokens=("meta_info.cached_tokens",),
    completion_tokens=("meta_info.completion_tokens",),
    reasoning_tokens=("meta_info.reasoning_tokens",),
    extras=("queue_time", "forward_entry_time", "prefill_finished_time", "num_retractions"),
    extras_in="meta_info",
    lists=True,
)
"""SGLang's own `/generate`, which LMDeploy serves in the same format (`openai/endpoints/generate.py`), but with the new text alone. With several
prompts or samples, events state their `index`.
"""


_TGI_TOKEN = _narrow(
    [("token", Annotated[dict[str, Any], msgspec.Meta(min_length=1)])], ("generated_text", "details", "error")
)


def tgi(*, streams_unsaid: bool = False) -> Fields:
    """Hugging Face TGI's own `/generate_stream`, `/generate` and `/` (`router/src/server.rs`).

    Each event holds one token, special ones included, and the last also `generated_text` (there is no `[DONE]`). Counts are there if the client
    asked for `details`. `/` answers like one of the other two, depending on the request's `stream`; a whole answer of `/` is wrapped in a list.
    The headers in which a whole answer states its times are for `sidecar/engines/tgi.py`. `streams_unsaid`: on this path the answer is a stream,
    whatever the request's body says or leaves out.
    """
    return Fields(
        "tgi_generate",
        answer=("token",),
        text="generated_text",
        ends=("generated_text",),
        reason="details.finish_reason",
        says_done=True,
        prompt_tokens=("details.input_length",),
        completion_tokens=("details.generated_tokens",),
        lists=True,
        streams_unsaid=streams_unsaid,
        token=msgspec.json.Decoder(_TGI_TOKEN).decode,
    )


TRITON_TIMES = ("arrival_time_ns", "first_scheduled_time_ns", "first_token_time_ns", "last_token_time_ns")


_TRITON_TOKEN = _narrow([("text_output", str)], ("num_input_tokens", "error", *TRITON_TIMES))


def triton(*, streams_unsaid: bool) -> Fields:
    """Triton's generate extension, `/v2/models/MODEL[/versions/N]/generate` and `/generate_stream`.

    Every output tensor of the model is a key of the event. LLM backends name the text `text_output`, and stream only the new text; a model with
    another name for it gets wire marks alone. The TensorRT-LLM backend adds times to its last response if the request asked for them: beside
    them an empty text is no token. The prompt's length is on each response of a request that asked for it (`return_num_input_tokens`; vLLM
    backend, `src/utils/request.py` at 11c4e0fd). Output tokens are left: some backends count those of one response, others of all so far.
    `streams_unsaid`: on this path the answer is a stream; `stream` in the body is the backend's own switch.
    """
    return Fields(
        "triton_generate",
        answer=("text_output",),
        blank="text_output",
        farewell=TRITON_TIMES,
        ends=TRITON_TIMES,
        prompt_tokens=("num_input_tokens",),
        counts_at_once=True,
        extras=TRITON_TIMES,
        end_marks=NO_MARKS,
        streams_unsaid=streams_unsaid,
        model_in_path=True,
        token=msgspec.json.Decoder(_TRITON_TOKEN).decode,
    )


ENCODES = Fields(
    "encode",
    # All that vLLM states for reranking is the second; the last is Ollama's.
    prompt_tokens=("usage.prompt_tokens", "usage.total_tokens", "prompt_eval_count"),
    counts_at_once=True,
    numbers=True,
    end_marks=NO_MARKS,
)
"""The APIs whose answers are numbers and not tokens, which are not read: embeddings, reranking, scores, classes. OpenAI's and Cohere's paths as
vLLM, SGLang, llama.cpp, Ollama and TEI serve them; TEI and llama.cpp answer with the numbers alone, a list.
"""
