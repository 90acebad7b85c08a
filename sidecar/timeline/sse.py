"""Parser of server-sent events (WHATWG HTML 9.2.6): bytes in, split anywhere; events out.

It knows lines, fields, blank lines and the offsets of each event in the stream. It refuses to know the meaning of an
event (a dialect does) and never changes a byte that the client gets: it only observes. No input can make it raise, wait
or grow without a bound: a CR ends its line at once (a LF after it is dropped later), of an event over the cap only the outline
is kept (`outline.py`), and one byte at a time costs no more per byte than a megabyte does. Reconnection
(`id`, `retry`) is the client's task: those fields are ignored.

It departs from that clause where a server says that it failed, because no client sees it and the outcome must: an event named `error` without
data is returned (Dynamo writes a comment there), and so is a field `error` (llama.cpp). Lines that are no field of an event at all, such as a page
in place of a stream, are noted (`stray`).
"""

import re

from sidecar.timeline.outline import Outline


MAX_EVENT_BYTES = 65_536
"""Bytes above which an event gives its outline instead of its data. A whole answer in `response.completed` is often longer."""

BOM = b"\xef\xbb\xbf"
"""Byte order mark: dropped at the start of a stream."""
LF = 0x0A
CR = 0x0D
"""A byte is looked for by its number: `b"\\r" in data` makes an exception and drops it, which takes ten times as long."""
BEGINNINGS = (b"data:", b"event:", b":", b"id:", b"retry:", b"error:")
"""The first bytes of a stream of events, behind blank lines."""
_COLON = 0x3A
_DATA = b"data:"
_DATA_AND_SPACE = b"data: "
_EVENT = b"event:"
_LONGEST_NAME_LINE_BYTES = 64
"""First bytes that are kept of a long event's line with its name. `response.image_generation_call.partial_image` has 44, behind `event: `."""
_BLANK = 0x20
NO_ERROR = (b"", b"null", b"{}", b"[]", b'""')
"""Values of a field `error:` that state none."""
_COMMENT_BEHIND_BOM = BOM + b":"
NOTHING_OPEN = -1
"""Offset while no event or value is being built."""
_LINE_ENDS = re.compile(rb"[\r\n]{8,}")
_ENDS_EVENT_BYTES = 4
"""Line ends that end any line and any event: CR LF, twice."""
_SHORT_BYTES = 64


# Two states are held between two calls of feed(), one of the line and one of the event.
#
# Line:
#   none       `_line` is empty, `_after_cr` is False.
#   partial    `_line` holds its bytes, `_line_at` its offset; of a comment only the first byte, of a line of a long event its name.
#   after CR   the line is over and was processed. If the next byte is a LF, it belongs to the same line end: dropped.
#
# Event:
#   none       `_open_at` is NOTHING_OPEN. A field opens an event; blank lines and comments change nothing.
#   open       `_open_at` is the offset of its first field. Fields are added to `_event` and `_data`.
#                blank line                      -> none; the event is returned if it had a data field, else dropped
#                `_size` + line above the cap    -> long
#   long       its data goes into `_outline`, piece by piece, and is dropped; `_open_at` stays.
#                blank line                      -> none; the event is returned with its outline, or `oversized` goes up by one
#
# Why a CR ends its line at once: to wait for a LF would hold the event back until the next segment, and its instant
# would be wrong. Why a long event ends at a blank line only: the rest of a large event must not be read as an event of its
# own.
#
# The short way (`_whole_events`, and `EventReader.feed`) is allowed only in the states none and none
# (`between_events`), and for segments of whole events without a CR: then a split at blank lines gives the same events
# and spans as the state machine.
#
# A long run of line ends (`_dense`) is blank lines behind its first four bytes, and these change nothing in the states that
# they leave: they cost no Python each, so that a server that sends nothing else costs little.


