"""What one event of a response says, in words that every API dialect shares.

A dialect (`dialects/`) turns the JSON of one event, or of a whole non-streamed body, into a `Reading`.
Nobody else looks at that JSON: the timeline counts outputs and finishes, the ledger reads usage, and the engine's own
file (`sidecar/engines/`) reads `extras`, the fields that an engine adds to the API's own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the engine states them; None where it does not."""

    prompt_tokens: int | None = None
    """All tokens of the prompt, the cached ones included."""
    cached_tokens: int | None = None
    """Of these, how many came from the prefix cache."""
    completion_tokens: int | None = None
    """All generated tokens, reasoning included."""
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What one event, or one whole body, says. The default says nothing."""

    output: tuple[int, ...] = ()
    """Indexes of the choices for which this event carries generated output (design section 2)."""
    finished: tuple[int, ...] = ()
    """Indexes of the choices whose finish reason stands in this event."""
    usage: Usage | None = None
    bare_usage: bool = False
    """Usage and no choice at all: the chunk that `include_usage` adds."""
    null_usage: bool = False
    """The event has a `usage` key that is null: this server answers `include_usage` in every chunk."""
    extras: Mapping[str, object] | None = None
    """Fields that engines add to the API's own (`metrics`, `timings`, ...), undecoded; read by `sidecar/engines/`."""
    error: bool = False
    """The server reports a failure inside a response that began well."""
    done: bool = False
    """The API's own end mark: `[DONE]`, `message_stop`, `response.completed`."""


NOTHING = Reading()
OUTPUT = Reading(output=(0,))
"""What nearly every event says: a piece of output of the one choice."""


UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)
"""What msgspec raises on data: no JSON, odd shape, nesting bomb, number or character out of range."""


class UnreadableEvent(ValueError):  # noqa: N818  it happens, it is no error of ours
    """The event is not what its dialect speaks. The caller counts it and goes on; bytes are not its business."""


class Dialect(Protocol):
    """One API's way of saying things. Stateless, so one instance serves every request."""

    name: str
    has_usage_option: bool
    """Usage comes in a stream only if `stream_options.include_usage` asks for it."""
    streams_unsaid: bool
    """The answer is a stream where the request does not say `stream`."""

    @property
    def token(self) -> Callable[[bytes], object] | None:
        """Raises one of UNREADABLE unless the data says OUTPUT and nothing else: the short way of `EventReader`. None: there is none."""
        ...

    def read_event(self, event: bytes, data: bytes) -> Reading:
        """Read one server-sent event: its `event` field (empty if absent) and its joined data. Raises UnreadableEvent."""
        ...

    def read_body(self, body: bytes) -> Reading:
        """Read a whole non-streamed JSON answer. Raises UnreadableEvent."""
        ...
