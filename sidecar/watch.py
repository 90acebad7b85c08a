"""One request's companion from classification to record: it knows everything about the request and touches none of its bytes.

The relay calls it with instants (`proxy/watching.py`); it asks the pure rooms in the order of the walk: classify, timeline,
ledger; then it hands one closed account to the recorder and the log. `Watchers` makes one for each request and holds what
they share. Anything here may throw: the relay's guard counts it and the bytes go on.
"""

from collections.abc import Callable
from dataclasses import replace

from sidecar.classify.body import BLIND, Look, look
from sidecar.classify.lane import LaneRules, hash_api_key
from sidecar.classify.length import PromptBuckets, PromptLengthEstimator
from sidecar.classify.trace import sampled_trace_id
from sidecar.engines import vllm
from sidecar.engines.engine import OTHER, Engine
from sidecar.engines.usage_chunk import NotAsked, UsageCut, ask_for_usage
from sidecar.ledger.account import Account, Reason
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.pending import PendingLedgers
from sidecar.ledger.report import EngineReport
from sidecar.log_text import clean_path
from sidecar.metrics.in_flight import InFlight
from sidecar.metrics.record import Recorder
from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import Fields, RequestHead, ResponseHead, values_of
from sidecar.proxy.tcp import SendTimes
from sidecar.proxy.watching import Unwatched, Watch
from sidecar.timeline.dialects import dialect_for
from sidecar.timeline.events import EventReader
from sidecar.timeline.outcome import Outcome
from sidecar.timeline.reading import Dialect, Reading, UnreadableEvent
from sidecar.timeline.timeline import Timeline


MAX_BODY_BYTES = 1 << 20
"""A non-streamed answer is read for its usage up to this size; a larger one still passes, unread."""


