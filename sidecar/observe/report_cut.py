"""The report's event: requested by a header field for a client that did not request it, and cut out of the stream that it gets.

An engine that is asked to report (`AskedReport` in `sidecar/engines/kind.py`) adds one event behind the API's own end mark: a line with
a name that is its own, one line of data, and a blank line, all ended by LF. Engines write it in one piece, and their own clients find
it by its first line (`serve/openai_client.py` of TensorRT-LLM at 00cc02a3); so does this cut, which therefore needs no parser.

It holds no token back: all bytes up to the end mark go at once, and behind it only the beginning of what may be that first line waits,
26 bytes at most. The event itself is dropped as it comes, however long it is: none of it is held. The stream's reader sees all of it.

    before mark   No end mark has come. Every byte goes out.
    at an event   Behind the end mark, at the beginning of an event. Line ends go out. What may be the first line waits; if it is that
                  line, the next state is `in report`, else `in another`.
    in another    In another event, which goes out. Behind its blank line the state is `at an event`.
    in report     In the event that is cut. Behind its blank line the state is `at an event`.

An event that ends in CR, or in no blank line at all, is none that the engine writes: `in another` all of it goes out, and `in report`
nothing more, because what follows the name is part of that event until a blank line ends it.
"""

from collections.abc import Sequence
from typing import Final

from sidecar.timeline.events import StreamEvent
from sidecar.timeline.reader import EventReader


_BEFORE_MARK: Final = 0
_AT_AN_EVENT: Final = 1
_IN_ANOTHER: Final = 2
_IN_REPORT: Final = 3
"""The states."""
_CR_OR_LF = b"\r\n"
_LF_LF = b"\n\n"


class ReportCut:
    """Stands in the byte path of one stream for which a report was requested, and cuts the report's event out.

    Every byte outside that event goes out unchanged and in order.
    """

    __slots__ = ("_ended_line", "_first_line", "_held", "_reader", "_state", "cut")

    def __init__(self, reader: EventReader, first_line: bytes) -> None:
        """`first_line`: of the event that is cut, without its line end."""
        self._reader = reader
        self._first_line = first_line + b"\n"
        self._state = _BEFORE_MARK
        self._held = b""
        self._ended_line = False  # inside an event: the last byte was a LF
        self.cut = False
        """The event was cut out, or its beginning was."""

    @property
    def passing(self) -> bool:
        """No end mark has come: an event without one goes out as it is."""
        return self._state == _BEFORE_MARK

    def kept(self, data: bytes, stream_events: Sequence[StreamEvent]) -> bytes:
        """The bytes that go to the client now. `stream_events`: the reader's events in `data`, made just before.

        They are not ONE_TOKEN while this is `passing`: all its bytes go, and the caller asks nothing here.
        """
        at = 0
        if self._state == _BEFORE_MARK:
            at = self._end_of_mark(data, stream_events)
            if at < 0:
                return data
            self._state = _AT_AN_EVENT
        bytes_at_hand, kept = self._held + data[at:], [data[:at]]
        self._held = b""
        while bytes_at_hand:
            bytes_at_hand = self._step(bytes_at_hand, kept)
        return b"".join(kept)

    def finish(self) -> bytes:
        """The stream is over: returns the held bytes, which are the beginning of a line."""
        held, self._held = self._held, b""
        self._state = _IN_ANOTHER
        return held

    def _end_of_mark(self, data: bytes, stream_events: Sequence[StreamEvent]) -> int:
        """Index of the byte behind the first end mark in `data`; -1 if there is none."""
        for number, stream_event in enumerate(stream_events):
            if stream_event.done:
                parser = self._reader.parser
                return parser.spans[number][1] - (parser.fed - len(data))
        return -1

    def _step(self, bytes_at_hand: bytes, kept: list[bytes]) -> bytes:
        """Take one step; returns the bytes behind it."""
        if self._state == _AT_AN_EVENT:
            return self._begin(bytes_at_hand, kept)
        if self._ended_line and bytes_at_hand.startswith(b"\n"):
            over, end = True, 1
        else:
            blank = bytes_at_hand.find(_LF_LF)
            over = blank >= 0
            end = blank + len(_LF_LF) if over else len(bytes_at_hand)
        if self._state == _IN_ANOTHER:
            kept.append(bytes_at_hand[:end])
        self._ended_line = bytes_at_hand[:end].endswith(b"\n")
        if over:
            self._state = _AT_AN_EVENT
        return bytes_at_hand[end:]

    def _begin(self, bytes_at_hand: bytes, kept: list[bytes]) -> bytes:
        begun = bytes_at_hand.lstrip(_CR_OR_LF)
        kept.append(bytes_at_hand[: len(bytes_at_hand) - len(begun)])
        first_line = self._first_line
        if begun.startswith(first_line):
            self.cut, self._state, self._ended_line = True, _IN_REPORT, True
            return begun[len(first_line) :]
        if first_line.startswith(begun):
            self._held = begun
            return b""
        self._state, self._ended_line = _IN_ANOTHER, False
        return begun
