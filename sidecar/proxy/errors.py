"""All failures of the relay in one table: the status that the client gets, the value of `x-sidecar-error`, the outcome.

A failure is either answered (if the engine's response has not begun) or cuts the response short; the relay decides
which. The body has the OpenAI error shape, which the clients of every engine can show. An error of connecting is the
engine's only if it was not our own lack of files, memory or ports: `of_connecting` tells them apart.
"""

import errno
import json
from dataclasses import dataclass
from enum import Enum

from sidecar.budgets.budgets import KEEPS_PLACE_SECONDS
from sidecar.timeline.outcome import Outcome


ERROR_HEADER = b"x-sidecar-error"


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, reason, outcome and message of one failure."""

    status: int
    reason: str
    outcome: Outcome
    message: str
    retry_after_seconds: int | None = None
    """Value of `Retry-After`; None for no such field."""
    by_drain: bool = False
    """`Retry-After` is computed from the drain of the queue (`drain.py`); `retry_after_seconds` while that is not known."""


ENGINE_AWAY_SECONDS = 5
"""`Retry-After` while the engine cannot be reached: a restart takes longer, but a load balancer may send the next try to another pod."""


class Failure(Enum):
    """All failures, by cause: the client (4xx, 501, 505), the engine (502, 503 while it is away, 504), the sidecar (500, 503)."""

    # The client's request
    BAD_REQUEST = Answer(400, "bad_request", Outcome.CLIENT_ERROR, "The request is not well-formed HTTP.")
    BAD_HOST = Answer(400, "bad_host", Outcome.CLIENT_ERROR, "The request needs exactly one valid Host field.")
    BAD_TARGET = Answer(
        400,
        "bad_target",
        Outcome.CLIENT_ERROR,
        "The request target must be a path that starts with '/', without a fragment.",
    )
    BAD_FRAMING = Answer(
        400,
        "bad_framing",
        Outcome.CLIENT_ERROR,
        "The request's Transfer-Encoding contradicts its Content-Length or HTTP/1.0.",
    )
    PROTECTED_FIELD = Answer(
        400,
        "connection_names_end_to_end_field",
        Outcome.CLIENT_ERROR,
        "The Connection field may name only options of this connection, and no field that is meant for the engine.",
    )
    UNDERSCORE_TWIN = Answer(
        400,
        "underscore_twin",
        Outcome.CLIENT_ERROR,
        "A field name with an underscore can be mistaken for one that proxies act on; write it with a hyphen.",
    )
    HEAD_TIMEOUT = Answer(
        408, "request_head_timeout", Outcome.CLIENT_CANCELLED, "The request head did not arrive in time."
    )
    UPLOAD_STALLED = Answer(408, "request_body_timeout", Outcome.CLIENT_CANCELLED, "The request body stopped arriving.")
    UPLOAD_TOO_SLOW = Answer(
        408,
        "request_body_too_slow",
        Outcome.CLIENT_CANCELLED,
        "The request body arrived at less than proxy.upload_min_bytes_per_second.",
    )
    UPLOAD_TIMEOUT = Answer(
        408,
        "request_body_too_late",
        Outcome.CLIENT_CANCELLED,
        "The request body did not arrive whole within proxy.upload_timeout_seconds.",
    )
    MADE_ROOM = Answer(
        408,
        "made_room",
        Outcome.CLIENT_CANCELLED,
        "The sidecar had no room for more clients, and this unfinished request was the slowest.",
    )
    BODY_TOO_LARGE = Answer(
        413, "request_body_too_large", Outcome.CLIENT_ERROR, "The request body is larger than proxy.max_body_bytes."
    )
    UNKNOWN_EXPECTATION = Answer(
        417, "unknown_expectation", Outcome.CLIENT_ERROR, "The only supported Expect value is '100-continue'."
    )
    HEAD_TOO_LARGE = Answer(
        431,
        "request_head_too_large",
        Outcome.CLIENT_ERROR,
        "The request head is larger than proxy.max_head_bytes or has more fields than proxy.max_headers, "
        "or the body's framing is too large for its content.",
    )
    UNSUPPORTED_METHOD = Answer(501, "method_not_supported", Outcome.CLIENT_ERROR, "CONNECT is not supported.")
    UNSUPPORTED_CODING = Answer(
        501, "transfer_coding_not_supported", Outcome.CLIENT_ERROR, "The only supported transfer coding is 'chunked'."
    )
    UNSUPPORTED_VERSION = Answer(
        505, "http_version_not_supported", Outcome.CLIENT_ERROR, "Only HTTP/1.0 and HTTP/1.1 are supported."
    )
    CLIENT_WRITE_STALLED = Answer(
        408, "client_write_stalled", Outcome.CLIENT_CANCELLED, "The client stopped reading its response."
    )
    CLIENT_TAKES_TOO_SLOWLY = Answer(
        408,
        "client_takes_too_slowly",
        Outcome.CLIENT_CANCELLED,
        "The client read its response at less than proxy.client_min_bytes_per_second.",
    )
    TUNNEL_IDLE = Answer(
        408,
        "tunnel_idle",
        Outcome.CLIENT_CANCELLED,
        "No byte passed through the websocket for proxy.tunnel_idle_timeout_seconds, or for"
        f" {KEEPS_PLACE_SECONDS:g} s while others had no place.",
    )
    # The engine's response
    ENGINE_REFUSED = Answer(
        503,
        "engine_connect_failed",
        Outcome.ENGINE_UNREACHABLE,
        "The engine does not accept connections.",
        retry_after_seconds=ENGINE_AWAY_SECONDS,
    )
    ENGINE_CONNECT_TIMEOUT = Answer(
        504,
        "engine_connect_timeout",
        Outcome.ENGINE_UNREACHABLE,
        "The engine did not accept a connection in time.",
        retry_after_seconds=ENGINE_AWAY_SECONDS,
    )
    ENGINE_CLOSED = Answer(
        502,
        "engine_closed_before_response",
        Outcome.ENGINE_UNREACHABLE,
        "The engine closed the connection before it answered.",
        retry_after_seconds=ENGINE_AWAY_SECONDS,
    )
    ENGINE_BAD_RESPONSE = Answer(
        502, "engine_bad_response", Outcome.ENGINE_ERROR, "The engine's answer is not well-formed HTTP."
    )
    ENGINE_FIRST_BYTE_TIMEOUT = Answer(
        504, "engine_first_byte_timeout", Outcome.ENGINE_TIMEOUT, "The engine gave no output in time."
    )
    ENGINE_GAP_TIMEOUT = Answer(
        504, "engine_gap_timeout", Outcome.ENGINE_TIMEOUT, "The engine stopped in the middle of its answer."
    )
    ENGINE_TRUNCATED = Answer(502, "engine_truncated", Outcome.ENGINE_TRUNCATED, "The engine's answer ended too early.")
    # The sidecar
    TOO_MANY_IN_FLIGHT = Answer(
        503,
        "too_many_in_flight",
        Outcome.REJECTED,
        "As many requests are in flight as the budget `requests` has places.",
        retry_after_seconds=1,
        by_drain=True,
    )
    TOO_MANY_CONNECTIONS = Answer(
        503,
        "too_many_connections",
        Outcome.REJECTED,
        "No connection is free: each of them has a request that is being answered.",
        retry_after_seconds=1,
    )
    TOO_MANY_OF_ONE_PEER = Answer(
        503,
        "too_many_connections_of_one_peer",
        Outcome.REJECTED,
        "The client's address has proxy.max_connections_per_peer connections.",
        retry_after_seconds=1,
    )
    TOO_MANY_TUNNELS = Answer(
        503, "too_many_tunnels", Outcome.REJECTED, "No further websocket is taken now.", retry_after_seconds=1
    )
    TUNNEL_TOO_OLD = Answer(
        503, "tunnel_too_old", Outcome.REJECTED, "The websocket was open for proxy.tunnel_total_timeout_seconds."
    )
    NO_ROOM_FOR_HEAD = Answer(
        503,
        "no_room_for_head",
        Outcome.REJECTED,
        "The sidecar holds as many bytes as it may, and the request head is long and unfinished.",
        retry_after_seconds=1,
    )
    SHUTTING_DOWN = Answer(
        503, "shutting_down", Outcome.SIDECAR_ERROR, "The sidecar is shutting down.", retry_after_seconds=1
    )
    NO_FILES = Answer(
        503,
        "no_files",
        Outcome.SIDECAR_ERROR,
        "The sidecar has no file descriptor left for a connection to the engine.",
        retry_after_seconds=1,
    )
    NO_NETWORK = Answer(
        503,
        "no_network",
        Outcome.SIDECAR_ERROR,
        "The sidecar's kernel has no memory or no port left for a connection to the engine.",
        retry_after_seconds=1,
    )
    INTERNAL = Answer(500, "sidecar_error", Outcome.SIDECAR_ERROR, "The sidecar failed.")

    @property
    def outcome(self) -> Outcome:
        """The one outcome of a request that ends this way."""
        return self.value.outcome

    @property
    def reason(self) -> str:
        """The value of `x-sidecar-error`, also used in logs and in counters."""
        return self.value.reason


REASON_PHRASES = {
    400: b"Bad Request",
    408: b"Request Timeout",
    413: b"Content Too Large",
    417: b"Expectation Failed",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
    505: b"HTTP Version Not Supported",
}


_OURS = {
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), Failure.NO_FILES),
    **dict.fromkeys((errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL), Failure.NO_NETWORK),
}
"""The errors of socket(2) and connect(2) that say nothing about the engine. EADDRNOTAVAIL: no local port is free."""


def of_connecting(error: OSError) -> Failure:
    """The failure that this error of opening a connection to the engine means: ours, the time limit's or the engine's."""
    if isinstance(error, TimeoutError):
        return Failure.ENGINE_CONNECT_TIMEOUT
    return _OURS.get(error.errno or 0, Failure.ENGINE_REFUSED)


def is_ours(error: OSError) -> bool:
    """Whether this error of opening a connection is our own lack of files, memory or ports; it then says nothing about the engine."""
    return error.errno in _OURS


def error_response(
    failure: Failure, *, close: bool, bodyless: bool = False, retry_after_seconds: int | None = None
) -> bytes:
    """The whole response for one failure; its text is constant, so nothing that a client sent can come back in it.

    `bodyless`: the request was a HEAD; the length is stated all the same (RFC 9110 9.3.2). `retry_after_seconds`: from the
    drain of the queue, for a failure with `by_drain`; it is ignored for the others.
    """
    answer = failure.value
    error = {
        "message": answer.message,
        "type": "invalid_request_error" if answer.outcome is Outcome.CLIENT_ERROR else "server_error",
        "param": None,
        "code": answer.reason,
    }
    body = json.dumps({"error": error}).encode()
    lines = [
        b"HTTP/1.1 %d %s" % (answer.status, REASON_PHRASES[answer.status]),
        b"content-type: application/json",
        b"content-length: %d" % len(body),
        b"%s: %s" % (ERROR_HEADER, answer.reason.encode()),
    ]
    again = retry_after_seconds if answer.by_drain and retry_after_seconds is not None else answer.retry_after_seconds
    if again is not None:
        lines.append(b"retry-after: %d" % again)
    if close:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n" + (b"" if bodyless else body)
