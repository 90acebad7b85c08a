"""The bodies that the simulated engine reads and writes: OpenAI chat completions and completions in vLLM 0.33's format.

It contains bodies, chunks and error shapes, as bytes. Connections and time are in `http_face.py`: durations and the
`created` second are passed in. There is no tokeniser: four bytes count as one token, and generated text is filler.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

from sidecar.commands.simulator.simulation import SimulatedRequest


BYTES_A_TOKEN = 4
"""About right for English text in today's vocabularies; only the order of magnitude matters."""
WORDS = (
    *(" the", " queue", " was", " long", " and", " the", " prefill", " short", ","),
    *(" so", " tokens", " came", " late", "."),
)


class RefusedError(ValueError):
    """A request that vLLM would answer with an error. Carries its HTTP status and vLLM's name for it."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": status}})


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Body(msgspec.Struct):
    model: str | None = None
    messages: list[dict[str, Any]] | None = None
    prompt: str | list[str | int] | None = None
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    ignore_eos: bool = False
    n: int | None = 1


@dataclass(frozen=True, slots=True)
class Question:
    model: str | None
    prompt: bytes
    stream: bool
    include_usage: bool
    max_tokens: int | None
    ignore_eos: bool

    @property
    def prompt_tokens(self) -> int:
        """Prompt length in tokens, at least 1."""
        return max(1, -(-len(self.prompt) // BYTES_A_TOKEN))

    def block_hashes(self, block_size: int) -> list[bytes]:
        """One hash per full block of the prompt, chained to those before it: equal prefixes have equal hashes."""
        width = block_size * BYTES_A_TOKEN
        chain = b""
        hashes = []
        for start in range(0, len(self.prompt) - width + 1, width):
            chain = blake2b(chain + self.prompt[start : start + width], digest_size=12).digest()
            hashes.append(chain)
        return hashes


def read_question(body: bytes, *, chat: bool) -> Question:
    """Read a request's body. Raises RefusedError."""
    try:
        asked = msgspec.json.decode(body, type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(400, "BadRequestError", str(error)) from None
    if asked.n not in (None, 1):
        raise RefusedError(400, "BadRequestError", "the simulated engine answers with one choice")
    max_tokens = asked.max_tokens if asked.max_completion_tokens is None else asked.max_completion_tokens
    if max_tokens is not None and max_tokens < 1:
        raise RefusedError(400, "BadRequestError", f"max_tokens must be at least 1, got {max_tokens}.")
    return Question(
        asked.model,
        _rendered(asked.messages) if chat else _flattened(asked.prompt),
        bool(asked.stream),
        asked.stream_options is not None and asked.stream_options.include_usage,
        max_tokens,
        asked.ignore_eos,
    )


def _rendered(messages: list[dict[str, Any]] | None) -> bytes:
    if not messages:
        raise RefusedError(400, "BadRequestError", "messages is required")
    lines = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(part.get("text") or "" for part in content if isinstance(part, dict))
        lines.append(f"{message.get('role')}: {content}\n")
    return "".join(lines).encode(errors="surrogatepass")


def _flattened(prompt: str | list[str | int] | None) -> bytes:
    if not prompt:
        raise RefusedError(400, "BadRequestError", "prompt is required")
    if isinstance(prompt, str):
        return prompt.encode(errors="surrogatepass")
    tokens = [token for token in prompt if isinstance(token, int)]
    if len(tokens) == len(prompt):
        # Token ids may have any size. Only the lower four bytes are kept: equal ids must give equal hashes, no more.
        return b"".join((token % 2**32).to_bytes(BYTES_A_TOKEN, "little") for token in tokens)
    if len(prompt) > 1 or isinstance(prompt[0], int):
        raise RefusedError(400, "BadRequestError", "the simulated engine answers one prompt at a time")
    return prompt[0].encode(errors="surrogatepass")


class Answer:
    """The bytes of one response, streamed or whole. `created` is a Unix second, `identity` the id with its prefix."""

    def __init__(self, identity: str, created: int, model: str, finish_reason: str, *, chat: bool) -> None:
        self._chat = chat
        self._finish_reason = finish_reason
        self._envelope = {
            "id": identity,
            "object": "chat.completion.chunk" if chat else "text_completion",
            "created": created,
            "model": model,
        }
        # A token's chunk is a word within this frame. The frame is encoded once: a laptop sends a thousand per second.
        hole = "\x00"
        self._before, self._after = _event({**self._envelope, "choices": [self._delta(hole, None)]}).split(rb"\u0000")

    @property
    def opening(self) -> bytes:
        """The role chunk of a chat; empty for completions, which have none."""
        if not self._chat:
            return b""
        choice = self._delta("", None) | {"delta": {"role": "assistant", "content": ""}}
        return _event({**self._envelope, "choices": [choice]})

    def token(self, number: int, *, last: bool) -> bytes:
        """The chunk of one token; the last one carries the finish reason."""
        word = WORDS[number % len(WORDS)]
        if last:
            return _event({**self._envelope, "choices": [self._delta(word, self._finish_reason)]})
        return self._before + word.encode() + self._after

    def usage(self, request: SimulatedRequest, metrics: dict[str, float | None] | None) -> bytes:
        """The chunk that include_usage adds: no choice, the usage, and the engine's times if it reports them."""
        chunk: dict[str, Any] = {**self._envelope, "choices": [], "usage": _usage(request)}
        return _event(chunk if metrics is None else {**chunk, "metrics": metrics})

    def whole(self, request: SimulatedRequest, metrics: dict[str, float | None] | None) -> bytes:
        text = "".join(WORDS[number % len(WORDS)] for number in range(request.output_tokens))
        choice: dict[str, Any] = {
            "index": 0,
            "logprobs": None,
            "finish_reason": self._finish_reason,
            "stop_reason": None,
        }
        if self._chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        kind = "chat.completion" if self._chat else "text_completion"
        body = {**self._envelope, "object": kind, "choices": [choice], "usage": _usage(request)}
        return msgspec.json.encode(body if metrics is None else {**body, "metrics": metrics})

    def _delta(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        content: dict[str, Any] = {"delta": {"content": text}} if self._chat else {"text": text}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}
        return choice if finish_reason is None and self._chat else {**choice, "stop_reason": None}


END_MARK = b"data: [DONE]\n\n"


def per_request_metrics(request: SimulatedRequest, factor: float = 1.0) -> dict[str, float | None]:
    """The `metrics` object of vLLM (`--enable-per-request-metrics`, since 0.25), in milliseconds.

    `time_to_first_token_ms` counts from first scheduled, so it is the prefill. `factor` multiplies all durations: other
    than 1 it simulates an engine with wrong reports.
    """
    phases = request.phases
    tokens = request.output_tokens
    decode = phases.decode_seconds
    busy = phases.prefill_seconds + decode
    return {
        "time_to_first_token_ms": phases.prefill_seconds * 1e3 * factor,
        "generation_time_ms": decode * 1e3 * factor,
        "queue_time_ms": phases.queue_seconds * 1e3 * factor,
        "mean_itl_ms": decode * 1e3 * factor / (tokens - 1) if tokens > 1 else None,
        "tokens_per_second": tokens / busy / factor if busy else None,
    }


def models(names: Sequence[str], created: int, max_model_len: int) -> bytes:
    cards: list[dict[str, Any]] = [
        {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "vllm",
            "root": name,
            "parent": None,
            "max_model_len": max_model_len,
            "permission": [],
        }
        for name in names
    ]
    return msgspec.json.encode({"object": "list", "data": cards})


def _usage(request: SimulatedRequest) -> dict[str, Any]:
    return {
        "prompt_tokens": request.prompt_tokens,
        "total_tokens": request.prompt_tokens + request.output_tokens,
        "completion_tokens": request.output_tokens,
        "prompt_tokens_details": {"cached_tokens": request.cached_tokens},
    }


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"
