"""The usage chunk: requested for a client that did not request it, and cut out of the stream that this client gets.

Knows how `stream_options.include_usage` is written into a body without re-serialising it, and which bytes of the
resulting stream are the usage chunk. Refuses to hold back a token: until every choice has given its finish reason all
bytes pass at once; after that only an incomplete event waits, since it may be that chunk.

The cut has no parser of its own: it gets the events that the stream's own `EventReader` made of each segment, so that
one pass serves both the client's bytes and the timeline's events.

What a client of vLLM may notice: with usage asked for, vLLM (0.32, 0.33) moves `system_fingerprint` from the chunk with
the finish reason to the usage chunk, and so out of what this client gets.
"""

from collections.abc import Sequence

from sidecar.classify.found import Asked, Peek
from sidecar.classify.usage_option import place_of_null
from sidecar.metrics.vocabulary import NotAsked
from sidecar.proxy.observer import Splice
from sidecar.timeline.events import StreamEvent
from sidecar.timeline.reader import EventReader


MAX_HELD_BYTES = 65_536
"""Most bytes that are held. A usage chunk has about 500 bytes; an event a hundred times longer is something else."""

_KEY = b'"stream_options":{"include_usage":true},'
_VALUE = b'{"include_usage":true}'
_WHY_NOT = {
    Asked.WANTED: NotAsked.ALREADY_ASKED,
    Asked.DECLINED: NotAsked.DECLINED,
    Asked.UNCLEAR: NotAsked.UNCLEAR,
    Asked.LEFT_OUT: NotAsked.ENGINE_DEFAULT,
}
"""The states in which the client has decided; in the others, ABSENT and NULL, it is asked for."""


def ask_for_usage(body: bytes | bytearray, peek: Peek, *, of_choices: bool = False) -> Splice | NotAsked:
    """The change that writes `stream_options.include_usage` true into the body, or why there is none.

    `peek` must be made of this body. `of_choices`: the engine states the usage of several choices in one chunk, too. `json.loads` of the changed body equals that of the body plus this one key.
    """
    if not peek.whole:
        return NotAsked.NOT_WHOLE
    if peek.stream is not True:
        return NotAsked.NOT_STREAMED
    if peek.usage_asked in _WHY_NOT:
        return _WHY_NOT[peek.usage_asked]
    if peek.choices is None:
        return NotAsked.UNCLEAR
    if peek.choices > 1 and not of_choices:
        return NotAsked.SEVERAL_CHOICES
    if peek.usage_asked is Asked.NULL:
        null_at = peek.null_at or place_of_null(body)
        return NotAsked.UNCLEAR if null_at is None else Splice(*null_at, _VALUE)
    brace = body.index(b"{") + 1
    return Splice(brace, brace, _KEY)


