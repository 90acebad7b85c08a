"""The floor of a client's pace: how slowly it may send a body, and how slowly it may take bytes that wait here for it.

Pure; instants are passed in, a few times a second. A pause in which the sidecar itself does not read is not counted, nor a
standstill of its process (`standstill.py`). Knows no socket; the `Exchange` (`relay.py`) asks, and ends what is too slow.
"""

from typing import Protocol

from sidecar.proxy.errors import Failure
from sidecar.proxy.standstill import Now


UPLOAD_GRACE_SECONDS = 20.0
"""The floor of an upload's rate holds from this age on (Apache's mod_reqtimeout: 20 s)."""


class Floors(Protocol):
    """Seconds and bytes a second; 0 bytes: no floor. Defaults and reasons: `ProxyConfig` (`sidecar/config/`)."""

    body_gap_timeout_seconds: float
    upload_timeout_seconds: float
    upload_min_bytes_per_second: int
    client_write_timeout_seconds: float
    client_min_bytes_per_second: int
    tunnel_idle_timeout_seconds: float
    tunnel_total_timeout_seconds: float


class UploadPace:
    """The pace of one request body, since `began_at`."""

    def __init__(self, began_at: float) -> None:
        self._began_at = self._seen_at = began_at
        self._excused_seconds = 0.0

    def failure(self, now: Now, moved_at: float, size: int, floors: Floors, *, excused: bool) -> Failure | None:
        """The floor that the upload has missed, or None. `size`: bytes of body, the last of which came at `moved_at`.

        `excused`: the sidecar does not read now, because the engine does not take what was read.
        """
        if excused:
            self._excused_seconds += now.since(self._seen_at)
        elif now.since(moved_at) > floors.body_gap_timeout_seconds:
            return Failure.UPLOAD_STALLED
        self._seen_at = now.at
        took_seconds = now.since(self._began_at) - self._excused_seconds
        if took_seconds > floors.upload_timeout_seconds:
            return Failure.UPLOAD_TIMEOUT
        slow = took_seconds > UPLOAD_GRACE_SECONDS and size < floors.upload_min_bytes_per_second * took_seconds
        return Failure.UPLOAD_TOO_SLOW if slow else None


class TakingPace:
    """The pace at which a client takes what waits for it, since `began_at`, when `unsent_bytes` waited."""

    def __init__(self, began_at: float, unsent_bytes: int) -> None:
        self._began_at = self._moved_at = began_at
        self._began_bytes = self._least_bytes = unsent_bytes

    def failure(self, now: Now, unsent_bytes: int, floors: Floors) -> Failure | None:
        """The floor that the client has missed, or None: in `client_write_timeout_seconds` it must have taken a byte, and
        bytes at the lowest mean rate.
        """
        if unsent_bytes < self._least_bytes:
            self._moved_at, self._least_bytes = now.at, unsent_bytes
        if now.since(self._moved_at) > floors.client_write_timeout_seconds:
            return Failure.CLIENT_WRITE_STALLED
        took_seconds, taken_bytes = now.since(self._began_at), self._began_bytes - unsent_bytes
        slow = taken_bytes < floors.client_min_bytes_per_second * took_seconds
        return Failure.CLIENT_TAKES_TOO_SLOWLY if slow and took_seconds > floors.client_write_timeout_seconds else None


def tunnel_failure(now: Now, began_at: float, moved_at: float, floors: Floors) -> Failure | None:
    """The time limit that a tunnel has exceeded, or None. `moved_at`: when the last byte passed, either way."""
    if now.since(began_at) > floors.tunnel_total_timeout_seconds:
        return Failure.TUNNEL_TOO_OLD
    return Failure.TUNNEL_IDLE if now.since(moved_at) > floors.tunnel_idle_timeout_seconds else None
