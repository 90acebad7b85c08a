"""A path that two engines serve, each in its own words: the answer tells which, event by event.

It knows one key that only the first of two dialects writes. It needs no word on the engine's kind, which may not be known
yet, and refuses to look further than for that key: a key inside a string of text is escaped there, and is not found.
"""

from sidecar.timeline.events import Dialect, Reading


class Either:
    """Two dialects as one. `key` is written, without blanks before its colon, in every event of `first` and in none of `second`."""

    has_usage_option = False
    token = None

    def __init__(self, key: str, first: Dialect, second: Dialect) -> None:
        self.name = f"{first.name}_or_{second.name}"
        self.streams_unsaid = first.streams_unsaid and second.streams_unsaid
        self._key = b'"%s":' % key.encode()
        self._first = first
        self._second = second

    def read_event(self, event: bytes, data: bytes) -> Reading:
        """One event, in the words in which it is written. Raises UnreadableEvent."""
        return self._spoken(data).read_event(event, data)

    def read_body(self, body: bytes) -> Reading:
        """One body. Raises UnreadableEvent."""
        return self._spoken(body).read_body(body)

    def _spoken(self, data: bytes) -> Dialect:
        return self._first if self._key in data else self._second
