"""A stream's bytes in, its readings out: a parser (of events or of lines) and a dialect, together and once.

It knows how to go on when an event cannot be read: such an event says nothing and is counted. It refuses to know time
and traffic; whoever moves the bytes asks for the readings and gives them an instant. Who cuts bytes out of the stream
(`sidecar/observe/usage_chunk.py`) uses the same pass, through `spans`: nothing is parsed twice.
"""

from sidecar.timeline.events import NOTHING, Dialect, Reading, UnreadableEvent
from sidecar.timeline.ndjson import NdjsonParser
from sidecar.timeline.response_id import response_id_of
from sidecar.timeline.sse import MAX_EVENT_BYTES, SseParser


LOOKS_FOR_ID = 8
"""Events in which the answer's id is looked for: every API that has one says it in the first, keep-alives aside."""


class EventReader:
    """One stream's reader. Never raises on any bytes."""

    __slots__ = ("_looks_for_id", "_parser", "_read_event", "response_id", "unreadable")

    def __init__(self, dialect: Dialect, max_event_bytes: int = MAX_EVENT_BYTES, *, lines: bool = False) -> None:
        """`lines`: the stream is newline-delimited JSON; else it is one of server-sent events."""
        self._read_event = dialect.read_event
        self._parser = NdjsonParser(max_event_bytes) if lines else SseParser(max_event_bytes)
        self.response_id: str | None = None
        """The id that the answer gives itself, once one of its first events has said it."""
        self._looks_for_id = LOOKS_FOR_ID
        self.unreadable = 0
        """Events that their dialect could not read."""

    @property
    def oversized(self) -> int:
        """Events over the cap, not observed."""
        return self._parser.oversized

    @property
    def fed(self) -> int:
        """Bytes seen so far."""
        return self._parser.fed

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where each event of the last `feed` lies, as stream offsets (see `SseParser.spans`)."""
        return self._parser.spans

    @property
    def unfinished_at(self) -> int | None:
        """Stream offset of an event that has begun and not ended (see `SseParser.unfinished_at`)."""
        return self._parser.unfinished_at

    @property
    def unfinished(self) -> bool:
        """At the end of the stream: it was cut short within an event."""
        return self._parser.unfinished

    def feed(self, data: bytes) -> list[Reading]:
        """One reading for each event that `data` completes, in order; an unreadable one is `NOTHING`."""
        return self._readings(self._parser.feed(data))

    def finish(self) -> list[Reading]:
        """The stream is over: what a last line without its end says. Of server-sent events such a rest is no event."""
        return self._readings(self._parser.finish()) if isinstance(self._parser, NdjsonParser) else []

    def _readings(self, events: list[tuple[bytes, bytes]]) -> list[Reading]:
        readings = []
        for event, said in events:
            if self._looks_for_id:
                self._look_for_id(said)
            try:
                readings.append(self._read_event(event, said))
            except UnreadableEvent:
                self.unreadable += 1
                readings.append(NOTHING)
        return readings

    def _look_for_id(self, said: bytes) -> None:
        self.response_id = response_id_of(said)
        self._looks_for_id = 0 if self.response_id is not None else self._looks_for_id - 1
