"""Reader of one stream: bytes in, stream events out. It joins a parser (of events or of lines) and a dialect.

It knows how to continue after an unreadable event: that event gives `NOTHING` and is counted. It refuses to know time
and traffic: its caller moves the bytes and adds the instants. The code that cuts bytes out of the stream
(`sidecar/observe/usage_chunk.py`) uses the same pass, through `parser.spans`, so nothing is parsed twice.
"""

from collections.abc import Sequence

from sidecar.timeline.dialects.json_fields import fails
from sidecar.timeline.events import (
    DONE,
    ERROR,
    NOTHING,
    OUTPUT,
    UNREADABLE,
    Dialect,
    StreamEvent,
    UnreadableEvent,
    is_json,
)
from sidecar.timeline.ndjson import NdjsonParser
from sidecar.timeline.response_id import stated_in
from sidecar.timeline.sse import CR, LF, MAX_EVENT_BYTES, SseParser


DONE_DATA = b"[DONE]"
_ERROR_BYTES = len(b"error")
LOOKS_FOR_ID = 8
"""Events in which the response id is searched: every API that has one states it in the first, not counting
keep-alives."""
TRIES = 16
"""Failed tries of the short way after which a stream is read the long way: more than its beginning, end and tool calls
take."""
ONE_TOKEN: Sequence[StreamEvent] = (OUTPUT,)
"""The very object that `feed` returns for one event that states a token and nothing else.

That event is all the bytes of the feed. `parser.spans` is not updated for it, which saves each token a list.
"""


class EventReader:
    """The reader of one stream. Never raises, whatever the bytes."""

    __slots__ = (
        "_dialect",
        "_last_unreadable",
        "_looks_for_id",
        "_read_event",
        "_token",
        "_tries",
        "lines",
        "model",
        "parser",
        "response_id",
        "unreadable",
    )

    def __init__(self, dialect: Dialect, max_event_bytes: int = MAX_EVENT_BYTES, *, lines: bool = False) -> None:
        """`lines`: the stream is newline-delimited JSON; else server-sent events."""
        self._dialect = dialect
        self._read_event = dialect.read_event
        self._token = dialect.token
        self._tries = TRIES
        self.lines = lines
        self.parser = NdjsonParser(max_event_bytes) if lines else SseParser(max_event_bytes)
        """It knows the bytes fed, the offsets of each event of the last `feed` but of ONE_TOKEN, and what is unfinished or oversized."""
        self.response_id: str | None = None
        """The response id, once one of the first events has stated it."""
        self.model: str | None = None
        """The model's name as the first events state it, up to the one with the id."""
        self._looks_for_id = LOOKS_FOR_ID
        self.unreadable = 0
        """Number of events that the dialect could not read."""
        self._last_unreadable: bytes | None = None  # the last event, if it could not be read

    def feed(self, data: bytes) -> Sequence[StreamEvent]:
        """One stream event for each event that `data` completes, in order; an unreadable event gives `NOTHING`.

        The short way: one whole event of one data line that states only a token is decoded in one call, by the
        dialect's own narrow type, and gives ONE_TOKEN. tests/timeline/test_reader.py checks that it equals the long
        way.
        """
        parser, size = self.parser, len(data)
        if (
            parser.between_events
            and data[:6] == b"data: "
            and data.find(b"\n") == size - 2 < parser.max_event_bytes
            and data[-1] == LF
            and CR not in data
        ):
            parser.fed += size
            said = data[6:-2]  # in order: the first LF stands at size - 2, and the six bytes before are none
            if self._token is not None and not self._looks_for_id and said[:1] == b"{":
                try:
                    self._token(said)
                except UNREADABLE:  # 1 us, so a stream of other events stops trying
                    self._tries -= 1
                    if self._tries == 0:
                        self._token = None
                else:
                    return ONE_TOKEN
            parser.spans = [(parser.fed - size, parser.fed)]
            return self._stream_events([(b"", said)])
        return self._stream_events(parser.feed(data))

    def goes_long_way(self) -> None:
        """From now on each event is read the long way: its offsets are needed, or whether it is the last one."""
        self._token = None

    def finish(self) -> list[StreamEvent]:
        """End the stream: the event of a last line without a line end. In server-sent events it is no event."""
        return self._stream_events(self.parser.finish()) if isinstance(self.parser, NdjsonParser) else []

    def breaks_off(self) -> bool:
        """Whether the stream ends in something that no API ends with: an event that is no JSON, half a value, a page, an error. Asked
        once, of a message that is whole by its framing, after `finish`.
        """
        parser = self.parser
        if isinstance(parser, NdjsonParser):
            half = parser.breaks_off or parser.unfinished_at is not None
        else:
            left = parser.finish()
            half = (
                parser.stray
                or any(not said for _, said in left)
                or any(each.error for each in self._stream_events(left))
            )
        return half or (self._last_unreadable is not None and not is_json(self._last_unreadable))

    def _stream_events(self, events: list[tuple[bytes, bytes]]) -> list[StreamEvent]:
        """One stream event for each event; the end mark comes before the event's name, and counts in every dialect."""
        stream_events = []
        for event, said in events:
            if self._looks_for_id:
                self.response_id, model = stated_in(said)
                self.model = model or self.model
                self._looks_for_id = 0 if self.response_id is not None else self._looks_for_id - 1
            if said == DONE_DATA:
                stream_events.append(DONE)
            elif len(event) == _ERROR_BYTES and event.lower() == b"error":
                stream_events.append(ERROR)
            elif not said:
                stream_events.append(NOTHING)
            else:
                try:
                    stream_events.append(self._read_event(event, said))
                except UnreadableEvent:
                    is_done = said.strip(b' "') == DONE_DATA
                    stream_events.append(DONE if is_done else ERROR if fails(said) else self._unread(said))
        return stream_events

    def _unread(self, said: bytes) -> StreamEvent:
        """An event that cannot be read. From now on each further one shows that it was not the last."""
        self.unreadable += 1
        self._last_unreadable, self._read_event = said, self._read_behind
        self.goes_long_way()
        return NOTHING

    def _read_behind(self, event: bytes, data: bytes) -> StreamEvent:
        self._last_unreadable = None
        return self._dialect.read_event(event, data)
