"""Bytes of an event stream in, events out: WHATWG HTML 9.2.6, split at any byte.

It knows lines, fields, blank lines and where in the stream each event lies; it refuses to know what an event says
(that is a dialect's) and never touches a byte that the client gets: it observes beside the road. So nothing that comes
in can make it raise, wait or grow: a CR ends its line at once (a following LF is swallowed later), an event over the cap
is counted and forgotten until the next blank line, and one byte at a time costs no more per byte than a megabyte does.
Reconnection (`id`, `retry`) is a client's business: those fields are read over.
"""

MAX_EVENT_BYTES = 262_144
"""An event above this is not observed. The largest honest ones (a whole Responses answer in `response.completed`) stay below."""

_BOM = b"\xef\xbb\xbf"
_LF = 0x0A
_CR = 0x0D
_COLON = 0x3A
_NOTHING_OPEN = -1


class SseParser:
    """Feed it segments; it gives the events that they complete.

    Memory never exceeds the cap plus one segment; time is linear in the bytes, however they are cut.
    """

    __slots__ = (
        "_after_cr",
        "_data",
        "_event",
        "_line",
        "_line_at",
        "_open_at",
        "_size",
        "_skipping",
        "between_events",
        "fed",
        "max_event_bytes",
        "oversized",
        "spans",
    )

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.max_event_bytes = max_event_bytes
        self.fed = 0
        """Bytes seen so far."""
        self.oversized = 0
        """Events over the cap, not observed."""
        self.spans: list[tuple[int, int]] = []
        """For each event that the last `feed` returned: stream offsets of its first field and of the byte after its blank line.

        Where that blank line is a CR at the end of a segment, a LF that follows still belongs to it.
        """
        self.between_events = True
        """Nothing of any line or event is held: whole events may be read the short way."""
        self._after_cr = False
        self._line = bytearray()  # the unterminated line; of a comment or of something skipped only its first byte
        self._line_at = 0
        self._open_at = _NOTHING_OPEN  # first field of the event being built
        self._size = 0  # bytes of its lines, terminators counted as one
        self._event = b""
        self._data: bytes | bytearray | None = None
        self._skipping = False

    @property
    def unfinished_at(self) -> int | None:
        """Stream offset from which bytes belong to an event still without its blank line; None between events.

        A comment is no part of an event as long as no field came before it. At the end of the stream these are the bytes that WHATWG
        discards.
        """
        if self._open_at != _NOTHING_OPEN:
            return self._open_at
        if self._line and self._line[0] != _COLON:
            return self._line_at
        return None

    @property
    def unfinished(self) -> bool:
        """An event has begun and not ended: at the end of the stream, it was cut short."""
        return self.unfinished_at is not None

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """The events that `data` completes, in order: their `event` field (empty if absent) and their data, joined by LF."""
        start = self.fed
        self.fed = start + len(data)
        if self.between_events and data[-2:] == b"\n\n" and b"\r" not in data:
            events = self._whole_events(data, start)
            if events is not None:
                return events
        self.spans = []
        events = self._lines(data, start)
        self.between_events = not (self._after_cr or self._line) and self._open_at == _NOTHING_OPEN
        return events

    def _whole_events(self, data: bytes, start: int) -> list[tuple[bytes, bytes]] | None:
        """What engines send nearly always: whole events of one data line, perhaps named. None: not that; nothing was consumed."""
        events = []
        spans = []
        for block in data[:-2].split(b"\n\n"):
            if block[:6] == b"data: " and b"\n" not in block:
                events.append((b"", block[6:]))
            elif block[:7] == b"event: " and block.count(b"\n") == 1:
                name, _, line = block.partition(b"\n")
                if line[:6] != b"data: ":
                    return None
                events.append((name[7:], line[6:]))
            else:
                return None
            size = len(block)
            if size >= self.max_event_bytes:
                return None
            end = start + size + 2
            spans.append((start, end))
            start = end
        self.spans = spans
        return events

    def _lines(self, data: bytes, start: int) -> list[tuple[bytes, bytes]]:
        events: list[tuple[bytes, bytes]] = []
        at = start
        # bytes.splitlines knows CR, LF and CRLF only; str.splitlines would also cut at U+2028 and others.
        for piece in data.splitlines(keepends=True):
            end = at + len(piece)
            if self._after_cr:
                self._after_cr = False
                if piece == b"\n":
                    at = end
                    continue
            if piece[-1] not in (_LF, _CR):
                self._keep(piece, at)
                return events
            line = piece.rstrip(b"\r\n")
            if self._line:
                self._line += line
                line = bytes(self._line)
                line_at = self._line_at
                self._line.clear()
            else:
                line_at = at
            self._end_of_line(line, line_at, end, events)
            at = end
        if data:
            self._after_cr = data[-1] == _CR
        return events

    def _keep(self, piece: bytes, at: int) -> None:
        """Keep the beginning of a line whose end has not come: as much as may still be needed."""
        if not self._line:
            self._line_at = at
            if self._skipping or piece[0] == _COLON:
                self._line += piece[:1]
                return
        elif self._skipping or self._line[0] == _COLON:
            return
        self._line += piece
        if self._size + len(self._line) > self.max_event_bytes:
            self._skip(self._line_at)
            del self._line[1:]

    def _end_of_line(self, line: bytes, at: int, end: int, events: list[tuple[bytes, bytes]]) -> None:
        if not line:
            if self._data is not None and not self._skipping:
                events.append((self._event, bytes(self._data)))
                self.spans.append((self._open_at, end))
            self._forget()
            self._skipping = False
            self._open_at = _NOTHING_OPEN
            return
        if self._skipping:
            return
        size = len(line) + 1
        if at == 0 and line[:3] == _BOM:
            line = line[3:]
            if not line:
                # A line of nothing but the BOM is a blank line, and nothing was open that it could end.
                return
        if line[0] == _COLON:
            return
        if self._open_at == _NOTHING_OPEN:
            self._open_at = at
        self._size += size
        if self._size > self.max_event_bytes:
            self._skip(at)
            return
        self._field(line)

    def _field(self, line: bytes) -> None:
        """One field: its name up to the first colon, its value after it, less one leading space (not a tab)."""
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            if self._data is None:
                self._data = value
            else:
                if isinstance(self._data, bytes):
                    self._data = bytearray(self._data)
                self._data += b"\n"
                self._data += value
        elif name == b"event":
            self._event = value

    def _skip(self, at: int) -> None:
        """Give up observing this event; go on at the next blank line."""
        self.oversized += 1
        self._forget()
        self._skipping = True
        if self._open_at == _NOTHING_OPEN:
            self._open_at = at

    def _forget(self) -> None:
        self._size = 0
        self._event = b""
        self._data = None
