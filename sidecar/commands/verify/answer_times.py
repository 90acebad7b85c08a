"""One probe's answer, from its bytes and their instants: the client's own clock beside what the stream, the fields and the engine say. Pure.

It reads an answer as the sidecar does, with the same reader, timeline and ledger, so that `verify` shows what a sidecar at this place would
see. All durations begin when the connection was there and the request was written.
"""

from dataclasses import dataclass

from sidecar.commands.asking import Exchange
from sidecar.commands.verify.probe_shapes import CHAT
from sidecar.engines.kind import EngineKind, Wire
from sidecar.engines.probe.state_names import PageTime
from sidecar.ledger.account import Source
from sidecar.ledger.report import EngineReport
from sidecar.timeline.apis import Apis
from sidecar.timeline.events import UnreadableEvent
from sidecar.timeline.marks import Marks
from sidecar.timeline.reader import EventReader
from sidecar.timeline.timeline import Timeline


HOP_FIELDS = (
    *("server", "via", "server-timing", "x-accel-buffering", "x-cache", "x-envoy-upstream-service-time"),
    *("content-encoding", "transfer-encoding", "cache-control", "x-sidecar-error"),
)
"""Fields of an answer that say which hop made it, or how it carries a stream. Others are not shown: they may say who the user is."""
_LONGEST_FIELD = 120
_EVENT_STREAM = "text/event-stream"
_TOLD_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. Durations in seconds; None where the answer has none."""

    status: int | None
    failure: str
    """Why there is no whole, good answer; "" for a good one."""
    marks: Marks
    total_seconds: float
    late_seconds: float = 0.0
    """Most seconds by which this machine noted an instant too late."""
    ttft_seconds: float | None = None
    between_seconds: float | None = None
    """Mean time between two events with output."""
    reads: int = 0
    """Reads of the socket that brought output."""
    finish: str = ""
    report: EngineReport | None = None
    """In the answer itself."""
    fields: tuple[tuple[str, str], ...] = ()
    """The fields of HOP_FIELDS that it has."""
    collected: bool = False
    """The output of the stream that was asked for came as one document: something collected it."""

    @property
    def good(self) -> bool:
        return not self.failure

    @property
    def tokens(self) -> int | None:
        """As usage states them."""
        return None if self.marks.usage is None else self.marks.usage.completion_tokens

    def field(self, name: str) -> str:
        return dict(self.fields).get(name, "")


def answer_of(exchange: Exchange, kind: EngineKind) -> Answer:
    """The answer in one exchange. Never raises, whatever the bytes."""
    sent_at = exchange.sent_at
    timeline = Timeline(sent_at)
    timeline.received_at = sent_at
    timeline.sent(sent_at)
    if exchange.headers_at is not None:
        timeline.headers(exchange.headers_at)
    api = Apis().of(b"POST", CHAT.encode())
    assert api is not None  # a path of OpenAI's API
    reader = EventReader(api.dialect)
    streaming = exchange.field("content-type").partition(";")[0].strip().lower() == _EVENT_STREAM
    reads, failure = 0, ""
    if streaming:
        for at, piece in exchange.pieces:
            events = reader.feed(piece)
            reads += timeline.read(at, events) > 0
            if any(event.done for event in events):
                timeline.done(at)
    elif exchange.status == 200:
        try:
            timeline.read_body(api.dialect.read_body(exchange.body))
        except UnreadableEvent:
            failure = f"answers 200 with no JSON of this API ({_content_type(exchange)})"
    timeline.ended(exchange.ended_at)
    timeline.flushed_at = exchange.ended_at
    marks = timeline.marks()
    fields = tuple(
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in exchange.fields
    )
    first_at, last_at = marks.first_token_at, marks.last_token_at
    return Answer(
        exchange.status,
        failure or _failure(exchange, timeline, streaming=streaming),
        marks,
        (marks.ended_at or exchange.ended_at) - sent_at,
        exchange.late_seconds,
        None if first_at is None else first_at - sent_at,
        None
        if first_at is None or last_at is None or marks.output_events < 2
        else (last_at - first_at) / (marks.output_events - 1),
        reads,
        str(timeline.finish),
        kind.in_band(timeline.extras, Wire(marks, streaming, fields, max(1, marks.choices))),
        tuple((name, exchange.field(name)[:_LONGEST_FIELD]) for name in HOP_FIELDS if exchange.field(name)),
        collected=bool(timeline.says),
    )


def told_in(report: EngineReport | None) -> dict[PageTime, float]:
    """The times that a report on one request states by the engine's own measurement."""
    if report is None or report.merged:
        return {}
    told = {
        PageTime.QUEUE: report.queue_seconds if report.queue_source is Source.ENGINE else None,
        PageTime.PREFILL: report.prefill_seconds if report.prefill_source is Source.ENGINE else None,
        PageTime.DECODE: report.decode_seconds,
    }
    return {name: seconds for name, seconds in told.items() if seconds is not None}


def _failure(exchange: Exchange, timeline: Timeline, *, streaming: bool) -> str:
    if exchange.status is None or exchange.failure:
        return exchange.failure or "does not answer"
    if exchange.status in range(300, 400):
        return f"redirects ({exchange.status}): give the address that it redirects to"
    if exchange.status != 200:
        return f"answers {exchange.status}: {_words(exchange.body)}"
    return _fault_of_200(exchange, timeline, streaming=streaming)


def _fault_of_200(exchange: Exchange, timeline: Timeline, *, streaming: bool) -> str:
    """It repeats no word of the body, which may be a model's text."""
    if timeline.error_seen:
        return f"answers 200, and the answer is an error ({_content_type(exchange)})"
    if not timeline.output_events if streaming else not timeline.says:
        return "answers 200, and no output is in it"
    if not streaming:
        return f"answers 200: a stream was asked for, and one document came ({_content_type(exchange)})"
    if timeline.done_at is None and not timeline.finished_all():
        return "answers 200, and ends in the middle: neither a finish reason nor the end mark came"
    return ""


def _content_type(exchange: Exchange) -> str:
    return " ".join(exchange.field("content-type")[:_LONGEST_FIELD].split()) or "no content-type"


def _words(body: bytes) -> str:
    return " ".join(body[:_TOLD_CHARACTERS].decode("utf-8", "replace").split()) or "without a word"
