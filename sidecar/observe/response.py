"""The body of one response as it passes: a stream, whose every token is told on at once, or a whole JSON answer.

Knows which of the readings are told to whom. It refuses to move bytes: a stream is told what has been written, except where
the usage chunk is cut from it; then `cut` sees each piece before it is written, and the observing waits for `data`.
"""

from collections.abc import Callable, Hashable, Sequence

from sidecar.observe.slo_counters import Slo, Steady
from sidecar.observe.usage_chunk import UsageCut
from sidecar.timeline.events import Reading
from sidecar.timeline.reader import ONE_TOKEN, EventReader
from sidecar.timeline.timeline import Timeline


MAX_BODY_BYTES = 1 << 20
"""A non-streamed answer is read for its usage up to this size; a larger one still passes, unread."""
_FIRST_CHOICE = (0,)


class StreamedResponse:
    """One stream. Everything that a token is told to is bound once, with the first."""

    def __init__(
        self,
        reader: EventReader,
        timeline: Timeline,
        slo: Slo,
        key: Hashable,
        *,
        per_read: Callable[[float], None],
        began: Callable[[], None],
        spoke: Callable[[float], None],
    ) -> None:
        """`per_read`: told the number of output events of each read. `began`: called with the first output, perhaps again. `spoke`: told each instant of output."""
        self.reader = reader
        self.done = False
        """The API's own end mark came."""
        self.usage_cut: UsageCut | None = None
        self._timeline = timeline
        self._slo = slo
        self._key = key
        self._per_read = per_read
        self._began = began
        self._spoke = spoke
        self._steady: Steady | None = None
        self._unseen: Sequence[Reading] = ()

    # --- where the usage chunk is cut out --------------------------------------------------------------------------------

    def cutting(self) -> "StreamedResponse":
        """From the first byte on, each piece goes through `cut`."""
        self.usage_cut = UsageCut(self.reader)
        return self

    def cut(self, data: bytes) -> bytes:
        """What goes to the client now; what it said is told on by `data`."""
        readings = self.reader.feed(data)
        self._unseen = [*self._unseen, *readings] if self._unseen else readings
        if readings is ONE_TOKEN or self.usage_cut is None:
            return data  # a whole event and nothing else: no byte before it is held, and it is not the usage chunk
        return self.usage_cut.kept(data, readings)

    def rest(self) -> bytes:
        """What is still held back."""
        return b"" if self.usage_cut is None else self.usage_cut.finish()

    # --- what it says ----------------------------------------------------------------------------------------------------

    def data(self, at: float, data: bytes) -> None:
        """Bytes that have been written."""
        if self.usage_cut is None:
            readings = self.reader.feed(data)
        else:
            readings, self._unseen = self._unseen, ()
        if readings is ONE_TOKEN:
            self._timeline.output(at, _FIRST_CHOICE)
            self._output(at, 1)
        elif readings:
            self._read(at, readings)

    def finish(self, at: float) -> None:
        """The stream is over."""
        self._read(at, self.reader.finish())

    def _read(self, at: float, readings: Sequence[Reading]) -> None:
        outputs = self._timeline.read(at, readings)
        if outputs:
            self._output(at, outputs)
        for reading in readings:
            if reading.done:
                self.done = True

    def _output(self, at: float, events: int) -> None:
        """So many output events were read together."""
        self._per_read(events)
        steady = self._steady
        if steady is None:
            self._slo.output(self._key, events, at)
            self._steady = self._slo.steady(self._key)
            self._began()
        else:
            if steady.deadlines is not None:
                steady.deadlines.output(at, events)
            steady.spoke(at)
        self._spoke(at)


class WholeResponse:
    """One JSON answer, collected until its end."""

    def __init__(self, dropped: Callable[[str], None]) -> None:
        self.body: bytearray | None = bytearray()
        """None: too long to be read."""
        self._dropped = dropped

    def data(self, at: float, data: bytes) -> None:  # noqa: ARG002  the hook's shape
        """Bytes that have been written."""
        if self.body is None:
            return
        self.body += data
        if len(self.body) > MAX_BODY_BYTES:
            self.body = None
            self._dropped("event_too_long")
