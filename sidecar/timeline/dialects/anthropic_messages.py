"""`/v1/messages`, Anthropic's API, as Anthropic, vLLM 0.32 and llama.cpp b11434 serve it.

It knows two traps. **Counts are split**: `message_start` states the prompt, `message_delta` the output (and on newer
servers all counts again); the timeline merges them, and later values replace earlier ones. **`input_tokens` leaves out
cached tokens**: by Anthropic's contract the prompt is input_tokens + cache_read_input_tokens +
cache_creation_input_tokens, and vLLM (since PR 40912) and llama.cpp follow it. vLLM's `message_start` has no cache
fields and states the whole prompt in input_tokens: the same sum. In vLLM a sum of 0 means "not known yet" and is no
count. The output_tokens of `message_start` is a placeholder and is not read.

It departs from design section 2 in one place: a `signature_delta` or `citations_delta` is no output, because the server
adds them and no model generated them. A `ping` gives NOTHING.
"""

from typing import Any

import msgspec

from sidecar.timeline.dialects.fields import Fields
from sidecar.timeline.dialects.json_fields import at, count, decode, fields_stated, shape, states, strange
from sidecar.timeline.events import DONE, ERROR, EXTRAS, NOTHING, OUTPUT, REASONING, StreamEvent, Usage
from sidecar.timeline.finish import denies, finish_of


_IN_BOTH = ["type", "error", *EXTRAS, "usage.input_tokens", "usage.output_tokens"]
_IN_BOTH += ["usage.cache_read_input_tokens", "usage.cache_creation_input_tokens"]
_MESSAGE_TYPE = shape("message", [*_IN_BOTH, "content", "stop_reason"], {})
_TYPED = msgspec.json.Decoder(
    shape("event", [*_IN_BOTH, "delta.type", "delta.stop_reason"], {"message": _MESSAGE_TYPE | None})
)
_MESSAGE = msgspec.json.Decoder(_MESSAGE_TYPE)
_FIELD_OF_WORDS = {"text": "text", "thinking": "thinking"}
"""Type of a block that has words alone, to the field with them."""
_ADDED_BY_THE_SERVER = ("signature_delta", "citations_delta")
_SAY_NOTHING = ("content_block_start", "content_block_stop", "ping")


class AnthropicMessages(Fields):
    """The dialect. Its counts are split over two events, so that of the row it takes the name alone."""

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:
        """One typed event; the type in its data takes precedence over the `event` field. Raises UnreadableEvent."""
        said = decode(_TYPED, data)
        kind = said.type if isinstance(said.type, str) else event.decode("utf-8", "replace")
        if kind == "content_block_delta":
            of = at(said, ("delta", "type"))
            return NOTHING if of in _ADDED_BY_THE_SERVER else REASONING if of == "thinking_delta" else OUTPUT
        if kind == "error" or states(said.error):
            return ERROR
        extras = fields_stated(said, EXTRAS)
        if kind == "message_start":
            return StreamEvent(usage=_usage(at(said, ("message", "usage")), final=False), extras=extras)
        if kind == "message_delta":
            reason = at(said, ("delta", "stop_reason"))
            return StreamEvent(
                finished=(0,) if reason else (),
                finish=finish_of(reason) if reason else None,
                usage=_usage(said.usage, final=True),
                extras=extras,
                error=denies(reason),
            )
        if kind == "message_stop":
            return DONE if extras is None else StreamEvent(extras=extras, done=True)
        if extras is None:
            return NOTHING if kind in _SAY_NOTHING else strange(data)
        return StreamEvent(extras=extras)

    def read_body(self, body: bytes) -> StreamEvent:
        """A whole `message` object, or an error object. Raises UnreadableEvent."""
        message = decode(_MESSAGE, body)
        denied = message.type == "error" or states(message.error) or denies(message.stop_reason)
        return StreamEvent(
            output=(0,) if message.content else (),
            finished=(0,) if message.stop_reason else (),
            finish=finish_of(message.stop_reason) if message.stop_reason else None,
            wordless=isinstance(message.content, list) and all(map(_is_blank, message.content)),
            usage=_usage(message.usage, final=True),
            extras=fields_stated(message, EXTRAS),
            error=denied or (message.content is None and strange(body).error),
        )


def _is_blank(block: object) -> bool:
    """A block of text or thinking without a word."""
    if not isinstance(block, dict) or not isinstance(kind := block.get("type"), str):
        return False
    return kind in _FIELD_OF_WORDS and not block.get(_FIELD_OF_WORDS[kind])


def _usage(stated: Any, *, final: bool) -> Usage | None:
    if stated is None or stated is msgspec.UNSET:
        return None
    fresh = count(stated.input_tokens)
    cached = count(stated.cache_read_input_tokens)
    created = count(stated.cache_creation_input_tokens)
    return Usage(
        prompt_tokens=None if fresh is None else (fresh + (cached or 0) + (created or 0)) or None,
        cached_tokens=cached,
        completion_tokens=count(stated.output_tokens) if final else None,
    )


ANTHROPIC_MESSAGES = AnthropicMessages("anthropic_messages")
