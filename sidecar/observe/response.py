"""The body of one response as it passes: a stream, each token of which is reported at once, or a whole JSON answer.

Where its type does not tell which of the two it is, its first bytes do. Knows which callbacks get which events. Refuses to move bytes: it sees the bytes of a stream after they were written.
Only where something is cut out that the sidecar asked for, `cut` parses each piece before it is written, and `data`
reports the events afterwards.
"""

from collections.abc import Callable, Sequence

from sidecar.budgets.budgets import Budget
from sidecar.engines.estimator import Estimator
from sidecar.metrics.children import HistogramChild
from sidecar.objectives.judge import TokenDeadlines
from sidecar.observe.report_cut import ReportCut
from sidecar.observe.request_record import RequestRecord
from sidecar.observe.slo_counters import Slo
from sidecar.observe.usage_chunk import UsageCut
from sidecar.pod.costs.steps import Stream
from sidecar.timeline.events import StreamEvent
from sidecar.timeline.outline import Outline
from sidecar.timeline.reader import ONE_TOKEN, EventReader
from sidecar.timeline.sse import BEGINNINGS, BOM
from sidecar.timeline.timeline import Timeline


MOST_QUIET_EVENTS = 64
"""Events before the first output after which a stream's output may be of a kind that is not known: no longer is it said to wait. More
than role frames and the pings of ten minutes are."""
COLLECTED_BYTES = 65_536
"""Bytes of an answer that is not streamed and that are kept as they are; of a longer one only its outline is."""
JSON_BEGINS = (b"{", b"[")
"""First bytes of each answer that is JSON."""
_BEFORE_ALL = b" \t\r\n" + BOM


class StreamedResponse:
    """One streamed response. Who is told of its tokens is found once, at the first output."""

    def __init__(
        self,
        reader: EventReader,
        timeline: Timeline,
        slo: Slo,
        record: RequestRecord,
        *,
        per_read: HistogramChild,
        estimator: Estimator | None,
        began: Callable[[], None],
        usage_cut: UsageCut | None = None,
        cuts_report: bytes | None = None,
    ) -> None:
        """`per_read`: takes the number of output events of each read. `estimator`: takes each instant of output. `began`: called
        at the first output, perhaps more than once. `usage_cut`: cuts out the usage chunk, by the
        same reader; None: it is not cut out. `cuts_report`: the first line of the event that is cut out; None if none is. Only one of the two is asked for. Where something is cut out, each piece goes through
        `cut` from the first byte on.
        """
        self.reader = reader
        self.done = False
        """The API's own end mark came."""
        self._awaits_output = True
        self._quiet_events = 0
        self.usage_cut = usage_cut
        self._report_cut = None if cuts_report is None else ReportCut(reader, cuts_report)
        self.cuts = usage_cut is not None or cuts_report is not None
        self._timeline = timeline
        self._slo = slo
        self._record = record
        self._per_read = per_read
        self._estimator = estimator
        self._began = began
        self._deadlines: TokenDeadlines | None = None
        self._flow: Stream | None = None
        """Known from the first output on, and then told of each further one."""
        self._unseen: Sequence[StreamEvent] = ()

    @property
    def awaits_output(self) -> bool:
        """All that came so far is known to be no output: a head, comments, pings and role frames."""
        reader, parser = self.reader, self.reader.parser
        return self._awaits_output and not (reader.unreadable or parser.oversized or parser.in_long_event)

    # --- where something is cut out --------------------------------------------------------------------------------------

    def cut(self, data: bytes) -> bytes:
        """The bytes that go to the client now. `data` reports the events of this piece, once it is written."""
        stream_events = self.reader.feed(data)
        self._unseen = [*self._unseen, *stream_events] if self._unseen else stream_events
        # ONE_TOKEN is a whole event and nothing else: no byte before it is held, and it is not what is cut out.
        if self.usage_cut is not None:
            return data if stream_events is ONE_TOKEN else self.usage_cut.kept(data, stream_events)
        if self._report_cut is None or (stream_events is ONE_TOKEN and self._report_cut.passing):
            return data
        return self._report_cut.kept(data, stream_events)

    def rest(self) -> bytes:
        """The bytes that are still held back; they are released."""
        if self._report_cut is not None:
            return self._report_cut.finish()
        return b"" if self.usage_cut is None else self.usage_cut.finish()

    # --- what is read from it --------------------------------------------------------------------------------------------

    def data(self, at: float, data: bytes) -> None:
        """Take in bytes that have been written to the client."""
        if not self.cuts:
            stream_events = self.reader.feed(data)
        else:
            stream_events, self._unseen = self._unseen, ()
        if stream_events is ONE_TOKEN:
            self._timeline.token(at)
            flow = self._flow
            if flow is None:
                self._output(at, 1)
                return
            # As `_output` does it, without its call.
            self._per_read.observe(1)
            if self._deadlines is not None:
                self._deadlines.output(at, 1)
            flow.spoke(at, 1)
            if self._estimator is not None:
                self._estimator.spoke(self._record, at)
        elif stream_events:
            self._read(at, stream_events)

    def finish(self, at: float) -> None:
        """The stream is over."""
        left = self.reader.finish() if self.reader.lines else ()
        if left:
            self._read(at, left)

    def _read(self, at: float, stream_events: Sequence[StreamEvent]) -> None:
        outputs = self._timeline.read(at, stream_events)
        if outputs:
            self._output(at, outputs)
        for stream_event in stream_events:
            if stream_event.done:
                self.done = True
                self._timeline.done(at)
                # The engine may hold the message open behind its own end mark, and nothing stands still.
                case = self._record.case
                if case is not None and case.gaps is not None:
                    case.gaps.finished(at)
        if self._awaits_output:
            self._quiet_events += len(stream_events)
            many = self._quiet_events > MOST_QUIET_EVENTS
            works = "prompt_progress" in self._timeline.extras  # it is not waiting: it computes, and says so
            self._awaits_output = not (outputs or many or works or self.done or self._timeline.error_seen)

    def _output(self, at: float, events: int) -> None:
        """Report the output events that were read together: `events` is their number."""
        self._awaits_output = False
        self._per_read.observe(events)
        if self._flow is None:
            self._slo.output(self._record, events, at)
            self._flow, self._deadlines = self._slo.flow_of(self._record)
            self._began()
        else:
            if self._deadlines is not None:
                self._deadlines.output(at, events)
            self._flow.spoke(at, events)
        if self._estimator is not None:
            self._estimator.spoke(self._record, at)


