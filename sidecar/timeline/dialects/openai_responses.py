"""`/v1/responses`, OpenAI's API of typed events, as OpenAI and vLLM 0.32 serve it.

It knows that every `*.delta` event is output (text, reasoning, refusal, arguments of calls). The `response` of the last
event holds the counts, and in vLLM also its `metrics` (since 0.31; seen on its wire). The one answer of this API is
choice 0; its `output_index` numbers items of that answer, not choices. It refuses to count `*.done` events as output:
they repeat the deltas. The API defines no `[DONE]`; a `[DONE]` that a server adds is read as the end mark. A whole answer that is `queued` or
`in_progress` is the receipt for an answer that is made in the background.
"""

from typing import Any

import msgspec

from sidecar.timeline.dialects.fields import Fields
from sidecar.timeline.dialects.json_fields import at, decode, fields_stated, shape, states, strange
from sidecar.timeline.events import ERROR, EXTRAS, NOTHING, OUTPUT, REASONING, StreamEvent
from sidecar.timeline.finish import finish_of


_OVER = ("completed", "incomplete", "failed", "cancelled")
"""Final statuses of a response; the type of its last event ends with the same word, or with `completed` whatever the status is (vLLM)."""
_TO_COME = ("queued", "in_progress")
"""Statuses of a response that is made in the background."""


class OpenAIResponses(Fields):
    """The dialect. The row tells the fields of a `response`, which an event holds and a whole answer is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        frame = self._frame()
        self._none = frame()
        self._events = msgspec.json.Decoder(shape("event", ["type", "error", *EXTRAS], {"response": frame | None}))

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:
        """One typed event; the type in its data takes precedence over the `event` field. Raises UnreadableEvent."""
        said = decode(self._events, data)
        kind = said.type if isinstance(said.type, str) else event.decode("utf-8", "replace")
        if kind.endswith(".delta"):
            return REASONING if kind.startswith("response.reasoning") else OUTPUT
        if kind in ("error", "response.error") or states(said.error):
            return ERROR
        response = said.response or self._none
        if kind.rpartition(".")[2] in _OVER and kind.count(".") == 1:
            stated = response.status
            return self._last(
                response, stated if stated in _OVER else kind.rpartition(".")[2], fields_stated(said, EXTRAS)
            )
        if states(response.error):
            return ERROR
        extras = fields_stated(said, EXTRAS)
        if extras is None:
            return NOTHING if kind.startswith("response.") else strange(data)
        return StreamEvent(extras=extras)

    def read_body(self, body: bytes) -> StreamEvent:
        """A whole `response` object, or an error object. Raises UnreadableEvent."""
        response = decode(self._decoder, body)
        if response.status not in _OVER + _TO_COME and response.output is None and strange(body).error:
            return ERROR
        status = response.status if response.status in _OVER else "failed" if states(response.error) else ""
        said = self._last(response, status, None)
        if response.status in _TO_COME and not states(response.error):
            return StreamEvent(accepted=True)
        blank = isinstance(response.output, list) and all(map(_is_blank, response.output))
        return said._replace(output=(0,) if response.output else (), wordless=blank, done=False)

    def _last(self, response: Any, status: str, beside: dict[str, object] | None) -> StreamEvent:
        """The stream event for the end of a response: usage, extras, finish and error."""
        extras = {**(beside or {}), **(fields_stated(response, EXTRAS) or {})}
        cut, over = at(response, self._reason), status in ("completed", "incomplete")
        return StreamEvent(
            finished=(0,) if over else (),
            finish=finish_of(cut or status) if over else None,
            usage=self._usage(response),
            extras=extras or None,
            error=status in ("failed", "cancelled") or states(response.error),
            cancelled=status == "cancelled",
            done=bool(status),
        )


def _is_blank(item: object) -> bool:
    """A message or reasoning without a word; a call of a tool is none, and neither is an item of a type that is not known."""
    if not isinstance(item, dict):
        return False
    if item.get("type") == "reasoning":
        return not (item.get("content") or item.get("summary") or item.get("encrypted_content"))
    if item.get("type") != "message" or not isinstance(parts := item.get("content"), list):
        return False
    return all(isinstance(part, dict) and not part.get("text") and not part.get("refusal") for part in parts)


OPENAI_RESPONSES = OpenAIResponses(
    "openai_responses",
    answer=("output",),
    ends=("status",),
    reason="incomplete_details.reason",
    prompt_tokens=("usage.input_tokens",),
    cached_tokens=("usage.input_tokens_details:cached_tokens",),
    completion_tokens=("usage.output_tokens",),
    reasoning_tokens=("usage.output_tokens_details:reasoning_tokens",),
    extras=EXTRAS,
)