class SseParser:
    """Feed it segments; it returns the events that they complete.

    Memory never exceeds the cap, one segment and 128 bytes. Time is linear in the bytes, however they are split.
    """

    __slots__ = (
        "_after_cr",
        "_data",
        "_event",
        "_is_data",
        "_line",
        "_line_at",
        "_open_at",
        "_outline",
        "_size",
        "between_events",
        "fed",
        "max_event_bytes",
        "oversized",
        "spans",
        "stray",
    )

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.max_event_bytes = max_event_bytes
        self.fed = 0
        """Bytes fed so far."""
        self.oversized = 0
        """Number of events over the cap that have no outline, and were not observed."""
        self.spans: list[tuple[int, int]] = []
        """For each event that the last `feed` returned: stream offsets of its first field and of the byte after its blank line.

        If that blank line is a CR at the end of a segment, a LF that follows still belongs to it.
        """
        self.between_events = True
        """No part of a line or event is held, and nothing stray came last: whole events may be read the short way."""
        self.stray = False
        """Since the last event with data, fields came that server-sent events do not have, or a long event that is no JSON or half of one."""
        self._after_cr = False
        self._line = (
            bytearray()
        )  # the partial line; of a comment only its first byte, of a line of a long event its first bytes
        self._line_at = 0
        self._open_at = NOTHING_OPEN  # first field of the event being built
        self._size = 0  # bytes of its lines, terminators counted as one
        self._event = b""
        self._data: bytes | bytearray | None = None
        self._outline: Outline | None = None  # of a long event
        self._is_data = False  # the partial line of a long event is a data field

    @property
    def unfinished_at(self) -> int | None:
        """Stream offset of the first byte of an event without its blank line yet; None between events.

        A comment is part of an event only after a field of it. At the end of the stream, WHATWG discards these bytes.
        """
        if self._open_at != NOTHING_OPEN:
            return self._open_at
        if self._line and self._line[0] != _COLON:
            return self._line_at
        return None

    @property
    def in_long_event(self) -> bool:
        """An event over the cap has begun, and has not ended."""
        return self._outline is not None

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """The events that `data` completes, in order: their `event` field (empty if absent) and their data, joined by LF."""
        start = self.fed
        self.fed = start + len(data)
        if self.between_events and data[-2:] == b"\n\n" and CR not in data:
            events = self._whole_events(data, start)
            if events is not None:
                return events
        self.spans = []
        dense = len(data) > _SHORT_BYTES and 4 * (data.count(b"\n") + data.count(b"\r")) > len(data)
        events = self._dense(data, start) if dense else self._lines(data, start)
        self.between_events = not (self._after_cr or self._line or self.stray) and self._open_at == NOTHING_OPEN
        return events

    def finish(self) -> list[tuple[bytes, bytes]]:
        """End the stream: an event without its blank line is none (WHATWG), and is returned for what it says of the end."""
        return [] if self.between_events else self.feed(b"\n\n")

    def _whole_events(self, data: bytes, start: int) -> list[tuple[bytes, bytes]] | None:
        """Split whole events of one data line, named or not: the usual case. None: another case, nothing consumed."""
        events = []
        spans = []
        for block in data[:-2].split(b"\n\n"):
            if block[:6] == b"data: " and LF not in block:
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

    def _dense(self, data: bytes, start: int) -> list[tuple[bytes, bytes]]:
        """As `_lines`, but runs of blank lines are passed over at once."""
        events: list[tuple[bytes, bytes]] = []
        at = 0
        for run in _LINE_ENDS.finditer(data):
            blank = run.start() + _ENDS_EVENT_BYTES
            events += self._lines(data[at:blank], start + at)  # in order: the run begins behind the one before
            at = run.end()
            self._after_cr = data[at - 1] == CR
        return events + self._lines(data[at:], start + at)

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
            if piece[-1] not in (LF, CR):
                self._keep(piece, at)
                return events
            line = piece.rstrip(b"\r\n")
            if self._outline is not None and (line or self._line):
                self._long(self._outline, line)
                self._long_line_ends(self._outline)
                at = end
                continue
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
            self._after_cr = data[-1] == CR
        return events

    def _keep(self, piece: bytes, at: int) -> None:
        """Keep the beginning of a line that has no end yet, as far as it may be needed."""
        if not self._line:
            self._line_at = at
        if self._outline is not None:
            self._long(self._outline, piece)
            return
        if not self._line and piece[0] == _COLON:
            self._line += piece[:1]
            return
        if self._line and self._line[0] == _COLON:
            return
        self._line += piece
        if self._line_at == 0 and self._line[:4] == _COMMENT_BEHIND_BOM:
            del self._line[:3], self._line[1:]
        elif self._size + len(self._line) > self.max_event_bytes:
            line = bytes(self._line)
            self._line.clear()
            self._long(self._becomes_long(self._line_at), line[3:] if self._line_at == 0 and line[:3] == BOM else line)

    def _end_of_line(self, line: bytes, at: int, end: int, events: list[tuple[bytes, bytes]]) -> None:
        if not line:
            said = self._data
            if self._outline is not None:
                said = self._outline.answer()
                self.oversized += said is None
                self.stray = said is None and self._outline.breaks_off
                self._outline = None
            if said is None and self._event == b"error":
                said = b""
            if said is not None:
                self.stray = False
                events.append((self._event, bytes(said)))
                self.spans.append((self._open_at, end))
            self._forget()
            self._open_at = NOTHING_OPEN
            return
        size = len(line) + 1
        if at == 0 and line[:3] == BOM:
            line = line[3:]
            if not line:
                # A line of the BOM alone is a blank line at offset 0: there is no open event to end.
                return
        if line[0] == _COLON:
            return
        if self._open_at == NOTHING_OPEN:
            self._open_at = at
        self._size += size
        if self._size > self.max_event_bytes:
            outline = self._becomes_long(at)
            self._long(outline, line)
            self._long_line_ends(outline)
            return
        self._field(line)

    def _field(self, line: bytes) -> None:
        """Read one field: the name up to the first colon, then the value without one leading space (a tab stays)."""
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
        elif name.lower() == b"error":
            self._event = self._event if value in NO_ERROR else b"error"
        elif name not in (b"id", b"retry"):
            self.stray = True

    def _becomes_long(self, at: int) -> Outline:
        """From here to the next blank line only the outline of the event's data is kept."""
        self._outline = outline = Outline()
        if self._data is not None:
            outline.feed(self._data)
            outline.feed(b"\n")
            self._data = None
        if self._open_at == NOTHING_OPEN:
            self._open_at = at
        return outline

    def _long(self, outline: Outline, piece: bytes) -> None:
        """A piece of a line of a long event: of its name, or of its value."""
        if self._is_data:
            outline.feed(piece)
            return
        self._line += piece
        if len(self._line) < len(_DATA_AND_SPACE):
            return
        if self._line[: len(_DATA)] == _DATA:
            self._is_data = True
            outline.feed(self._line[len(_DATA) + (self._line[len(_DATA)] == _BLANK) :])
            del self._line[len(_DATA_AND_SPACE) :]
        else:
            del self._line[_LONGEST_NAME_LINE_BYTES:]  # of an event's name, or of nothing that is read

    def _long_line_ends(self, outline: Outline) -> None:
        """Only a line of data ends with a line feed in the data: other fields between two such lines add nothing (WHATWG HTML 9.2.6)."""
        if self._is_data or self._line == _DATA[:-1]:
            outline.feed(b"\n")
        elif self._line[: len(_DATA)] == _DATA:
            outline.feed(self._line[len(_DATA) :])
            outline.feed(b"\n")
        elif self._line[: len(_EVENT)] == _EVENT:
            self._event = bytes(self._line[len(_EVENT) :]).removeprefix(b" ")
        self._line.clear()
        self._is_data = False

    def _forget(self) -> None:
        self._size = 0
        self._event = b""
        self._data = None
