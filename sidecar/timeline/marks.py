"""The instants of one request on the sidecar's monotonic clock (design section 2), and the counts between them."""

import msgspec

from sidecar.timeline.events import Usage


class Marks(msgspec.Struct, frozen=True):
    """All instants in seconds of one monotonic clock; None if the request did not come so far."""

    accepted_at: float
    """First byte of the request head read from the client."""
    received_at: float | None = None
    """Last byte of the request body read."""
    sent_at: float | None = None
    """Last byte of the request handed to the engine's socket."""
    headers_at: float | None = None
    """Response head read from the engine."""
    first_token_at: float | None = None
    """First event that carries generated output; None for non-streamed answers."""
    last_token_at: float | None = None
    ended_at: float | None = None
    """The engine's message was complete, or failed."""
    flushed_at: float | None = None
    """Last byte accepted by the client's socket."""
    paused_seconds: float = 0.0
    """Time for which reading from the engine was paused because of this client, within [first_token_at, last_token_at]."""
    output_events: int = 0
    """Events that carried output. An event is not a token."""
    is_silent: bool = False
    """No event said anything: there was no output, or none but an end mark, and no tool call. Also true of what was not read."""
    choices: int = 0
    """Distinct choice indexes seen."""
    usage: Usage | None = None
    first_answer_at: float | None = None
    """First event whose output is no reasoning."""
