"""The end of a request: the closed sets of its outcomes and of the stages at which a client may leave.

They are the labels of `llm_requests_total{outcome}` and `llm_client_cancels_total{stage}`. Knows statuses and names
only. Every request ends in exactly one outcome; a cancel by the client is neither success nor error.
"""

from enum import StrEnum


class Outcome(StrEnum):
    """How the request ended, and through which side (design section 6)."""

    OK = "ok"
    CLIENT_ERROR = "client_error"
    """A 4xx other than 408 and 429, from the sidecar or the engine."""
    CLIENT_CANCELLED = "client_cancelled"
    ACCEPTED = "accepted"
    """The engine took a task for later, and answered that it stands in a line: no answer, and neither success nor error."""
    REJECTED = "rejected"
    """429, 503 or 529, from the sidecar or the engine."""
    ENGINE_ERROR = "engine_error"
    """Any other 5xx of the engine, a reply that is not HTTP, or an answer that says itself that it failed or was aborted."""
    ENGINE_UNREACHABLE = "engine_unreachable"
    ENGINE_TIMEOUT = "engine_timeout"
    ENGINE_TRUNCATED = "engine_truncated"
    SIDECAR_ERROR = "sidecar_error"


ENDED_WELL = Outcome.OK
"""The member itself: CPython 3.11 takes ten times as long to find `Outcome.OK`."""


class Stage(StrEnum):
    """Progress of a request when its client left."""

    UPLOAD = "upload"
    WAITING = "waiting"
    """The request was received, and there is no output yet: queue and prefill."""
    STREAMING = "streaming"


def outcome_of_status(status: int) -> Outcome:
    """The outcome of a response that arrived whole, from its status alone.

    408 counts as the engine's timeout: the engine cannot tell an error of the client from a slow network. 499 is nginx's status
    for a client that has left, 529 Anthropic's for a server that has too much work.
    """
    if status < 400:
        return Outcome.OK
    if status in (429, 503, 529):
        return Outcome.REJECTED
    if status == 499:
        return Outcome.CLIENT_CANCELLED
    if status in (408, 504):
        return Outcome.ENGINE_TIMEOUT
    return Outcome.CLIENT_ERROR if status < 500 else Outcome.ENGINE_ERROR
