"""One request's companion from classification to record: it knows everything about the request and touches none of its bytes.

The relay calls it with instants (`proxy/watching.py`); it asks the pure rooms in the order of the walk: classify, timeline,
ledger; then it hands one account to what all watches share (`watchers.py`). Anything here may throw: the relay's guard
counts it and the bytes go on.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sidecar.classify.body import BLIND, Look, look
from sidecar.classify.lane import hash_api_key
from sidecar.classify.trace import TRACEPARENT, Minted, trace_context, traceparent
from sidecar.engines.engine import OTHER
from sidecar.engines.kind import Wire
from sidecar.ledger.account import Account
from sidecar.ledger.report import RequestKey, response_key, span_key, traced_key
from sidecar.ledger.request_labels import UNLABELLED, RequestLabels
from sidecar.logs.sanitise import clean_path
from sidecar.metrics.vocabulary import NotAsked
from sidecar.observe.record import Recorder
from sidecar.observe.usage_chunk import UsageCut, ask_for_usage
from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import Fields, RequestHead, ResponseHead, values_of
from sidecar.proxy.observer import Unwatched
from sidecar.proxy.tcp import SendTimes
from sidecar.slo.prefill_cost import length_of
from sidecar.timeline.events import Dialect, Reading, UnreadableEvent
from sidecar.timeline.ndjson import MEDIA_TYPES
from sidecar.timeline.outcome import Outcome
from sidecar.timeline.reader import EventReader
from sidecar.timeline.response_id import response_id_of
from sidecar.timeline.timeline import Timeline


if TYPE_CHECKING:
    from sidecar.observe.settlement import Watchers

MAX_BODY_BYTES = 1 << 20
"""A non-streamed answer is read for its usage up to this size; a larger one still passes, unread."""


class Passage(Unwatched):
    """A request that is no inference: it passes, has no lane, and is one counter."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def close(self, at: float, outcome: Outcome, failure: Failure | None, status: int | None) -> None:  # noqa: ARG002  the hook's shape
        if failure is not None:
            self._recorder.failed(failure.reason)
        self._recorder.passthrough(outcome)


