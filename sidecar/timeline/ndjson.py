"""Parser of newline-delimited JSON: bytes in, split anywhere; values out. Ollama's own API streams it.

It knows lines, brackets and strings: a value is one line or, if a server writes indented JSON, all lines up to the one
that closes its first bracket. A line with a bracket in its first column always begins a new value, so one damaged line
costs one value and not the rest of the stream. It refuses to know the meaning of a value (a dialect does) and to
validate it: text that is no value is passed on unchanged, and the dialect finds it unreadable. The contract is that of
`sse.py`: no input can make it raise, wait or grow without a bound, and work is linear in the bytes, however they are
split. Unlike an event, a last value needs no line end: `finish` returns it.
"""

import re

from sidecar.timeline.outline import Outline
from sidecar.timeline.sse import BOM, MAX_EVENT_BYTES, NOTHING_OPEN


MEDIA_TYPES = frozenset(
    (b"application/x-ndjson", b"application/json-lines", b"application/jsonl", b"application/ndjson")
)
"""Content types with this framing. Among the engines read in source, Ollama (fb307609) sends the first; none the
others."""

_OPENING = (0x5B, 0x7B)
_INDENTATION = b" \t\r"
_BLANK_LINES = re.compile(rb"[ \t\r\n]*\n")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?$)', re.DOTALL)


