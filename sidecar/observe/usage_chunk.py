"""The usage chunk: asked for on behalf of a client that did not ask, and taken out of what that client gets.

It knows how `stream_options.include_usage` is written into a body without re-serialising it, and which bytes of the
stream that asked for are the chunk that came of it. It refuses to hold back a token: until every choice has given its
finish reason all bytes pass at once; after that only an event still incomplete waits, since it may be that chunk.

The cut owns no parser: it is told what the stream's own `EventReader` made of each segment, so that one pass serves
both the client's bytes and the timeline's readings.

What a client of vLLM may notice: with usage asked for, vLLM (0.32, 0.33) moves `system_fingerprint` from the chunk with
the finish reason to the usage chunk, and so out of what this client gets.
"""

from collections.abc import Sequence

from sidecar.classify.body import Asked, Look
from sidecar.classify.top_level import members
from sidecar.metrics.vocabulary import NotAsked
from sidecar.timeline.events import Reading
from sidecar.timeline.reader import EventReader


MAX_HELD_BYTES = 65_536
"""A usage chunk has some 500 bytes; what is a hundred times longer is something else."""

_KEY = b'"stream_options":{"include_usage":true}'
_VALUE = b'{"include_usage":true}'


def ask_for_usage(body: bytes, look: Look) -> bytes | NotAsked:
    """The body with `stream_options.include_usage` true written into it, every other byte in its place; or why not.

    `look` is this body's own. `json.loads` of the result equals that of the body plus this one key.
    """
    if not look.whole:
        return NotAsked.NOT_WHOLE
    if look.stream is not True:
        return NotAsked.NOT_STREAMED
    match look.usage_asked:
        case Asked.WANTED:
            return NotAsked.ALREADY_ASKED
        case Asked.DECLINED:
            return NotAsked.DECLINED
        case Asked.UNCLEAR:
            return NotAsked.UNCLEAR
        case Asked.LEFT_OUT:
            return NotAsked.ENGINE_DEFAULT
        case Asked.ABSENT | Asked.NULL:
            pass
    if look.choices is None:
        return NotAsked.UNCLEAR
    if look.choices != 1:
        return NotAsked.SEVERAL_CHOICES
    return _inserted(body) if look.usage_asked is Asked.ABSENT else _replaced(body)


def _inserted(body: bytes) -> bytes:
    brace = body.index(b"{") + 1
    return body[:brace] + _KEY + b"," + body[brace:]


def _replaced(body: bytes) -> bytes | NotAsked:
    """The null of `stream_options` gives way; the scan that finds it is bounded."""
    null = None
    at_end = 0
    for member in members(body):
        at_end = member.end
        if member.name == "stream_options":
            null = member  # of duplicates the last one counts
    if null is None or body[at_end:].strip(b" \t\n\r") != b"}":
        return NotAsked.UNCLEAR  # too many parts to look through them all
    return body[: null.start] + _VALUE + body[null.end :]


class UsageCut:
    """Stands in the byte path of one stream for which usage was asked, and takes the usage chunk out.

    Bytes are held back only after every choice's finish reason, only from the first field of an incomplete event, and
    at most 64 KiB of them. Whatever is not that one chunk goes out byte for byte and in order.
    """

    __slots__ = (
        "_choices",
        "_drop_lf",
        "_finished",
        "_held",
        "_over",
        "_reader",
        "cut",
        "engine_adds_null_usage",
        "engine_forces_usage",
        "gave_up",
    )

    def __init__(self, reader: EventReader, choices: int = 1) -> None:
        self._reader = reader
        self._choices = choices
        self._finished: set[int] = set()
        self._held = b""
        self._over = False  # nothing more will be cut
        self._drop_lf = False  # the chunk ended in CR at the end of a segment: a LF that follows is its own
        self.cut = False
        """The usage chunk was taken out."""
        self.engine_forces_usage = False
        """The engine states usage outside the chunk asked for, so it does so by itself: nothing is cut."""
        self.engine_adds_null_usage = False
        """The engine answers include_usage with `usage: null` in every chunk: nothing is cut, and it should not be asked again."""
        self.gave_up = False
        """An event after the end was longer than may be held: it passed, whatever it was."""

    def kept(self, data: bytes, readings: Sequence[Reading]) -> bytes:
        """What goes to the client now. `readings`: what the reader made of `data`, just now."""
        if self._over:
            if not self._drop_lf:
                return data
        elif not self._finished:
            for reading in readings:
                if reading.finished or reading.usage is not None or reading.null_usage:
                    break
            else:
                return data
        bytes_at_hand = self._held + data
        base = self._reader.fed - len(bytes_at_hand)
        gap = self._gap(base, bytes_at_hand, readings)
        hold_from = len(bytes_at_hand)
        if not self._over and len(self._finished) >= self._choices and self._reader.unfinished_at is not None:
            hold_from = max(gap[1], self._reader.unfinished_at - base)
            if len(bytes_at_hand) - hold_from > MAX_HELD_BYTES:
                self.gave_up = self._over = True
                hold_from = len(bytes_at_hand)
        self._held = bytes_at_hand[hold_from:]
        return bytes_at_hand[: gap[0]] + bytes_at_hand[gap[1] : hold_from]

    def finish(self) -> bytes:
        """The stream is over: what is still held, which was no whole event."""
        held, self._held = self._held, b""
        self._over = True
        return held

    def _gap(self, base: int, bytes_at_hand: bytes, readings: Sequence[Reading]) -> tuple[int, int]:
        """The part of the bytes at hand that is cut, as offsets in them; empty and at their start if none is."""
        if self._drop_lf and bytes_at_hand:
            self._drop_lf = False
            return (0, 1) if bytes_at_hand[:1] == b"\n" else (0, 0)
        for reading, (start, end) in zip(readings, self._reader.spans, strict=True):
            at_the_end = len(self._finished) >= self._choices
            if reading.null_usage:
                self.engine_adds_null_usage = self._over = True
            elif reading.usage is not None and not (at_the_end and reading.bare_usage):
                self.engine_forces_usage = self._over = True
            if self._over:
                return 0, 0
            if reading.bare_usage:
                self.cut = self._over = True
                self._drop_lf = end - base == len(bytes_at_hand) and bytes_at_hand.endswith(b"\r")
                return start - base, end - base
            self._finished.update(reading.finished)
        return 0, 0
