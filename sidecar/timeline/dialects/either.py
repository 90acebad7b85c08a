"""A path that two engines serve, each in its own dialect. Each event of the answer shows which dialect it is in.

It knows one key that only the first of two dialects writes. It does not need the engine's kind, which may not be known
yet. It refuses to decode: it only searches for that key. The same key inside a string of text is escaped and is not
found.
"""

from sidecar.timeline.events import Dialect, StreamEvent


class Either:
    """Two dialects as one. `key`, with no blank before its colon, is in every event of `first`, in none of `second`."""

    has_usage_option = False
    token = None

    def __init__(self, key: str, first: Dialect, second: Dialect) -> None:
        self.name = f"{first.name}_or_{second.name}"
        self.streams_unsaid = first.streams_unsaid and second.streams_unsaid
        self._key = b'"%s":' % key.encode()
        self._first = first
        self._second = second

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:
        """One event, in its own dialect. Raises UnreadableEvent."""
        return self._spoken(data).read_event(event, data)

    def read_body(self, body: bytes) -> StreamEvent:
        """One body, in its own dialect. Raises UnreadableEvent."""
        return self._spoken(body).read_body(body)

    def _spoken(self, data: bytes) -> Dialect:
        return self._first if self._key in data else self._second
