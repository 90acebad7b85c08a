"""The content of one event of a response, in the terms that all API dialects share.

A dialect (`dialects/`) turns the JSON of one event, or of a whole non-streamed body, into a `StreamEvent`. No other code
reads that JSON: the timeline counts outputs and finishes, the ledger reads usage, and the engine's own file
(`sidecar/engines/`) reads `extras`, the fields that an engine adds to the API's own.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from sidecar.timeline.finish import Finish
from sidecar.timeline.proof import BOTH_MARKS, ApiMarks


class Usage(NamedTuple):
    """Token counts as the engine states them; None if it does not state one."""

    prompt_tokens: int | None = None
    """All tokens of the prompt, the cached ones included."""
    cached_tokens: int | None = None
    """Prompt tokens that came from the prefix cache."""
    completion_tokens: int | None = None
    """All generated tokens, reasoning included."""
    reasoning_tokens: int | None = None


NO_USAGE = Usage()


class StreamEvent(NamedTuple):
    """The content of one event or of one whole body. By default it is empty."""

    output: tuple[int, ...] = ()
    """Indexes of the choices for which this event carries generated output (design section 2)."""
    reasons: bool = False
    """All its output is reasoning, or says nothing: the answer itself has not begun with it."""
    finished: tuple[int, ...] = ()
    """Indexes of the choices with a finish reason in this event."""
    finish: Finish | None = None
    """The finish reason, of several choices the first one; None where nothing finished, or no reason is stated."""
    wordless: bool = False
    """All output of this event is the end of an answer, without a text: a token that is no more than an end mark."""
    usage: Usage | None = None
    bare_usage: bool = False
    """The event has usage and no choice: the chunk that `include_usage` adds."""
    null_usage: bool = False
    """The event has a `usage` key that is null: this server answers `include_usage` in every chunk."""
    extras: Mapping[str, object] | None = None
    """Fields that engines add to the API's own (`metrics`, `timings`, ...), undecoded; read by `sidecar/engines/`."""
    error: bool = False
    """The server says that the answer is not whole: an error in a response that began without one, an abort, a failed status."""
    cancelled: bool = False
    """With `error`: the server says that it was told to stop, perhaps by the client."""
    accepted: bool = False
    """The whole answer is no more than a receipt: the work is yet to be done."""
    done: bool = False
    """The API's own end mark: `[DONE]`, `message_stop`, `response.completed`."""


NOTHING = StreamEvent()
OUTPUT = StreamEvent(output=(0,))
"""The content of nearly every event: output of choice 0."""
REASONING = StreamEvent(output=(0,), reasons=True)
ERROR = StreamEvent(error=True)
DONE = StreamEvent(done=True)


def together(events: Sequence[StreamEvent]) -> StreamEvent:
    """Several whole answers in one body, one for each prompt or sample. Each has its own times and counts, and there is one ledger:
    usage and extras are left out.
    """
    reasons = [event.finish for event in events if event.finish is not None]
    done = bool(events) and all(event.finished for event in events)
    return StreamEvent(
        output=(0,) if any(event.output for event in events) else (),
        finished=tuple(range(len(events))) if done else (),
        finish=reasons[0] if reasons else None,
        wordless=all(event.wordless or not event.output for event in events),
        error=any(event.error for event in events),
    )


class Extras(msgspec.Struct, frozen=True):
    """Top-level fields that engines add to the API's own."""

    metrics: Any = None
    """vLLM, `--enable-per-request-metrics`."""
    timings: Any = None
    """llama.cpp, always on the last chunk."""
    nvext: Any = None
    """Dynamo."""
    meta_info: Any = None
    """SGLang."""
    sglext: Any = None
    """SGLang."""
    prompt_progress: Any = None
    """llama.cpp with `return_progress`: sent during prefill, before any token."""
    server_timing: Any = msgspec.field(default=None, name="Server-Timing")
    """TensorRT-LLM, in an event of its own behind the end mark: where the answer was asked for it."""


EXTRAS = Extras.__struct_fields__
RENAMED = dict(zip(EXTRAS, Extras.__struct_encode_fields__, strict=True))
"""These fields, to their names in JSON."""
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)
"""Exceptions that msgspec raises on data: no JSON, odd shape, nesting bomb, number or character out of range."""


class UnreadableEvent(ValueError):  # noqa: N818  it happens, it is no error of ours
    """The event does not fit its dialect. The caller counts it and goes on; the relayed bytes are not affected."""


T = TypeVar("T")


def loosely(decoder: "msgspec.json.Decoder[T]", data: bytes) -> T:
    """Decode what the decoder refuses and Python's `json` writes or reads: `NaN`, `Infinity`, half a surrogate pair, bytes that are no UTF-8.
    Raises UnreadableEvent.
    """
    try:
        return msgspec.convert(_read(data), decoder.type)
    except UNREADABLE as error:
        raise UnreadableEvent(str(error)) from error


def _read(data: bytes) -> object:
    return json.loads(data.decode("utf-8-sig", "replace"))


def is_json(data: bytes) -> bool:
    """Whether the data is one JSON object or list, as `loosely` reads it. One that nests too deep to be read is taken for one."""
    try:
        return isinstance(_read(data), dict | list)
    except ValueError:
        return False
    except RecursionError:
        return True


class Dialect(Protocol):
    """One API's format of events and bodies. Stateless, so one instance serves every request."""

    name: str
    end_marks: ApiMarks = BOTH_MARKS
    """The marks by which the API says that an answer is whole."""
    has_usage_option: bool = False
    """A stream states usage only if `stream_options.include_usage` asks for it."""
    streams_unsaid: bool = False
    """The answer is a stream if the request does not state `stream`."""
    in_lines: bool = False
    """Its stream is lines of JSON; else server-sent events."""
    model_in_path: bool = False
    """The path names the model, and the request's body does not."""
    token: Callable[..., object] | None = None
    """The short way of `EventReader`, or None: raises one of UNREADABLE unless the data is OUTPUT alone."""

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:
        """Read one event: its `event` field (empty if absent) and its joined data. Raises UnreadableEvent.

        `EventReader` itself reads the end mark, events named `error` and events without data.
        """

    def read_body(self, body: bytes) -> StreamEvent:
        """Read a whole non-streamed JSON answer. Raises UnreadableEvent."""
