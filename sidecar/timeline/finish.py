"""The end of an answer as its server states it: the closed set of finish reasons, and the words of each API for them.

Knows the words of all APIs, which do not contradict each other, so that no dialect has a table of its own. Some words deny that the
answer is whole (`denies`). Refuses to guess: a word that is not listed is `other` and denies nothing, and an answer that states none
is `unknown`. It keeps no text.
"""

from enum import StrEnum


class Finish(StrEnum):
    """How an answer ended: `llm_answers_total{finish_reason}`."""

    STOP = "stop"
    """The model ended it, or a stop sequence did. OpenAI's responses say no more of an answer that ends in a tool call."""
    LENGTH = "length"
    """It was cut: it reached the request's limit of tokens, or the model's context."""
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    """A filter or the model itself refused."""
    REPETITION = "repetition"
    """The engine ended it because it repeated itself: vLLM, for requests that ask for this check."""
    OTHER = "other"
    """The server stated another word (`pause_turn`)."""
    UNKNOWN = "unknown"
    """It stated none, or the answer was not read."""


TOOL_CALLS, NO_FINISH = Finish.TOOL_CALLS, Finish.UNKNOWN
"""The members themselves: CPython 3.11 takes ten times as long to find them by name."""
FROM_THE_START = (Finish.STOP, Finish.LENGTH, Finish.TOOL_CALLS, Finish.REPETITION)
"""Reasons of nearly all answers, and one that a canary is failed by: their counters are there from the start, at 0."""

_SAID: dict[str, Finish] = {
    # OpenAI's chat and completions, and the engines that follow them; the words of SGLang's and Ollama's own APIs are among these
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_calls": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "content_filter": Finish.CONTENT_FILTER,
    "repetition": Finish.REPETITION,
    # OpenAI's responses: the status or, of an incomplete one, its reason
    "completed": Finish.STOP,
    "max_output_tokens": Finish.LENGTH,
    # Anthropic's messages
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOL_CALLS,
    "refusal": Finish.CONTENT_FILTER,
    # TGI has stop_sequence too
    "eos_token": Finish.STOP,
    # llama.cpp's own /completion
    "eos": Finish.STOP,
    "word": Finish.STOP,
    "limit": Finish.LENGTH,
}
_DENIES = frozenset(
    {
        # vLLM 0.33 (`v1/engine/__init__.py`, FinishReason), SGLang 0.5.23, LMDeploy 0.18 (`ResponseType`)
        *("abort", "error"),
        # TensorRT-LLM 1.2 (`executor/result.py`), OpenAI's responses
        *("cancelled", "timeout", "failed"),
    }
)
"""The words with which a server says that it did not finish the answer."""


def denies(stated: object) -> bool:
    """Whether the server's word for the end says that the answer is not whole."""
    return isinstance(stated, str) and stated in _DENIES


def finish_of(stated: object) -> Finish:
    """The finish that a server's word means; `unknown` without one."""
    if not stated:
        return NO_FINISH
    return _SAID.get(stated, Finish.OTHER) if isinstance(stated, str) else Finish.OTHER