class WholeResponse:
    """One JSON answer, collected until its end. Of a long one, or where there is no room for it, the outline is kept (`outline.py`)."""

    def __init__(self, dropped: Callable[[str], None], budget: Budget) -> None:
        """`budget`: of the bytes that the process holds."""
        self.awaits_output = True
        """Not a byte of it came."""
        self.unread = False
        """It is over, and has no outline."""
        self.is_page = False
        """It is long, and no JSON or half of one."""
        self._body = bytearray()
        self._outline: Outline | None = None
        self._budget = budget
        self._counted_bytes = 0
        self._dropped = dropped

    def data(self, at: float, data: bytes) -> None:  # noqa: ARG002  the hook's shape
        """Take in bytes that have been written to the client."""
        self.awaits_output = False
        if self._outline is not None:
            self._outline.feed(data)
            return
        budget, self._counted_bytes = self._budget, self._counted_bytes + len(data)
        budget.used += len(data)
        self._body += data
        full = budget.used > budget.limit
        budget.exceeded += full
        if full or len(self._body) > COLLECTED_BYTES:
            self._outline = Outline()
            self._outline.feed(self._body.lstrip(_BEFORE_ALL))
            self._body.clear()
            self.let_go()

    def said(self) -> bytes:
        """The answer, or its outline; empty if none came, or if it has no outline, which is counted."""
        if self._outline is None:
            return bytes(self._body)
        outline = self._outline.answer()
        if outline is None:
            self.unread, self.is_page = True, self._outline.breaks_off
            self._dropped(
                "event_too_long" if self._outline.given_up or self._outline.cut_answers else "unreadable_event"
            )
        return outline or b""

    def let_go(self) -> None:
        """The answer is read, or will not be: its bytes are held no longer."""
        self._budget.used -= self._counted_bytes
        self._counted_bytes = 0


class UndecidedResponse:
    """One answer under another type than its request's format promises, or under none. Its first bytes decide how it is read.

    Engines and hops in between write `text/plain` above events, or leave the type out, and send pages with status 200.
    """

    def __init__(self, told: Callable[[bytes], StreamedResponse | WholeResponse | None], *, cuts: bool) -> None:
        """`told`: called once with the first bytes, from the first that is no blank on; returns what reads the answer; None: nothing does.
        `cuts`: each piece goes through `cut` first.
        """
        self.is_told = False
        self._told = told
        self._cuts = cuts
        self._begun = self._due = b""  # before it is told; what `data` is yet to report
        self._answer: StreamedResponse | WholeResponse | None = None

    def cut(self, data: bytes) -> bytes:
        """As `StreamedResponse.cut`. Before it is told, nothing goes: these few bytes may be the beginning of an event."""
        data = self._begins(data)
        self._due += data
        return self._answer.cut(data) if isinstance(self._answer, StreamedResponse) and self._answer.cuts else data

    def rest(self) -> bytes:
        """The bytes that are still held back; they are released."""
        begun, self._begun = self._begun, b""
        return begun + (self._answer.rest() if isinstance(self._answer, StreamedResponse) else b"")

    def data(self, at: float, data: bytes) -> None:
        """Take in bytes that have been written to the client."""
        due, self._due = self._due if self._cuts else self._begins(data), b""
        if due and self._answer is not None:
            self._answer.data(at, due)

    def _begins(self, data: bytes) -> bytes:
        """The bytes that can be read now: none before the answer is told."""
        if self.is_told:
            return data
        data, self._begun = self._begun + data, b""
        begun = data.lstrip(_BEFORE_ALL)
        if not begun or any(beginning.startswith(begun) for beginning in BEGINNINGS):
            self._begun = data
            return b""
        self._answer, self.is_told = self._told(begun), True
        return data
