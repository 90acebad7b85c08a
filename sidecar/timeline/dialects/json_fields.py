"""Functions that the dialects share: decoding of untrusted JSON objects, and the stream events that most frames give.

It knows types and refuses to know meanings. Engines differ in the types of fields that are not read (content as a list
of parts, delta null, logprobs of any shape), so leaf fields are decoded as any type. An event is unreadable only if its
shape leaves nothing to read (no JSON, no object, choices that are no list).
"""

import re
from typing import Any

import msgspec

from sidecar.timeline.events import (
    ERROR,
    NOTHING,
    OUTPUT,
    REASONING,
    UNREADABLE,
    StreamEvent,
    T,
    UnreadableEvent,
    loosely,
)
from sidecar.timeline.finish import Finish


_FIRST = [0]
SEVERAL = b"["
"""First byte of an answer that is a list."""

MAX_COUNT = 2**53
"""The largest count that is accepted: above it, JSON numbers in other programs are not exact."""


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

    def found(self) -> dict[str, object] | None:
        """The fields that are present in this event, by name; None if there is none."""
        if (
            self.metrics is None
            and self.timings is None
            and self.nvext is None
            and self.meta_info is None
            and self.sglext is None
            and self.prompt_progress is None
            and self.server_timing is None
        ):
            return None
        return {name: value for name in Extras.__struct_fields__ if (value := getattr(self, name)) is not None}


def decode(decoder: "msgspec.json.Decoder[T]", data: bytes) -> T:
    """Decode, with `NaN` or without. Raises UnreadableEvent: no JSON, odd shape, nesting bomb, number out of range."""
    try:
        return decoder.decode(data)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UnreadableEvent(str(error)) from error
    except UNREADABLE as error:
        bare = data.strip()
        if bare[:1] + bare[-1:] not in _BRACKETS:
            raise UnreadableEvent(str(error)) from error
        return loosely(decoder, data)


_BRACKETS = (b"{}", b"[]")
"""The first and the last byte of each event that is worth a second, slower look."""
_STRANGE = msgspec.json.Decoder(dict[str, Any] | list[Any])
_NAMES_AN_ERROR = re.compile(r"error|exception|traceback|^(fault|failed|failure|detail|err(no|msg|code)?)$")
_STATES_AN_ERROR = re.compile(r"[\w.-]*(error|exception|fail)[\w.-]*|[45]\d\d", re.IGNORECASE)
_TELLING = ("object", "type", "event", "state", "status", "statuscode", "code")
_GOES_WELL = re.compile(r"0|[123]\d\d")
_NO_MORE_THAN_A_MESSAGE = {"message", "msg", "code", "status", "path", "requestid", "timestamp"}


def strange(data: bytes) -> StreamEvent:
    """The stream event of an object in which its API's dialect found nothing: an error in another server's spelling, or NOTHING.

    A member whose name says error, exception, fault or detail, in whatever letters, there or in one of its members; a member that states a
    kind of error or a status of 400 to 599; no success; a message with no other content that says that all goes well. A null or an empty one
    is none. Of a list: any of its objects.
    """
    return ERROR if _is_error(decode(_STRANGE, data)) else NOTHING


def states(error: object) -> bool:
    """Whether a member is more than null, empty, or an object of such members: servers in Go write an error so that there is not."""
    return any(error.values()) if isinstance(error, dict) else bool(error)


def _is_error(said: object) -> bool:
    if isinstance(said, list):
        return any(isinstance(each, dict) and _is_error(each) for each in said[:8])
    if not isinstance(said, dict) or not said:
        return False
    named = {name.lower().replace("_", ""): value for name, value in said.items()}
    stated = {name for name, value in named.items() if states(value)}
    kinds = [kind for name in _TELLING if isinstance(kind := named.get(name), int | str)]
    return (
        any(map(_NAMES_AN_ERROR.search, stated))
        or any(isinstance(value, dict) and states(value.get("error")) for value in named.values())
        or any(_STATES_AN_ERROR.fullmatch(str(kind)) for kind in kinds)
        or any(named.get(name) is False for name in ("success", "ok", "status"))
        or (
            bool(stated & {"message", "msg"})
            and stated <= _NO_MORE_THAN_A_MESSAGE
            and not (isinstance(named.get("status"), str) or any(_GOES_WELL.fullmatch(str(kind)) for kind in kinds))
        )
    )


def fails(data: bytes) -> bool:
    """Whether data that its API's dialect could not read is such an error: Anthropic's and Ollama's `message` is no text."""
    try:
        return strange(data).error
    except UnreadableEvent:
        return False


def count(value: object) -> int | None:
    """A token count as stated; None for other values (a string, a bool, a float, a negative number)."""
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def detail(details: object, name: str) -> int | None:
    """One count of a `*_details` object, which may be null, absent or odd."""
    return count(details.get(name)) if isinstance(details, dict) else None


def index_of(value: object) -> int:
    """A choice's index, or 0 if the engine leaves it out: then there is one choice."""
    return value if type(value) is int else 0


def event_of(
    output: list[int],
    finished: list[int],
    finish: Finish | None = None,
    *,
    wordless: bool = False,
    reasons: bool = False,
) -> StreamEvent:
    """The stream event with outputs and finishes only. The usual ones are shared: a token costs no object."""
    if not finished:
        if output == _FIRST:
            return REASONING if reasons else OUTPUT
        if not output:
            return NOTHING
    return StreamEvent(
        output=tuple(output), finished=tuple(finished), finish=finish, wordless=wordless, reasons=reasons
    )