# A cut is in one of three states.
#
#   passing   Some choice has not given its finish reason yet. Every byte goes out at once.
#   holding   Every choice has given its finish reason, so no token is left to delay. A complete event goes out at once,
#             unless it is the usage chunk. An incomplete event may become the chunk: it is held from its first field.
#             Bytes are held in no other state.
#   over      Final: nothing is cut and nothing is held any more. It is entered when
#               - the chunk was cut: an event with usage and no choice, in `holding` (`cut`);
#               - usage came in any other event: the engine states it by itself (`engine_forces_usage`);
#               - an event with `usage: null` came, and the engine's chunks have none unasked (`engine_adds_null_usage`);
#               - the held bytes exceeded MAX_HELD_BYTES: they go out, whatever they are (`gave_up`);
#               - the stream ended: the held bytes go out (`finish`).
#
# One byte may be cut in `over`: if the chunk and its segment ended in CR, an LF at the start of the next segment is the
# second half of that line end (`_drop_lf`).
#
# The reader counts offsets from the start of the stream (`fed`, `spans`, `unfinished_at`). The bytes at hand, held ones
# first, begin at stream offset `base`; offset minus `base` is an index into them.
class UsageCut:
    """Stands in the byte path of one stream for which usage was requested, and cuts the usage chunk out.

    Bytes are held only after every choice's finish reason, only from the first field of an incomplete event, and at
    most 64 KiB of them. Every byte outside that one chunk goes out unchanged and in order.
    """

    __slots__ = (
        "_choices",
        "_drop_lf",
        "_finished",
        "_held",
        "_nulls",
        "_over",
        "_reader",
        "cut",
        "engine_adds_null_usage",
        "engine_forces_usage",
        "gave_up",
    )

    def __init__(self, reader: EventReader, choices: int = 1, nulls: bool = False) -> None:
        """`choices`: so many end before the chunk. `nulls`: the engine's chunks have `usage: null` in any case."""
        self._reader = reader
        self._choices = choices
        self._nulls = nulls
        self._finished: set[int] = set()
        self._held = b""
        self._over = False  # nothing more will be cut
        self._drop_lf = False  # the chunk ended in CR at the end of a segment: an LF that follows is part of it
        self.cut = False
        """The usage chunk was cut out."""
        self.engine_forces_usage = False
        """The engine states usage outside the requested chunk, so it does so by itself: nothing is cut."""
        self.engine_adds_null_usage = False
        """The engine answers include_usage with `usage: null` in every chunk: nothing is cut; do not ask it again."""
        self.gave_up = False
        """An event after the last finish reason exceeded MAX_HELD_BYTES: it passed, whatever it was."""

    def kept(self, data: bytes, stream_events: Sequence[StreamEvent]) -> bytes:
        """The bytes that go to the client now. `stream_events`: the reader's events in `data`, made just before.

        They are never ONE_TOKEN, of which the reader notes no offsets: all its bytes go, and the caller asks nothing here.
        """
        if self._over:
            if not self._drop_lf:
                return data
        elif not self._finished:
            for stream_event in stream_events:
                null = stream_event.null_usage and not self._nulls
                if stream_event.finished or stream_event.usage is not None or null:
                    break
            else:
                return data
        bytes_at_hand = self._held + data
        parser = self._reader.parser
        base = parser.fed - len(bytes_at_hand)
        gap = self._gap(base, bytes_at_hand, stream_events)
        hold_from = len(bytes_at_hand)
        if not self._over and len(self._finished) >= self._choices and parser.unfinished_at is not None:
            hold_from = max(gap[1], parser.unfinished_at - base)
            if len(bytes_at_hand) - hold_from > MAX_HELD_BYTES:
                self.gave_up = self._over = True
                hold_from = len(bytes_at_hand)
        self._held = bytes_at_hand[hold_from:]
        # In order: the gap ends within the bytes at hand, and what is held begins behind it.
        return bytes_at_hand[: gap[0]] + bytes_at_hand[gap[1] : hold_from]

    def finish(self) -> bytes:
        """The stream is over: returns the held bytes, which are an incomplete event."""
        held, self._held = self._held, b""
        self._over = True
        return held

    def _gap(self, base: int, bytes_at_hand: bytes, stream_events: Sequence[StreamEvent]) -> tuple[int, int]:
        """Start and end of the part of the bytes at hand that is cut; (0, 0) if none is."""
        if self._drop_lf and bytes_at_hand:
            self._drop_lf = False
            return (0, 1) if bytes_at_hand[:1] == b"\n" else (0, 0)
        for stream_event, (start, end) in zip(stream_events, self._reader.parser.spans, strict=True):
            at_the_end = len(self._finished) >= self._choices
            # The outline of a longer event may lack what stood beside its usage.
            bare = stream_event.bare_usage and end - start <= self._reader.parser.max_event_bytes
            if stream_event.null_usage and not self._nulls:  # this engine writes it only because it was asked
                self.engine_adds_null_usage = self._over = True
            elif stream_event.usage is not None and not (at_the_end and bare):
                self.engine_forces_usage = self._over = True
            if self._over:
                return 0, 0
            if bare:
                self.cut = self._over = True
                self._drop_lf = end - base == len(bytes_at_hand) and bytes_at_hand.endswith(b"\r")
                return start - base, end - base
            self._finished.update(stream_event.finished)
        return 0, 0
