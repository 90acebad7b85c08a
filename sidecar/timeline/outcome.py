"""How a request ended, and where in its life: the closed vocabulary of `llm_requests_total{outcome}` and `llm_client_cancels_total{stage}`.

Every request ends in exactly one outcome. A client's cancel is neither a success nor an error.
"""

from enum import StrEnum


class Outcome(StrEnum):
    """Who ended the request, in one word (design section 6)."""

    OK = "ok"
    CLIENT_ERROR = "client_error"
    """A 4xx other than 408 and 429, ours or the engine's."""
    CLIENT_CANCELLED = "client_cancelled"
    REJECTED = "rejected"
    """429 or 503, ours or the engine's."""
    ENGINE_ERROR = "engine_error"
    """Any other 5xx of the engine, an error event in mid-stream, or a reply that is no HTTP."""
    ENGINE_UNREACHABLE = "engine_unreachable"
    ENGINE_TIMEOUT = "engine_timeout"
    ENGINE_TRUNCATED = "engine_truncated"
    SIDECAR_ERROR = "sidecar_error"


class Stage(StrEnum):
    """How far a request had come when its client left."""

    UPLOAD = "upload"
    WAITING = "waiting"
    """Received, no output yet: queue and prefill."""
    STREAMING = "streaming"


def outcome_of_status(status: int) -> Outcome:
    """The outcome of a response that arrived whole, from its status alone.

    408 is the engine's own timeout: the client did nothing wrong that the engine could tell from a slow network.
    """
    if status < 400:
        return Outcome.OK
    if status in (429, 503):
        return Outcome.REJECTED
    if status in (408, 504):
        return Outcome.ENGINE_TIMEOUT
    return Outcome.CLIENT_ERROR if status < 500 else Outcome.ENGINE_ERROR
