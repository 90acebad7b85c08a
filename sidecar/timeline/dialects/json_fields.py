"""Functions that the dialects share: decoding of untrusted JSON objects, and the stream events that most frames give.

It knows types and refuses to know meanings. Engines differ in the types of fields that are not read (content as a list
of parts, delta null, logprobs of any shape), so leaf fields are decoded as any type. An event is unreadable only if its
shape leaves nothing to read (no JSON, no object, choices that are no list).
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from sidecar.timeline.events import (
    ERROR,
    NO_USAGE,
    NOTHING,
    RENAMED,
    UNREADABLE,
    StreamEvent,
    T,
    UnreadableEvent,
    Usage,
    loosely,
)


SEVERAL = b"["
"""First byte of an answer that is a list."""

MAX_COUNT = 2**53
"""The largest count that is accepted: above it, JSON numbers in other programs are not exact."""


def shape(name: str, fields: list[str], more: dict[str, Any]) -> Any:  # depth: as a row is written
    """The type of an object with these fields and no others. An object in it has a type of its own, and a leaf is of any type."""
    inner: dict[str, list[str]] = {}
    for field in fields:
        head, _, rest = field.partition(":")[0].partition(".")
        inner.setdefault(head, [])
        if rest:
            inner[head].append(field.partition(".")[2])
    members: list[Any] = [(each, kind, None) for each, kind in more.items()]
    for head, within in inner.items():
        if within:
            members.append((head, shape(f"{name}_{head}", within, {}) | msgspec.UnsetType | None, msgspec.UNSET))
        else:
            members.append((head, Any, None))
    return msgspec.defstruct(name, members, module=__name__, frozen=True, rename=RENAMED)


def at(said: Any, path: tuple[str, ...]) -> Any:
    """The value at this place: each name is one object further in."""
    for name in path:
        said = said.get(name) if isinstance(said, dict) else getattr(said, name, None)
    return said


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


def _is_error(said: object) -> bool:  # depth: a list, its objects
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


def fields_stated(said: object, names: Iterable[str]) -> dict[str, object] | None:
    """Those of these fields that an object states, by name; None if it states none."""
    found: dict[str, object] | None = None
    for name in names:
        value = getattr(said, name)
        if value is not None:
            if found is None:
                found = {}
            found[name] = value
    return found


def count(value: object) -> int | None:
    """A token count as stated; None for other values (a string, a bool, a float, a negative number)."""
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def detail(details: object, name: str) -> int | None:
    """One count of a `*_details` object, which may be null, absent or odd."""
    return count(details.get(name)) if isinstance(details, dict) else None


def usage_of_timings(timings: object) -> Usage | None:
    """The counts in `timings`, which is in every answer's last event; None if there is none (older builds, odd values).

    `cache_n` tokens came from the slot's cache, `prompt_n` were processed, `predicted_n` counts all generated tokens:
    the counts of a usage chunk, which need not be asked for.
    """
    if not isinstance(timings, dict):
        return None
    cached, processed = count(timings.get("cache_n")), count(timings.get("prompt_n"))
    usage = Usage(
        # Without cache_n (older builds) the length of the prompt is unknown: prompt_n leaves out the cached part.
        prompt_tokens=None if cached is None or processed is None else cached + processed,
        cached_tokens=cached,
        completion_tokens=count(timings.get("predicted_n")),
    )
    return None if usage == NO_USAGE else usage


def index_of(value: object) -> int:
    """A choice's index, or 0 if the engine leaves it out: then there is one choice."""
    return value if type(value) is int else 0
