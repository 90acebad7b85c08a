"""The usage chunk: requested for a client that did not request it, and cut out of the stream that this client gets.

Knows how `stream_options.include_usage` is written into a body without re-serialising it, and which bytes of the
resulting stream are the usage chunk. Refuses to hold back a token: each complete event with a choice passes at once. An incomplete
event waits, since it may be that chunk, and so does an event with usage and no choice, until it is known what follows it.

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

NOWHERE = (0, 0)
"""The span of nothing."""
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
#   passing   Complete events go out at once. An incomplete event may become the chunk: it is held from its first field, unless it grew
#             beyond MAX_HELD_BYTES: then all of it goes out, whatever it is.
#   waiting   The last complete event has usage and no choice. It is held, and all behind it. Then
#               - every choice has given its finish reason, or the next event is the API's end mark: it is the chunk, and is cut;
#               - any other event comes, or too much to be held, or the end of the stream: it goes out in its place.
#   over      Final: nothing is cut and nothing is held any more. It is entered when the chunk was cut, when the end mark came, and when
#             an event with a choice states usage: the engine does so by itself, and what it states is the client's.
#
# The reader counts offsets from the start of the stream (`fed`, `spans`, `unfinished_at`). The bytes at hand, held ones
# first, begin at stream offset `base`; offset minus `base` is an index into them.
class UsageCut:
    """Stands in the byte path of one stream for which usage was requested, and cuts the usage chunk out.

    At most 64 KiB are held. Every byte outside that one chunk goes out unchanged and in order.
    """

    __slots__ = (
        "_choices",
        "_finished",
        "_held",
        "_nulls",
        "_over",
        "_passes_at",
        "_reader",
        "_usage_bytes",
        "cut",
        "shows",
    )

    def __init__(self, reader: EventReader, choices: int = 1, nulls: bool = False) -> None:
        """`choices`: so many end before the chunk. `nulls`: the engine's chunks have `usage: null` in any case."""
        self._reader = reader
        self._choices = choices
        self._nulls = nulls
        self._finished: set[int] = set()
        self._held = b""
        self._usage_bytes = 0  # how many of the held bytes, the first ones, are an event with usage and no choice
        self._passes_at = -1  # stream offset of the event that is too long to be held
        self._over = False  # nothing more will be cut
        self.cut = False
        """The usage chunk was cut out."""
        self.shows = False
        """The client gets usage that it did not ask for, or a `usage: null` that the engine writes only where it is asked."""

    def kept(self, data: bytes, stream_events: Sequence[StreamEvent]) -> bytes:
        """The bytes that go to the client now. `stream_events`: the reader's events in `data`, made just before.

        They are never ONE_TOKEN, of which the reader notes no offsets: all its bytes go, and the caller asks nothing here.
        """
        if self._over:
            return data
        held, parser = self._held, self._reader.parser
        if not held and parser.between_events:
            for stream_event in stream_events:
                if stream_event.usage is not None or (stream_event.null_usage and not self._nulls):
                    break
                if stream_event.finished:
                    self._finished.update(stream_event.finished)
                if stream_event.done:
                    self._over = True
                    return data
            else:
                return data
        bytes_at_hand = held + data if held else data
        base, hold_from = parser.fed - len(bytes_at_hand), len(bytes_at_hand)
        gap, usage = self._found(base, bytes_at_hand, stream_events)
        if usage[1] or not parser.between_events:
            hold_from = self._holds_from(usage, base, hold_from)
        if hold_from == len(data) and not (held or gap[1]):
            return data
        self._held = bytes_at_hand[hold_from:]
        self._usage_bytes = usage[1] - usage[0] if hold_from == usage[0] else 0
        # In order: the gap ends within the bytes at hand, and what is held begins behind it.
        return bytes_at_hand[: gap[0]] + bytes_at_hand[gap[1] : hold_from]

    def _found(
        self, base: int, bytes_at_hand: bytes, stream_events: Sequence[StreamEvent]
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        """The span of the bytes at hand that is cut, and that of an event with usage and no choice behind which nothing has come."""
        usage = (0, self._usage_bytes)
        parser, finished = self._reader.parser, self._finished
        if usage[1] and len(finished) >= self._choices:
            return self._cuts(usage, bytes_at_hand), NOWHERE
        for stream_event, (start, end) in zip(stream_events, parser.spans, strict=True):
            if usage[1] and (stream_event.done or len(finished) >= self._choices):
                return self._cuts(usage, bytes_at_hand), NOWHERE
            self.shows = self.shows or usage[1] > 0 or (stream_event.null_usage and not self._nulls)
            usage = NOWHERE
            # The outline of a longer event may lack what stood beside its usage.
            if stream_event.bare_usage and start >= base and end - start <= parser.max_event_bytes:
                usage = (start - base, end - base)
                self._reader.goes_long_way()
            elif stream_event.usage is not None or stream_event.done:
                self.shows, self._over = self.shows or stream_event.usage is not None, True
                break
            finished.update(stream_event.finished)
        if usage[1] and len(finished) >= self._choices and not bytes_at_hand.endswith(b"\r"):
            return self._cuts(usage, bytes_at_hand), NOWHERE  # else a LF that belongs to it may follow
        return NOWHERE, usage

    def finish(self) -> bytes:
        """The stream is over: returns the held bytes, which are an incomplete event, or usage that no end mark followed."""
        held, self._held = self._held, b""
        if self._usage_bytes and len(self._finished) >= self._choices:
            held = held[self._cuts((0, self._usage_bytes), held)[1] :]
        self._over = True
        return held

    def _cuts(self, usage: tuple[int, int], bytes_at_hand: bytes) -> tuple[int, int]:
        """The span of the chunk that is cut. A CR at the end of its segment takes along the LF that began the next one."""
        self.cut = self._over = True
        start, end = usage
        # In order: the last byte of the chunk, and the one behind it.
        return start, end + (bytes_at_hand[end - 1 : end + 1] == b"\r\n")

    def _holds_from(self, usage: tuple[int, int], base: int, end: int) -> int:
        """Index of the first of the bytes at hand that is held; `end` if none is."""
        unfinished_at = self._reader.parser.unfinished_at
        if usage[1]:
            hold_from = usage[0]
        elif self._over or unfinished_at is None or unfinished_at == self._passes_at:
            return end
        else:
            hold_from = unfinished_at - base
        if end - hold_from <= MAX_HELD_BYTES:
            return hold_from
        self._passes_at = -1 if unfinished_at is None else unfinished_at
        self.shows = self.shows or usage[1] > 0
        return end