class NdjsonParser:
    """Feed it segments; it returns the values that they complete, in the form of `SseParser`'s events.

    Memory never exceeds the cap plus one segment.
    """

    __slots__ = (
        "_depth",
        "_line",
        "_line_at",
        "_open_at",
        "_outline",
        "_too_long",
        "_value",
        "breaks_off",
        "fed",
        "max_event_bytes",
        "oversized",
        "spans",
    )

    between_events = False
    """Always False: the short way of `EventReader` is for server-sent events."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.max_event_bytes = max_event_bytes
        self.fed = 0
        """Bytes fed so far."""
        self.oversized = 0
        """Number of values over the cap that have no outline, and were not observed."""
        self.spans: list[tuple[int, int]] = []
        """For each value that the last `feed` returned: stream offsets of its first byte and of the byte after its line end."""
        self.breaks_off = False
        """The last value is a long one that is no JSON or half of one."""
        self._line = bytearray()  # the partial line; empty if it is too long
        self._line_at = 0
        self._too_long = False
        self._value = bytearray()  # the lines of a value that is not closed yet
        self._open_at = NOTHING_OPEN
        self._depth = 0
        self._outline: Outline | None = None  # of a value over the cap, until the next one begins

    @property
    def unfinished_at(self) -> int | None:
        """Stream offset of the first byte of a value that has not ended; None between values."""
        if self._open_at != NOTHING_OPEN:
            return self._open_at
        return self._line_at if self._too_long or self._line.strip() else None

    @property
    def in_long_event(self) -> bool:
        """A value over the cap has begun, and has not ended."""
        return self._outline is not None

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """The values that `data` completes, in order, each as `(b"", value)`: an event without a name."""
        start = self.fed
        self.fed = start + len(data)
        self.spans = []
        values: list[tuple[bytes, bytes]] = []
        at = 0
        while (end := data.find(b"\n", at) + 1) > 0:
            piece = data[at:end]  # in order: the LF was sought from `at` on
            self._end_of_line(piece, start + at, start + end, values)
            at = end
            if piece.isspace() and (blank := _BLANK_LINES.match(data, at)) is not None:
                at = blank.end()  # blank lines behind a line change nothing: they cost no Python each
        if at < len(data):
            self._keep(data[at:], start + at, values)
        return values

    def finish(self) -> list[tuple[bytes, bytes]]:
        """End the stream: return a last value without a line end, if all its brackets are closed."""
        self.spans = []
        values: list[tuple[bytes, bytes]] = []
        if self._line or self._too_long:
            self._end_of_line(b"", self.fed, self.fed, values)
        self._end_long(self.fed, values)
        return values

    def _keep(self, piece: bytes, at: int, values: list[tuple[bytes, bytes]]) -> None:
        """Keep the beginning of a line that has no end yet."""
        if self._too_long and self._outline is not None:
            self._outline.feed(piece)
            return
        if not self._line:
            self._line_at = at
        if len(self._line) <= 1:  # empty, or the blank that stands for all
            piece = _indented_once(bytes(self._line) + piece)
            self._line.clear()
        self._line += piece
        if len(self._line) > self.max_event_bytes:
            self._too_long = True
            line = bytes(self._line)
            self._line.clear()
            self._long_line(line, self._line_at, values)

    def _end_of_line(self, piece: bytes, at: int, end: int, values: list[tuple[bytes, bytes]]) -> None:
        if self._too_long:
            self._too_long = False
            if self._outline is not None:
                self._outline.feed(piece)
                self._end_if_over(end, values)
            return
        if self._line:
            at = self._line_at
            self._line += piece
            piece = bytes(self._line)
            self._line.clear()
        if len(piece) > self.max_event_bytes < len(_indented_once(piece)):
            self._long_line(piece, at, values)
            self._end_if_over(end, values)
        else:
            self._whole_line(piece, at, end, values)

    def _whole_line(self, piece: bytes, at: int, end: int, values: list[tuple[bytes, bytes]]) -> None:
        if at == 0 and piece[:3] == BOM:
            piece = piece[3:]
        self._begins(piece, at, values)
        line = piece.strip(b" \t\r\n")
        if not line:
            return
        if self._outline is not None:
            self._outline.feed(line)
            self._end_if_over(end, values)
            return
        if self._open_at == NOTHING_OPEN:
            self._open_at = at
        if len(self._value) + len(line) >= self.max_event_bytes:
            self._outlined(line, at)
            self._end_if_over(end, values)
            return
        if self._value:
            self._value += b"\n"
        self._value += line
        self._depth += _opened(line)
        if self._depth <= 0:
            self._dispatch(end, values)

    def _begins(self, line: bytes, at: int, values: list[tuple[bytes, bytes]]) -> None:
        """A bracket in the first column begins a new value: one that is still open is damaged, and ends here."""
        if line[:1] and line[0] in _OPENING:
            self._end_long(at, values)
            self._dispatch(at, values)

    def _dispatch(self, end: int, values: list[tuple[bytes, bytes]]) -> None:
        if self._open_at != NOTHING_OPEN:
            self.breaks_off = False
            values.append((b"", bytes(self._value)))
            self.spans.append((self._open_at, end))
        self._forget()

    # --- a value over the cap --------------------------------------------------------------------------------------------

    def _long_line(self, line: bytes, at: int, values: list[tuple[bytes, bytes]]) -> None:
        """A line, or its beginning, is longer than the cap."""
        if at == 0 and line[:3] == BOM:
            line = line[3:]
        self._begins(line, at, values)
        self._outlined(line, at)

    def _outlined(self, line: bytes, at: int) -> None:
        """The value is longer than the cap: of it, and of what follows it on this line, only the outline is kept."""
        if self._outline is None:
            self._outline = Outline()
            self._outline.feed(self._value)
            self._value.clear()
        if self._open_at == NOTHING_OPEN:
            self._open_at = at
        self._outline.feed(line)

    def _end_if_over(self, end: int, values: list[tuple[bytes, bytes]]) -> None:
        if self._outline is not None and self._outline.over:
            self._end_long(end, values)

    def _end_long(self, end: int, values: list[tuple[bytes, bytes]]) -> None:
        if self._outline is None:
            return
        outline, self._outline = self._outline, None
        said = outline.answer()
        self.breaks_off = said is None and outline.breaks_off
        if said is None:
            self.oversized += 1
        else:
            values.append((b"", said))
            self.spans.append((self._open_at, end))
        self._forget()

    def _forget(self) -> None:
        self._value.clear()
        self._open_at = NOTHING_OPEN
        self._depth = 0


def _indented_once(piece: bytes) -> bytes:
    """The piece with one blank for all at its beginning: the cap counts no others, so a long blank line is still a blank line."""
    said = piece.lstrip(_INDENTATION)
    return said if len(said) == len(piece) else b" " + said


def _opened(line: bytes) -> int:
    """Brackets that this line opens less those that it closes; may be negative."""
    if line[:1] == b"{":
        if line[-1:] == b"}":
            return 0  # nearly every line
        if len(line) == 1:
            return 1  # indented JSON has its first bracket alone on a line
    # Counted, not walked (classify/json_text.py): 256 KiB of brackets take 0.3 ms, and 170 ms bracket by bracket.
    bare = _STRING.sub(b"", line)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")