class RequestWatch:
    """One inference request."""

    wants_body = True

    def __init__(self, shared: "Watchers", head: RequestHead, dialect: Dialect) -> None:
        self.cuts = False
        self.done = False
        self._shared = shared
        self._head = head
        self._dialect = dialect
        self._timeline = Timeline(head.accepted_at)
        self._look: Look = BLIND
        self._labels = UNLABELLED
        self._asked_for_usage = False
        self._reader: EventReader | None = None
        self._cutter: UsageCut | None = None
        self._unseen: list[Reading] = []
        self._body: bytearray | None = None
        self._streaming: bool | None = None
        self._on_read: Callable[[float], None] | None = None
        self._delivery: dict[str, str] = {}
        self._response_id: str | None = None
        self._response_fields: Fields = ()
        self._refused = False
        self._trace = trace_context(head.fields)
        self._minted: Minted | None = None
        self._key = object()
        """What the promises know this request by."""
        self._promised = False
        if self._trace is not None:
            shared.joins.claim(self._trace.trace_id, head.accepted_at)

    # --- the request -------------------------------------------------------------------------------------------------

    def classify(self, body: bytes, *, whole: bool) -> bytes | None:
        """Name lane, model and length, and ask for the usage chunk where that is proven to be safe."""
        encoded = any(
            value.strip().lower() != b"identity" for value in values_of(self._head.fields, b"content-encoding")
        )
        self._look = BLIND if encoded else look(body, whole=whole)
        if self._look.whole and self._look.stream is None and self._dialect.streams_unsaid:
            self._look = replace(self._look, stream=True)
        self._name()
        self._shared.in_flight.enter(self, self._labels, self._head.accepted_at)
        self._promise()
        asked = self._ask(body, encoded=encoded)
        if isinstance(asked, bytes):
            self._shared.recorder.injection("asked")
            self._asked_for_usage = True
            return asked
        self._shared.recorder.injection(asked)
        return None

    def _ask(self, body: bytes, *, encoded: bool) -> bytes | str:
        """The body with usage asked for, or why it is not asked for."""
        shared = self._shared
        if not shared.include_usage:
            return "off"
        if not self._dialect.has_usage_option:
            return "api_has_none"
        if encoded:
            return "encoded_request"
        if not shared.engine.takes_include_usage(self._dialect.name):
            return "engine_not_proven"
        asked = ask_for_usage(body, self._look)
        return asked.value if isinstance(asked, NotAsked) else asked

    def _name(self) -> None:
        """Put the request into its lane, once."""
        if self._labels.lane:
            return
        shared, rules = self._shared, self._shared.rules
        api_key = hash_api_key(self._head.fields) if rules.needs_api_key else None
        lane = rules.lane_of(self._head.path, self._head.fields, self._look, api_key)
        model = shared.engine.model_of(self._look.model)
        if model == OTHER and self._look.model is not None:
            shared.recorder.outside("model")
        if lane == OTHER:
            shared.recorder.outside("lane")
        labels = self._labels = RequestLabels(model, lane, self._estimated_bucket(model))
        self._timeline.on_gap = shared.recorder.gap_observer(labels)
        self._on_read = shared.recorder.read_observer(labels)

    def _estimated_bucket(self, model: str) -> str:
        if self._look.prompt_tokens is not None:
            return self._shared.buckets.bucket_of(self._look.prompt_tokens)
        return self._shared.lengths.bucket_of(model, self._look.text_bytes)

    def request_fields(self) -> Fields:
        """The trace context that the engine gets: the client's trace, with our span in between."""
        self._minted = self._shared.mint(self._trace)
        return (
            () if self._minted is None else ((TRACEPARENT, traceparent(self._minted.trace_id, self._minted.span_id)),)
        )

    def received(self, at: float) -> None:
        self._timeline.received(at)
        self._promise()
        if self._shared.estimates is not None:
            self._shared.estimates.arrived(self, at)

    def _promise(self) -> None:
        """Once it is whole and has its lane, its deadlines run."""
        received_at = self._timeline.received_at
        if self._promised or received_at is None or not self._labels.lane:
            return
        self._promised = True
        shared, seen = self._shared, self._look
        tokens: float | None = seen.prompt_tokens
        if tokens is None:
            tokens = shared.lengths.tokens(self._labels.model, seen.text_bytes)
        shared.slo.received(
            self._key,
            received_at,
            self._labels,
            # Whoever says nothing gets no stream; who could not be read may have said anything.
            streaming=False if seen.stream is None and seen.whole else seen.stream,
            prompt_tokens=tokens,
        )

    def sent(self, at: float) -> None:
        self._timeline.sent(at)

    def connected(self, seconds: float) -> None:
        self._shared.recorder.connected(self._labels, seconds)

    # --- the response ------------------------------------------------------------------------------------------------

    def head(self, at: float, head: ResponseHead) -> None:
        """Decide from the head how the body will be read."""
        self._timeline.headers(at)
        self._response_fields = head.fields
        content_type = b"".join(values_of(head.fields, b"content-type")[:1]).partition(b";")[0].strip().lower()
        encoded = any(value.strip().lower() != b"identity" for value in values_of(head.fields, b"content-encoding"))
        lines = content_type in MEDIA_TYPES
        self._streaming = lines or content_type == b"text/event-stream"
        self._refused = head.status >= 400
        if self._refused:
            return
        if encoded:
            self._shared.recorder.dropped("encoded_response")
        elif self._streaming:
            self._reader = EventReader(self._dialect, self._shared.max_event_bytes, lines=lines)
            # With a stated length the chunk could not go without the client missing it.
            if self._asked_for_usage and not values_of(head.fields, b"content-length"):
                self._cutter = UsageCut(self._reader)
                self.cuts = True
        elif content_type == b"application/json":
            self._body = bytearray()
        else:
            self._shared.recorder.dropped("unknown_stream")
        unread = self._streaming and self._reader is None
        self._shared.slo.answering(self._key, at, streaming=None if unread else self._streaming)

    def feed(self, at: float, data: bytes) -> None:
        """Body bytes that have been written."""
        if self._reader is not None:
            self._read(at, self._reader.feed(data))
        elif self._body is not None:
            self._body += data
            if len(self._body) > MAX_BODY_BYTES:
                self._body = None
                self._shared.recorder.dropped("event_too_long")

    def cut(self, data: bytes) -> bytes:
        """Body bytes on their way; what they said is taken in by `seen`."""
        if self._cutter is None:
            return data
        kept, readings = self._cutter.feed(data)
        self._unseen += readings
        return kept

    def cut_rest(self) -> bytes:
        return b"" if self._cutter is None else self._cutter.finish()

    def seen(self, at: float) -> None:
        readings, self._unseen = self._unseen, []
        self._read(at, readings)

    def _read(self, at: float, readings: list[Reading]) -> None:
        timeline = self._timeline
        before, began = timeline.output_events, timeline.first_token_at is not None
        timeline.read(at, readings)
        outputs = timeline.output_events - before
        if outputs and self._on_read is not None:
            self._on_read(outputs)
            self._shared.slo.output(self._key, outputs, at)
            if self._shared.estimates is not None:
                self._shared.estimates.spoke(self, at)
            if not began:
                self._shared.in_flight.streaming(self)
                self._expect_word()
        self.done = self.done or any(reading.done for reading in readings)

    def _expect_word(self) -> None:
        """A client that reads slowly may end long after the engine has written its word: until then it is kept."""
        reader = self._reader
        if self._shared.listens and reader is not None and reader.response_id is not None:
            self._shared.joins.expect(response_key(reader.response_id))

    def paused(self, at: float) -> None:
        self._timeline.paused(at)
        self._shared.in_flight.held(self)
        self._shared.slo.paused(self._key, at)

    def resumed(self, at: float) -> None:
        self._timeline.resumed(at)
        self._shared.in_flight.flows(self)
        self._shared.slo.resumed(self._key, at)

    # --- the end -----------------------------------------------------------------------------------------------------

    def ended(self, at: float) -> None:
        if self._reader is not None:
            self._read(at, self._reader.finish())
        self._timeline.ended(at)
        if not self._refused:  # a server may refuse at its door while its engine hangs: that is no sign of life
            self._shared.slo.finished(self._key, at)

    def flushed(self, at: float) -> None:
        self._timeline.flushed(at)

    def delivered(self, times: SendTimes) -> None:
        """Who held the answer back on its last hop, as the kernel saw it: for the log line, since it overlaps with decode."""
        if times.receive_window_limited_seconds > 0:
            self._delivery["client_window_limited_seconds"] = f"{times.receive_window_limited_seconds:.6f}"
        if times.send_buffer_limited_seconds > 0:
            self._delivery["send_buffer_limited_seconds"] = f"{times.send_buffer_limited_seconds:.6f}"

    def blinded(self) -> None:
        """Its tokens may come, but nobody sees them: no deadline passes, and no silence is the engine's, because of that."""
        self._promised = True  # not from now on, if it has not been
        self._shared.slo.answering(self._key, self._shared.clock(), streaming=None)

    def close(self, at: float, outcome: Outcome, failure: Failure | None, status: int | None) -> None:
        """The request is over: one outcome, one account."""
        shared, timeline = self._shared, self._timeline
        shared.in_flight.leave(self)
        self._name()
        self._read_body()
        if outcome is Outcome.OK and timeline.error_seen:
            outcome = Outcome.ENGINE_ERROR
        if failure is not None:
            shared.recorder.failed(failure.reason)
        self._count_unread()
        account = Account(
            labels=self._labels._replace(prompt_bucket=self._bucket()),
            streaming=self._look.stream is True if self._streaming is None else self._streaming,
            outcome=outcome,
            marks=timeline.marks(),
            ledger=None,
            cancelled_in=timeline.stage() if outcome is Outcome.CLIENT_CANCELLED else None,
            trace_id=self._trace.trace_id if self._trace is not None and self._trace.sampled else None,
            estimated_prefill_seconds=self._estimated_prefill_seconds(outcome, failure),
            key=self._key,
            notes=self._notes(failure, status),
        )
        # A choice may finish without a token, and a whole answer has only finishes.
        choices = max(account.marks.choices, len(timeline.finished))
        wire = Wire(account.marks, account.streaming, self._response_fields, choices)
        report = shared.engine.speaks.in_band(timeline.extras, wire)
        shared.ended(account, report, self._keys(), self._trace_id(), at=at, choices=choices)

    def _keys(self) -> tuple[RequestKey, ...]:
        """By which the engine's word finds this request: the id of its answer, and the span that was minted for it."""
        response_id = self._response_id if self._reader is None else self._reader.response_id
        keys: list[RequestKey] = [] if response_id is None else [response_key(response_id)]
        if self._minted is None:
            return tuple(keys)
        traced = [traced_key(key, self._minted.trace_id) for key in keys]
        return (*keys, span_key(self._minted.span_id), *traced)

    def _trace_id(self) -> str | None:
        if self._minted is not None:
            return self._minted.trace_id
        return None if self._trace is None else self._trace.trace_id

    def _read_body(self) -> None:
        """A non-streamed answer states its usage in its body."""
        if not self._body:
            return
        body, self._body = bytes(self._body), None
        self._response_id = response_id_of(body)
        try:
            self._timeline.read_body(self._dialect.read_body(body))
        except UnreadableEvent:
            self._shared.recorder.dropped("unreadable_event")

    def _count_unread(self) -> None:
        reader, cutter, shared = self._reader, self._cutter, self._shared
        if reader is not None and reader.oversized:
            shared.recorder.dropped("event_too_long", reader.oversized)
        if reader is not None and reader.unreadable:
            shared.recorder.dropped("unreadable_event", reader.unreadable)
        if cutter is not None and cutter.engine_adds_null_usage:
            shared.engine.adds_null_usage()

    def _estimated_prefill_seconds(self, outcome: Outcome, failure: Failure | None) -> float | None:
        """What the estimator says of this request's prefill. It is told in any case that the request has left."""
        estimates, usage, look = self._shared.estimates, self._timeline.usage, self._look
        if estimates is None:
            return None
        if failure is Failure.ENGINE_REFUSED:
            estimates.forget()  # nobody listens there any more: what comes back is another process
        tokens = look.prompt_tokens if usage is None or usage.prompt_tokens is None else usage.prompt_tokens
        length = length_of(tokens, None if usage is None else usage.cached_tokens, look.text_bytes)
        return estimates.ended(self, self._labels.model, length, ok=outcome is Outcome.OK and self._streaming is True)

    def _bucket(self) -> str:
        """By what the engine counted; else by an estimate, once enough prompts of this model were counted."""
        shared, usage = self._shared, self._timeline.usage
        if usage is None or usage.prompt_tokens is None:
            return self._estimated_bucket(self._labels.model)
        shared.lengths.learn(self._labels.model, self._look.text_bytes, usage.prompt_tokens)
        return shared.buckets.bucket_of(usage.prompt_tokens)

    def _notes(self, failure: Failure | None, status: int | None) -> dict[str, str]:
        notes = {"path": clean_path(self._head.target), **self._shared.headers_for_log(self._head.fields)}
        if status is not None:
            notes["status"] = str(status)
        if failure is not None:
            notes["error"] = failure.reason
        return notes | self._delivery