class Watchers:
    """What all watches share. `rules` is replaced as a whole on reload; requests in flight keep their lane."""

    def __init__(
        self,
        *,
        rules: LaneRules,
        buckets: PromptBuckets,
        recorder: Recorder,
        in_flight: InFlight,
        engine: Engine,
        log: Callable[[Account], None],
        headers_for_log: Callable[[Fields], dict[str, str]],
        unix: Callable[[], float],
        max_event_bytes: int,
        include_usage: bool,
        late_report_seconds: float = 0.0,
    ) -> None:
        """`unix`: wall-clock seconds, for exemplars only. `late_report_seconds`: 0 where the engine reports in-band or not at all."""
        self.rules = rules
        self.buckets = buckets
        self.lengths = PromptLengthEstimator(buckets)
        self.recorder = recorder
        self.in_flight = in_flight
        self.engine = engine
        self.log = log
        self.headers_for_log = headers_for_log
        self.unix = unix
        self.max_event_bytes = max_event_bytes
        self.include_usage = include_usage
        self.late_report_seconds = late_report_seconds
        self.pending: PendingLedgers[Account] = PendingLedgers(self._settle, wait_seconds=late_report_seconds)

    def watch(self, head: RequestHead) -> Watch:
        """A watch for one request: an inference request's companion, or one counter for everything else."""
        dialect = dialect_for(head.path) if head.method == b"POST" else None
        return Passage(self.recorder) if dialect is None else RequestWatch(self, head, dialect)

    def ended(self, account: Account, report: EngineReport | None, at: float) -> None:
        """One request has ended; its phases are settled now, or when the engine's word has come."""
        self.recorder.ended(account, self.unix())
        if account.outcome is not Outcome.OK:
            self.log(account)
        elif report is None and self.late_report_seconds > 0:
            self.pending.open(id(account), account, at)
        else:
            self._settle(account, report, Reason.IN_BAND)

    def _settle(self, account: Account, report: EngineReport | None, reason: Reason) -> None:
        ledger = close_ledger(account.marks, streaming=account.streaming, report=report, reason=reason)
        settled = replace(account, ledger=ledger)
        self.recorder.settled(settled, self.unix())
        self.log(settled)


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

    def __init__(self, shared: Watchers, head: RequestHead, dialect: Dialect) -> None:
        self.cuts = False
        self.done = False
        self._shared = shared
        self._head = head
        self._dialect = dialect
        self._timeline = Timeline(head.accepted_at)
        self._look: Look = BLIND
        self._lane = ""
        self._model = ""
        self._asked_for_usage = False
        self._reader: EventReader | None = None
        self._cutter: UsageCut | None = None
        self._unseen: list[Reading] = []
        self._body: bytearray | None = None
        self._streaming: bool | None = None
        self._on_read: Callable[[float], None] | None = None
        self._delivery: dict[str, str] = {}

    # --- the request -------------------------------------------------------------------------------------------------

    def classify(self, body: bytes, *, whole: bool) -> bytes | None:
        """Name lane, model and length, and ask for the usage chunk where that is proven to be safe."""
        encoded = any(
            value.strip().lower() != b"identity" for value in values_of(self._head.fields, b"content-encoding")
        )
        self._look = BLIND if encoded else look(body, whole=whole)
        self._name()
        self._shared.in_flight.enter(self, self._model, self._lane, self._head.accepted_at)
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
        if not shared.engine.accepts_include_usage:
            return "engine_not_proven"
        asked = ask_for_usage(body, self._look)
        return asked.value if isinstance(asked, NotAsked) else asked

    def _name(self) -> None:
        """Put the request into its lane, once."""
        if self._lane:
            return
        shared, rules = self._shared, self._shared.rules
        api_key = hash_api_key(self._head.fields) if rules.needs_api_key else None
        self._lane = rules.lane_of(self._head.path, self._head.fields, self._look, api_key)
        self._model = shared.engine.model_of(self._look.model)
        if self._model == OTHER and self._look.model is not None:
            shared.recorder.outside("model")
        if self._lane == OTHER:
            shared.recorder.outside("lane")
        self._timeline.on_gap = shared.recorder.gap_observer(self._model, self._lane, self._estimated_bucket())
        self._on_read = shared.recorder.read_observer(self._lane)

    def _estimated_bucket(self) -> str:
        if self._look.prompt_tokens is not None:
            return self._shared.buckets.bucket_of(self._look.prompt_tokens)
        return self._shared.lengths.bucket_of(self._model, self._look.text_bytes)

    def received(self, at: float) -> None:
        self._timeline.received(at)

    def sent(self, at: float) -> None:
        self._timeline.sent(at)

    def connected(self, seconds: float) -> None:
        self._shared.recorder.connected(self._lane, seconds)

    # --- the response ------------------------------------------------------------------------------------------------

    def head(self, at: float, head: ResponseHead) -> None:
        """Decide from the head how the body will be read."""
        self._timeline.headers(at)
        content_type = b"".join(values_of(head.fields, b"content-type")[:1]).partition(b";")[0].strip().lower()
        encoded = any(value.strip().lower() != b"identity" for value in values_of(head.fields, b"content-encoding"))
        self._streaming = content_type == b"text/event-stream"
        if head.status >= 400:
            return
        if encoded:
            self._shared.recorder.dropped("encoded_response")
        elif self._streaming:
            self._reader = EventReader(self._dialect, self._shared.max_event_bytes)
            # With a stated length the chunk could not go without the client missing it.
            if self._asked_for_usage and not values_of(head.fields, b"content-length"):
                self._cutter = UsageCut(self._reader)
                self.cuts = True
        elif content_type == b"application/json":
            self._body = bytearray()
        else:
            self._shared.recorder.dropped("unknown_stream")

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
            if not began:
                self._shared.in_flight.streaming(self)
        self.done = self.done or any(reading.done for reading in readings)

    def paused(self, at: float) -> None:
        self._timeline.paused(at)

    def resumed(self, at: float) -> None:
        self._timeline.resumed(at)

    # --- the end -----------------------------------------------------------------------------------------------------

    def ended(self, at: float) -> None:
        self._timeline.ended(at)

    def flushed(self, at: float) -> None:
        self._timeline.flushed(at)

    def delivered(self, times: SendTimes) -> None:
        """Who held the answer back on its last hop, as the kernel saw it: for the log line, since it overlaps with decode."""
        if times.receive_window_limited_seconds > 0:
            self._delivery["client_window_limited_seconds"] = f"{times.receive_window_limited_seconds:.6f}"
        if times.send_buffer_limited_seconds > 0:
            self._delivery["send_buffer_limited_seconds"] = f"{times.send_buffer_limited_seconds:.6f}"

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
            lane=self._lane,
            model=self._model,
            prompt_bucket=self._bucket(),
            streaming=self._look.stream is True if self._streaming is None else self._streaming,
            outcome=outcome,
            marks=timeline.marks(),
            ledger=None,
            cancelled_in=timeline.stage() if outcome is Outcome.CLIENT_CANCELLED else None,
            trace_id=sampled_trace_id(self._head.fields),
            notes=self._notes(failure, status),
        )
        shared.ended(account, vllm.report_of(timeline.extras) if shared.engine.reports else None, at)

    def _read_body(self) -> None:
        """A non-streamed answer states its usage in its body."""
        if not self._body:
            return
        body, self._body = bytes(self._body), None
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

    def _bucket(self) -> str:
        """By what the engine counted; else by an estimate, once enough prompts of this model were counted."""
        shared, usage = self._shared, self._timeline.usage
        if usage is None or usage.prompt_tokens is None:
            return self._estimated_bucket()
        shared.lengths.learn(self._model, self._look.text_bytes, usage.prompt_tokens)
        return shared.buckets.bucket_of(usage.prompt_tokens)

    def _notes(self, failure: Failure | None, status: int | None) -> dict[str, str]:
        notes = {"path": clean_path(self._head.target), **self._shared.headers_for_log(self._head.fields)}
        if status is not None:
            notes["status"] = str(status)
        if failure is not None:
            notes["error"] = failure.reason
        return notes | self._delivery
