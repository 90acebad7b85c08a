"""The observer of one inference request, from classification to account: it sees the whole request and moves no byte.

The relay calls it with instants (`proxy/observer.py`). It calls the pure modules in the order of a request's way
(classify, timeline, ledger), and then hands one account to the settlement (`settlement.py`). Any method here may raise:
the relay's guard counts it and the bytes go on.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import inf

from msgspec.structs import replace

from sidecar.budgets.budgets import UNLIMITED, Budget, Kind
from sidecar.classify.body import peek, peek_in_steps
from sidecar.classify.form import peek_form
from sidecar.classify.found import UNREAD_BODY, Asked, Peek
from sidecar.classify.inflate import coding_of
from sidecar.classify.lane import LaneRules, hash_api_key
from sidecar.classify.length import PromptLengthEstimator
from sidecar.classify.long_body import LongBody
from sidecar.classify.trace import TRACEPARENT, Minted, TraceContext, trace_context, traceparent
from sidecar.config.buckets import PromptBuckets
from sidecar.config.schema import Config
from sidecar.engines.engine import AUTO
from sidecar.engines.kind import AskedReport, Wire
from sidecar.engines.server_timing import report_in_timing
from sidecar.engines.usage_asking import COMPRESSED, NOT_PROVEN
from sidecar.ledger.account import Account, Estimate, OwnSpan
from sidecar.ledger.report import RequestKey, response_key, span_key, traced_key
from sidecar.ledger.request_labels import OTHER, UNLABELLED, RequestLabels
from sidecar.logs.sanitise import SHORT_PATH_BYTES, clean_path, clean_short_path
from sidecar.metrics.vocabulary import NotAsked
from sidecar.objectives.judge import UnknownLength
from sidecar.observe.beside import Beside, Decoding
from sidecar.observe.record import Recorder
from sidecar.observe.request_record import RequestRecord
from sidecar.observe.response import JSON_BEGINS, StreamedResponse, UndecidedResponse, WholeResponse
from sidecar.observe.settlement import Settlement
from sidecar.observe.span_sampling import SpanSampling
from sidecar.observe.unknown_model import REFUSES_MODEL, UnknownModel
from sidecar.observe.usage_chunk import UsageCut, ask_for_usage
from sidecar.observe.verify_probes import VERIFY_HEADER, ProbeBucket, ProbeObserver
from sidecar.pod.costs.prefill_cost import Lengths, lengths_of
from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import CONTENT_CODING, Fields, RequestHead, ResponseHead, is_encoded
from sidecar.proxy.observer import Cutter, End, Instead, Mark, Observer, Splice, Wakes
from sidecar.proxy.unobserved import Unobserved
from sidecar.timeline.apis import TEACHES, Api, Apis, Purpose, cancelled_by, is_unsplit, model_in_path, told_by_body
from sidecar.timeline.dialects.json_fields import fails
from sidecar.timeline.events import Dialect, UnreadableEvent, is_json
from sidecar.timeline.marks import Marks
from sidecar.timeline.ndjson import MEDIA_TYPES
from sidecar.timeline.operations import operation_of
from sidecar.timeline.outcome import ENDED_WELL, Outcome
from sidecar.timeline.outline import OUTLINED_AT_ONCE_BYTES
from sidecar.timeline.proof import AnswerKind, EndMark, Proof, Proofs
from sidecar.timeline.reader import EventReader
from sidecar.timeline.response_id import MAX_ID_CHARACTERS, NOTHING_STATED, Stated, stated_in
from sidecar.timeline.sse import BEGINNINGS
from sidecar.timeline.timeline import Timeline


CUT_SHORT = (Failure.ENGINE_TRUNCATED, Failure.ENGINE_GAP_TIMEOUT)
"""Failures of an answer that had begun. If its end mark came before, only the last bytes of the framing are missing."""

NOT_WANTED = (Asked.ABSENT, Asked.NULL, Asked.LEFT_OUT, Asked.DECLINED)
"""The ways in which a client does not ask for usage."""
EVENT_STREAM = b"text/event-stream"
ASKS_PLAIN = (b"Accept-Encoding", b"identity")
MOST_CANCELLED = 1024
"""Cancelled responses that are remembered until their streams end."""
MOST_BYTES_A_TOKEN = 16
"""Bytes of text in one token, at most on average: prose has 4 to 5, code 3, runs of blanks up to 16."""
MOST_ADDED_TOKENS = 1024
"""Tokens that an engine adds to a text: its chat template, and the system prompt of the model. No text has more tokens than bytes."""
MOST_READ_AT_ONCE_BYTES = 2 * OUTLINED_AT_ONCE_BYTES
"""Bytes of the beginning of a body that are read in one turn of the loop. Where more of it was collected before memory grew short, it
passes unread."""
TELLING_BYTES = 4096
"""Bytes of a body in which the keys are looked for that tell its API."""
HELD_OPEN_SECONDS = 0.1
"""Engines end the framing in the step after the end mark. What takes longer is worth a word in the log."""


class PassingObserver(Unobserved):
    """Observer of a request that is no inference request: it has no lane, and is only counted. What looks like inference is told."""

    def __init__(self, recorder: Recorder, head: RequestHead, apis: Apis, own: Mapping[bytes, Dialect]) -> None:
        """`own`: whole paths on which the known engine alone generates."""
        self._recorder = recorder
        self._request = head
        self._apis = apis
        self._own = own

    def head(self, at: float, head: ResponseHead) -> Cutter | None:  # noqa: ARG002  the hook's shape
        kind, target = self._looks_like(head), self._request.target
        if kind is not None and not self._apis.excludes(target):
            self._recorder.uncounted(kind, target)
        return None

    def _looks_like(self, head: ResponseHead) -> str | None:
        """The kind of inference, one of UNCOUNTED_KINDS, that passes unread by the looks of it; None: it looks like none."""
        target = self._request.target
        if head.status == 101:
            return "websocket" if is_unsplit(target) or self._apis.at(target, self._own) is not None else None
        if self._request.method != b"POST" or head.status >= 300:
            return None
        if is_unsplit(target):
            return "media"
        return "event_stream" if media_type_of(head) == EVENT_STREAM else None

    def close(self, at: float, end: End) -> None:  # noqa: ARG002  the hook's shape
        if end.failure is not None:
            self._recorder.failed(end.failure.reason)
        self._recorder.passthrough(end.outcome)


class Observers:
    """Makes the observer of each request, and holds the settlement and the rules that all observers share."""

    def __init__(
        self, settlement: Settlement, config: Config, headers_for_log: Callable[[Fields], dict[str, str]]
    ) -> None:
        self.settlement = settlement
        self.headers_for_log = headers_for_log
        self.buckets = PromptBuckets(config.prompt_buckets.edges)
        self.lengths = PromptLengthEstimator(self.buckets, settlement.instruments.slo.tokens_per_byte)
        self.proofs = Proofs()
        self.cancelled: OrderedDict[str, None] = OrderedDict()
        """Ids of the responses that clients have cancelled lately."""
        self.held = Budget(Kind.HELD_BYTES, UNLIMITED)
        """The budget of bytes that the process holds; the road gives its own (`wiring.py`)."""
        self.beside = Beside(self.held, settlement.instruments.recorder.dropped)
        self.probes = ProbeBucket()
        settlement.on_counted = self.counted
        self.apply(config)

    def apply(self, config: Config) -> None:
        """Put a config into force. Requests in flight keep their lane."""
        self.rules = LaneRules(config.lanes)
        self.apis = Apis(config.engine.paths.add, config.engine.paths.exclude)
        self.max_event_bytes = config.proxy.max_event_bytes
        self.include_usage = config.proxy.include_usage
        self.asks_timing = config.proxy.ask_timing == "auto"
        self.timing_header = (
            None if config.engine.timing_header is None else config.engine.timing_header.lower().encode()
        )

    def counted(self, account: Account, prompt_tokens: int) -> RequestLabels:
        """The engine's late report counted a prompt whose answer stated no usage. Learns from it; the labels get its bucket."""
        if account.teaches:
            self.lengths.learn(account.labels.model, account.text_bytes, prompt_tokens)
        return account.labels._replace(prompt_bucket=self.buckets.bucket_of(prompt_tokens))

    def __call__(self, head: RequestHead) -> Observer:
        """A `RequestObserver` for an inference request, a `ProbeObserver` for one of `sidecar verify`, a `PassingObserver` for all others."""
        settlement = self.settlement
        own = settlement.engine.speaks.paths
        api = self.apis.of(head.method, head.target, own)
        if api is not None:
            if VERIFY_HEADER in head.found and self._is_apart(head.accepted_at):
                return ProbeObserver(settlement, head)
            return RequestObserver(self, head, api)
        if (cancelled := cancelled_by(head.method, head.target)) is not None and len(cancelled) <= MAX_ID_CHARACTERS:
            self.cancelled[cancelled.decode("utf-8", "replace")] = None
            if len(self.cancelled) > MOST_CANCELLED:
                self.cancelled.popitem(last=False)
        return PassingObserver(settlement.instruments.recorder, head, self.apis, own)

    def _is_apart(self, at: float) -> bool:
        """Whether this probe of `sidecar verify` stays outside the lanes: there are not too many of them."""
        apart = self.probes.take(at)
        self.settlement.instruments.recorder.probed(apart=apart)
        return apart


class RequestObserver:
    """The observer of one inference request."""

    wants_body = True
    _unknown_model: UnknownModel | None = None  # of few requests: the name is no label value
    _asked_report: AskedReport | None = None  # of few engines
    _asks_plain = False  # it finds out whether answers come uncompressed again
    _undecided: UndecidedResponse | None = None

    def __init__(self, shared: Observers, head: RequestHead, api: Api) -> None:
        self._shared = shared
        self._settlement = settlement = shared.settlement
        self._instruments = settlement.instruments
        self._engine = settlement.engine
        self._head = head
        self._dialect, self._purpose = api.dialect, api.purpose
        self._teaches = api.purpose in TEACHES
        self._timeline = Timeline(head.accepted_at)
        self._peek: Peek = UNREAD_BODY
        self._beginning = b""  # of a compressed body, as it is inside
        self._decoding: Decoding | None = None  # of such a body, while it is read
        self._long: LongBody | None = None  # a body that is read while it passes, until all is known that will be
        self._labels = UNLABELLED
        self._tokens: float | None = None  # of the prompt, counted by the client or estimated
        self._stream: StreamedResponse | None = None
        self._whole: WholeResponse | None = None
        self.data: Callable[[float, bytes], None] = _unread
        """Hook for response bytes; chosen when the response head is read."""
        self._streaming: bool | None = None
        self._response_fields: Fields = ()
        self._connecting_at = head.accepted_at
        self._connect_seconds: float | None = None
        self._trace: TraceContext | None = None
        self._minted: Minted | None = None
        self._record = RequestRecord()
        self._lane_at_length: Callable[[float], str] | None = None
        """The lane that a prompt of so many tokens would have; only where rules ask for its length."""
        self._asked_for_usage = self._refused = self._passes = self._arrived = self._blinded = False

    @property
    def done(self) -> bool:
        timeline = self._timeline
        # llama.cpp states the end of each choice: that of the first is not the end of all.
        return self._stream is not None and self._stream.done and (not timeline.finished or timeline.finished_all())

    @property
    def awaits_output(self) -> bool:
        answer = self._stream or self._whole
        return answer is not None and answer.awaits_output

    # --- the request -------------------------------------------------------------------------------------------------

    def look(self, body: bytes | bytearray) -> Iterator[Wakes | None]:
        """Read a long or a compressed body in steps, before `request_body`."""
        found = self._head.found
        if CONTENT_CODING not in found or not is_encoded(found):
            self._peek = yield from peek_in_steps(body)
            return
        decoding = self._decoding = self._shared.beside.decode(body, coding_of(found[CONTENT_CODING]))
        while decoding.waits:
            yield decoding.on_end
        if (plain := decoding.plain) is not None:
            self._beginning = plain[:TELLING_BYTES]
            self._peek = yield from peek_in_steps(plain)
        self._let_go()

    def _let_go(self) -> None:
        """The decoded body is read, or will not be: its bytes are held no longer, and another one has its place."""
        decoding, self._decoding = self._decoding, None
        if decoding is not None:
            self._shared.beside.over(decoding)

    def request_body(self, body: bytes | bytearray, *, whole: bool) -> Instead:
        """Determine lane, model and length, ask for the usage chunk where that is proven safe, and mint a span."""
        encoded = CONTENT_CODING in self._head.found and is_encoded(self._head.found)
        if self._purpose is Purpose.TOLD_BY_BODY or self._purpose is Purpose.TRANSCRIBES:
            self._look_for_kind(body, encoded=encoded)
        self._peek = self._peek if encoded or self._peek is not UNREAD_BODY else peek(body, whole=whole)
        if self._peek.whole and self._peek.stream is None and self._dialect.streams_unsaid:
            self._peek = replace(self._peek, stream=True)
        if whole:
            self._long = None
        else:
            self._not_held(body, encoded=encoded)
        if TRACEPARENT in self._head.found:
            self._find_trace()
        self._passes = self._long is not None
        if not self._passes:
            if not self._labels.lane:
                self._name()
            self._instruments.in_flight.enter(self._record, self._labels, self._head.accepted_at)
            self._arrive()
        asked = self._ask(body, encoded=encoded)
        splice = asked if isinstance(asked, Splice) else None
        self._asked_for_usage = splice is not None
        self._instruments.recorder.injection("asked" if isinstance(asked, Splice) else asked)
        asks = self._engine.speaks.asked_report
        self._minted = minted = self._settlement.mint(self._trace) if self._settlement.mints and self._teaches else None
        fields = () if minted is None else ((TRACEPARENT, traceparent(minted.trace_id, minted.span_id)),)
        if self._engine.asking.comes_compressed and (asked == COMPRESSED or asks is not None):
            return Instead(splice, self._asking_plain(fields))
        return Instead(splice, fields) if asks is None or splice is not None else self._asking(asks, fields)

    def _asking_plain(self, fields: Fields) -> Fields:
        """These fields, where answers come compressed although `identity` was asked for: one request a minute asks for it once more."""
        self._asks_plain = self._peek.stream is True and self._engine.asking.probes(self._settlement.clock())
        return (*fields, ASKS_PLAIN) if self._asks_plain else fields

    def _asking(self, asks: AskedReport, fields: Fields) -> Instead:
        """These fields, and the one by which the engine is asked to report, unless the client has decided on it by a field of its own."""
        if not (self._shared.asks_timing and self._teaches) or asks.field[0].lower() in self._head.found:
            return Instead(None, fields)
        self._asked_report = asks
        return Instead(None, (*fields, asks.field), asks.caused)

    def _look_for_kind(self, body: bytes | bytearray, *, encoded: bool) -> None:
        """Look into a body that is read in another way than those of other paths."""
        if self._purpose is Purpose.TOLD_BY_BODY:
            beginning = self._beginning if encoded else bytes(body[:TELLING_BYTES])
            self._dialect, self._purpose = told_by_body(beginning, Api(self._dialect, self._purpose))
            self._teaches = self._purpose is not Purpose.ENCODES
        elif self._purpose is Purpose.TRANSCRIBES and (form := peek_form(body, self._head.found)) is not UNREAD_BODY:
            self._peek = form

    def _not_held(self, body: bytes | bytearray, *, encoded: bool) -> None:
        if encoded:
            self._shared.beside.not_held()
        elif self._long is None and len(body) <= MOST_READ_AT_ONCE_BYTES:
            self.request_data(body)

    def request_data(self, data: bytes | bytearray) -> None:
        """Read on in a body that is too long to be held. Its lane is known when it has come whole."""
        if self._long is None:
            encoded = CONTENT_CODING in self._head.found and is_encoded(self._head.found)
            if self._labels.lane or not self._may_be_long(encoded=encoded):
                return
            self._long = LongBody()
        self._long.feed(data)

    def _may_be_long(self, *, encoded: bool) -> bool:
        return not encoded and self._purpose is not Purpose.TRANSCRIBES

    def _enter(self, long: LongBody) -> None:
        """All is known of a long body that will be: its request gets its lane, is in flight, and its deadlines start once it has come whole."""
        self._long = None
        self._peek = long.peek() or self._peek
        if not self._labels.lane:
            self._name()
        if self._connect_seconds is not None:
            self._instruments.recorder.connected(self._labels, self._connect_seconds)
        self._instruments.in_flight.enter(self._record, self._labels, self._head.accepted_at)
        self._arrive()

    def _ask(self, body: bytes | bytearray, *, encoded: bool) -> Splice | str:
        """The change that writes the usage option into the body, or the value of USAGE_RESULTS that says why it was not added."""
        shared = self._shared
        if shared.include_usage == "never":
            return "off"
        if not self._dialect.has_usage_option:
            return "api_has_none"
        if encoded:
            return "encoded_request"
        api, asking = self._dialect.name, self._engine.asking
        why_not = asking.why_not.get(api, asking.otherwise)
        if why_not is NOT_PROVEN or not self._engine.accepts_usage(api, unrecognised=shared.include_usage == "always"):
            return NOT_PROVEN
        asked = ask_for_usage(body, self._peek, of_choices=self._engine.speaks.usage_of_choices)
        return asked.value if isinstance(asked, NotAsked) else why_not or asked

    def _name(self) -> None:
        """Determine the request's model, lane and estimated prompt bucket."""
        rules = self._shared.rules
        if self._dialect.model_in_path and (in_path := model_in_path(self._head.target)) is not None:
            self._peek = replace(self._peek, model=in_path)
        asked = self._peek.model
        model = self._engine.names.of(asked)
        self._tokens = self._estimated_tokens(model)
        api_key = hash_api_key(self._head.found) if rules.needs_api_key else None
        lane = rules.lane_of(self._head.target, self._head.found, self._peek, api_key, self._tokens)
        if rules.needs_length:
            self._lane_at_length = partial(rules.lane_of, self._head.target, self._head.found, self._peek, api_key)
        if asked is not None and model != asked:
            if self._peek.whole:  # else the engine may have read another name than this one
                self._unknown_model = UnknownModel(asked)
            if model == OTHER:
                self._instruments.recorder.outside("model")
        if lane == OTHER:
            self._instruments.recorder.outside("lane")
        labels = self._labels = RequestLabels(model, lane, self._shared.buckets.bucket_of(self._tokens))
        self._timeline.on_gap = self._instruments.recorder.gaps[labels].observe

    def _find_trace(self) -> None:
        self._trace = trace_context(self._head.fields)
        if self._trace is not None:
            self._settlement.pending.claim(self._trace.trace_id, self._head.accepted_at)

    def _estimated_tokens(self, model: str) -> float | None:
        """The prompt's tokens, as the client counted them or as its text is long; None if neither can be known."""
        counted = self._peek.prompt_tokens
        return self._shared.lengths.tokens(model, self._peek.text_bytes) if counted is None else counted

    def _arrive(self) -> None:
        """Start the request's deadlines, once its body is complete and its lane is known."""
        received_at = self._timeline.received_at
        if self._arrived or received_at is None:
            return
        self._arrived = True
        if not self._teaches:
            self._instruments.slo.encodes(self._record, received_at, self._labels)
            return
        if self._instruments.estimates is not None:
            self._instruments.estimates.arrived(self._record, received_at, streaming=self._peek.stream is True)
        seen = self._peek
        self._instruments.slo.received(
            self._record,
            received_at,
            self._labels,
            seen.text_bytes,
            # A body without `stream` gets no stream; in a body that was not read whole, `stream` is unknown.
            streaming=False if seen.stream is None and seen.whole else seen.stream,
            prompt_tokens=self._tokens,
            several=seen.choices != 1,
            grammar_bytes=seen.grammar_bytes,
            pauses=seen.server_tools,
            unknown=self._unknown_length() if self._tokens is None else None,
        )

    def _unknown_length(self) -> UnknownLength:
        """The shortest and the longest prompt that this may be, and why its length is not known."""
        seen, buckets = self._peek, self._shared.buckets
        if seen.text_bytes is not None:
            shortest, longest = seen.text_bytes / MOST_BYTES_A_TOKEN, seen.text_bytes + MOST_ADDED_TOKENS
            return UnknownLength(buckets.bucket_of(shortest), buckets.bucket_of(longest), "no_scale")
        least = self._shared.lengths.tokens(self._labels.model, seen.least_text_bytes)
        shortest = seen.least_text_bytes / MOST_BYTES_A_TOKEN if least is None else least
        encoded = not seen.whole and CONTENT_CODING in self._head.found
        because = "encoded_body" if encoded else "not_text" if seen.whole else "unread_body"
        return UnknownLength(buckets.bucket_of(shortest), buckets.bucket_of(inf), because)

    def mark(self, mark: Mark, at: float) -> None:
        """Take in the instant of one event of the request."""
        match mark:  # each comparison takes about 0.1 us
            case Mark.RECEIVED:
                if self._purpose is Purpose.DELIVERS:
                    return  # its answer began before it came: no time from its own beginning means anything
                self._timeline.received_at = at
                if self._passes and self._long is not None:
                    self._enter(self._long)
                elif self._labels.lane:
                    self._arrive()
            case Mark.SENT:
                self._timeline.sent(at)
            case Mark.ENDED:
                if self._stream is not None:
                    self._stream.finish(at)
                self._timeline.ended(at)
                if not self._refused:  # a server may refuse requests while its engine hangs: that is no sign of life
                    self._instruments.slo.finished(self._record, at)
            case Mark.FLUSHED:
                self._timeline.flushed_at = at
            case _:
                self._mark_of_few(mark, at)

    def _end(self, at: float) -> None:
        if self._stream is not None:
            self._stream.finish(at)
        self._timeline.ended(at)

    def _mark_of_few(self, mark: Mark, at: float) -> None:
        """As `mark`, for the events that most requests do not have."""
        match mark:
            case Mark.CONNECTING:
                self._connecting_at = at
            case Mark.CONNECTED:
                self._connect_seconds = at - self._connecting_at
                if self._labels.lane:
                    self._instruments.recorder.connected(self._labels, self._connect_seconds)
            case Mark.PAUSED:
                self._timeline.paused(at)
                self._record.is_held = True
                self._instruments.slo.paused(self._record, at)
            case Mark.RESUMED:
                self._timeline.resumed(at)
                self._record.is_held = False
                self._instruments.slo.resumed(self._record, at)

    # --- the response ------------------------------------------------------------------------------------------------

    def head(self, at: float, head: ResponseHead) -> Cutter | None:
        """Decide from the head how the body will be read."""
        if self._long is not None:
            self._enter(self._long)  # the engine answers before the request has come whole
        self._timeline.headers(at)
        self._response_fields = head.fields
        content_type = media_type_of(head)
        lines = content_type in MEDIA_TYPES
        self._streaming = lines or content_type == EVENT_STREAM
        self._refused = head.status >= 400
        if self._refused:
            if head.status == REFUSES_MODEL and self._unknown_model is not None:
                self.data = self._unknown_model.data
            return None
        # With a Content-Length, the client would wait for the bytes that are cut out.
        may_cut = b"content-length" not in head.found
        if CONTENT_CODING in head.found and is_encoded(head.found):
            self._instruments.recorder.dropped("encoded_response")
            if self._asked_for_usage or self._asked_report is not None or self._asks_plain:
                self._engine.asking.compressed(at)
        elif (
            self._streaming and lines == self._dialect.in_lines and (self._peek.stream is True or not self._peek.whole)
        ):
            self._stream = self._read_as_stream(lines=lines, may_cut=may_cut)
            self.data = self._stream.data
        elif content_type == b"application/json" and self._peek.stream is not True:
            self.data = self._read_whole().data
        elif head.status < 300:
            return self._decide_later(content_type, lines=lines, may_cut=may_cut)
        else:
            self._instruments.recorder.dropped("unknown_stream")
        unread = self._streaming and self._stream is None
        self._instruments.slo.answering(self._record, at, streaming=None if unread else self._streaming)
        return self._stream if self._stream is not None and self._stream.cuts else None

    def _decide_later(self, content_type: bytes, *, lines: bool, may_cut: bool) -> Cutter | None:
        """The type does not tell how the answer is read: its first bytes will."""
        told = partial(self._begins, content_type, lines, may_cut)
        cuts = may_cut and (self._asked_for_usage or self._asked_report is not None)
        self._undecided = undecided = UndecidedResponse(told, cuts=cuts)
        self.data = undecided.data
        return undecided if cuts else None

    def _begins(
        self, content_type: bytes, lines: bool, may_cut: bool, begun: bytes
    ) -> StreamedResponse | WholeResponse | None:
        """An answer begins with these bytes. Returns what reads it; None: nothing does."""
        self._streaming = False
        answer: StreamedResponse | WholeResponse | None = None
        is_text = content_type.startswith(b"text/") or content_type in (b"", b"application/json")
        lines = lines or (self._dialect.in_lines and self._peek.stream is True)
        if begun.startswith(JSON_BEGINS) and not lines:
            answer = self._read_whole()
        elif lines or begun.startswith(BEGINNINGS):
            self._streaming = True
            answer = self._stream = self._read_as_stream(lines=not begun.startswith(BEGINNINGS), may_cut=may_cut)
        elif begun.startswith(b"<") or not (self._may_be_text or (self._purpose is Purpose.ENCODES and not is_text)):
            self._timeline.error_seen = True  # a page, where the request's format promises JSON or events
        else:
            self._instruments.recorder.dropped("unknown_stream")
        self._instruments.slo.answering(self._record, self._settlement.clock(), streaming=self._streaming)
        return answer

    @property
    def _may_be_text(self) -> bool:
        """The answer may be a transcription as plain text, if its form asks for that or was not read whole."""
        return self._purpose is Purpose.TRANSCRIBES and (self._peek.answers_in_text or not self._peek.whole)

    def _read_whole(self) -> WholeResponse:
        self._whole = WholeResponse(self._instruments.recorder.dropped, self._shared.held)
        return self._whole

    def _read_as_stream(self, *, lines: bool, may_cut: bool) -> StreamedResponse:
        instruments = self._instruments
        reader = EventReader(self._dialect, self._shared.max_event_bytes, lines=lines)
        return StreamedResponse(
            reader,
            self._timeline,
            instruments.slo,
            self._record,
            per_read=instruments.recorder.per_read[self._labels],
            estimator=None if instruments.estimates is None else instruments.estimates.estimator,
            began=self._began,
            usage_cut=None
            if not may_cut or not self._asked_for_usage
            else UsageCut(reader, self._peek.choices or 1, self._dialect.name in self._engine.speaks.null_usage_on),
            cuts_report=self._asked_report.event if may_cut and self._asked_report is not None else None,
        )

    def _began(self) -> None:
        """The first output came. The engine's report is kept until the end, which may be late if the client is slow."""
        self._instruments.in_flight.streaming(self._record)
        if self._settlement.listens and self._stream is not None and self._stream.reader.response_id is not None:
            self._settlement.pending.expect(response_key(self._stream.reader.response_id))

    # --- the end -----------------------------------------------------------------------------------------------------

    def blinded(self) -> None:
        """Tokens are no longer seen: because of that no deadline may count as missed, no silence as the engine's."""
        self._let_go()
        self._arrived = self._blinded = True  # deadlines that have not started yet never start
        self._instruments.slo.answering(self._record, self._settlement.clock(), streaming=None)

    def close(self, at: float, end: End) -> None:
        """The request is over: determine its one outcome, and hand on its one account."""
        timeline, outcome, failure = self._timeline, end.outcome, end.failure
        if timeline.ended_at is None:  # the engine's message is not complete: that is no sign of life
            self._end(at)
        self._let_go()
        self._instruments.in_flight.leave(self._record)
        if not self._labels.lane:
            self._name_late()
        stream = self._stream
        if stream is None:
            response_id, answered_model = self._read_body(outcome)
            read = timeline.says is not None
        else:
            read = self._look_at_end(stream, outcome)
            response_id, answered_model = stream.reader.response_id, stream.reader.model
        outcome = self._outcome(at, outcome, failure, response_id, read=read)
        if outcome is ENDED_WELL and not self._engine.names.listed:
            self._engine.may_list_at(self._shared.apis.models_beside(self._head.target))
        if failure is not None:
            self._instruments.recorder.failed(failure.reason)
        # The stream holds callbacks of this observer: parted, both are freed now and not by the garbage collector.
        self._stream, self.data = None, _unread
        marks = timeline.marks()
        labels, bucket = self._labels, self._bucket()
        usage, peek = timeline.usage, self._peek
        stated = None if usage is None else usage.prompt_tokens
        estimated = self._tokens if stated is None else None
        counted = peek.prompt_tokens if stated is None else stated
        lengths = lengths_of(counted, None if usage is None else usage.cached_tokens, peek.text_bytes, estimated)
        estimate = self._estimate(marks, outcome, failure, lengths)
        trace_id = self._trace.trace_id if self._trace is not None and self._trace.sampled else None
        own_span: OwnSpan | None = None
        if (sampling := self._settlement.sampling) is not None:
            own_span = self._own_span(sampling, response_id, at)
            trace_id = trace_id if own_span is None else own_span.trace_id
        account = Account(
            labels if bucket == labels.prompt_bucket else labels._replace(prompt_bucket=bucket),
            self._peek.stream is True if self._streaming is None else self._streaming,
            outcome,
            marks,
            None,  # its ledger comes later; a call with one more keyword costs three allocations
            cancelled_in=timeline.stage() if outcome is Outcome.CLIENT_CANCELLED else None,
            trace_id=trace_id,
            text_bytes=peek.text_bytes,
            prompt_lengths=lengths,
            estimate=estimate,
            key=self._record,
            finish=timeline.finish,
            teaches=self._teaches,
            is_empty=self._teaches and read and not self._blinded and marks.is_silent,
            own_span=own_span,
            notes=self._notes(end),
        )
        choices = marks.choices
        wire = Wire(marks, account.streaming, self._response_fields, choices)
        report = self._engine.speaks.in_band(timeline.extras, wire)
        if report is None and (named := self._shared.timing_header) is not None:
            report = report_in_timing(wire.list_of(named))
        # The keys by which the engine's report finds this request: the id of its answer, and the span minted for it.
        keys: tuple[RequestKey, ...] = () if response_id is None else (response_key(response_id),)
        context, minted = self._minted or self._trace, self._minted
        if minted is not None:
            keys = (*keys, span_key(minted.span_id), *(traced_key(key, minted.trace_id) for key in keys))
        traced = None if context is None else context.trace_id
        self._settlement.ended(account, report, keys, traced, at=at, choices=choices)
        if self._unknown_model is not None:
            self._unknown_model.ended(self._engine, answered_model if outcome is ENDED_WELL else None)

    def _own_span(self, sampling: SpanSampling, response_id: str | None, at: float) -> OwnSpan | None:
        """The request's span for the user's collector, if it has one."""
        ids = sampling.ids(self._trace, self._minted)
        if ids is None:
            return None
        operation = operation_of(self._dialect.name, self._head.target)
        return OwnSpan(*ids, operation=operation, response_id=response_id, ended_at=at)

    def _name_late(self) -> None:
        self._name()
        if TRACEPARENT in self._head.found and self._trace is None:
            self._find_trace()

    def _outcome(
        self, at: float, outcome: Outcome, failure: Failure | None, response_id: str | None, *, read: bool
    ) -> Outcome:
        """The outcome by the API's own words, where HTTP alone says that all went well or that the last bytes are missing.

        `read`: each event of the stream, or the whole answer, could be read.
        """
        timeline, stream = self._timeline, self._stream
        spoke = outcome is ENDED_WELL or failure in CUT_SHORT or outcome is Outcome.CLIENT_CANCELLED
        if not spoke or self._refused or self._streaming is None:
            return outcome
        if timeline.error_seen:
            own = timeline.cancelled and response_id in self._shared.cancelled
            return Outcome.CLIENT_CANCELLED if own else Outcome.ENGINE_ERROR
        if outcome is Outcome.CLIENT_CANCELLED or (outcome is not ENDED_WELL and not self.done):
            return outcome
        if timeline.accepted:
            return Outcome.ACCEPTED
        proof = Proof.FRAMING
        if outcome is not ENDED_WELL:
            proof = Proof.CUT_BEHIND_MARK
        elif not self._blinded and (stream is not None or self._has_end):
            finish = (EndMark.FINISH,) if timeline.finished_all() else ()
            # An end mark behind nothing is no sign of a whole answer.
            end = (EndMark.END,) if stream is not None and stream.done and (finish or timeline.output_events) else ()
            engine, proofs = self._engine, self._shared.proofs
            if engine.kind != AUTO:
                proofs.made_by(engine.kind, engine.version)
            streamed = stream is not None or (self._whole is None and self._peek.stream is True)
            kind = AnswerKind(self._dialect.name, self._labels.model, streamed)
            proof = proofs.judge(kind, self._dialect.end_marks, (*finish, *end), read or stream is None)
        self._instruments.recorder.proof(self._dialect.name, proof)
        if proof is Proof.MARKED and read and stream is not None and self._dialect.has_usage_option:
            cut = stream.usage_cut
            if cut is None or cut.shows or self._engine.asking.doubted:  # else it says nothing new, as nearly always
                self._learn(cut, at)
        return Outcome.ENGINE_TRUNCATED if proof is Proof.MISSING else ENDED_WELL

    @property
    def _has_end(self) -> bool:
        """The end of an answer that is no stream was seen, so that a mark which is not there is missing."""
        if self._whole is not None:
            return not self._whole.unread
        return self._undecided is not None and not self._undecided.is_told  # not a byte of it came

    def _learn(self, cut: UsageCut | None, at: float) -> None:
        """A stream is proved whole: whether clients that do not ask for usage get it, and whether answers come uncompressed."""
        engine, api, usage = self._engine, self._dialect.name, self._timeline.usage
        if self._asks_plain:
            engine.asking.came_plain(at)
        unasked = self._peek.whole and self._peek.usage_asked in NOT_WANTED
        accepts = engine.accepts_usage(api, unrecognised=self._shared.include_usage == "always")
        if accepts and (unasked or self._asked_for_usage):
            engine.asking.ended(api, at, shows=usage is not None if cut is None else cut.shows)

    def _read_body(self, outcome: Outcome) -> Stated:
        """Read the usage of a non-streamed answer from its body. Returns what the answer says of itself."""
        if self._whole is None:
            return NOTHING_STATED
        body = self._whole.said()
        self._whole.let_go()
        failed = self._whole.is_page
        if body:
            try:
                self._timeline.read_body(self._dialect.read_body(body))
            except UnreadableEvent:
                self._instruments.recorder.dropped("unreadable_event")
                failed = fails(body) or not is_json(body)
        if failed and outcome is ENDED_WELL and not self._may_be_text:
            self._timeline.error_seen = True
        return stated_in(body)

    def _look_at_end(self, stream: StreamedResponse, outcome: Outcome) -> bool:
        """See whether a stream breaks off whose framing is whole, and count what could not be read. Returns whether all was."""
        reader, dropped = stream.reader, self._instruments.recorder.dropped
        over = stream.done and (not reader.unreadable or self._timeline.finished_all())
        if outcome is ENDED_WELL and not over and reader.breaks_off():
            self._timeline.error_seen = True
        if reader.parser.oversized:
            dropped("event_too_long", reader.parser.oversized)
        if reader.unreadable:
            dropped("unreadable_event", reader.unreadable)
        return not reader.parser.oversized and not reader.unreadable

    def _estimate(self, marks: Marks, outcome: Outcome, failure: Failure | None, lengths: Lengths) -> Estimate | None:
        """The estimated prefill, or None. The estimator learns in any case that the request has left."""
        estimates = self._instruments.estimates
        if estimates is None or not self._teaches:
            return None
        if failure is Failure.ENGINE_REFUSED:
            estimates.forget()  # no process listens there any more: the next one that answers is another process
        ok = outcome is ENDED_WELL and self._streaming is True and self._engine.speaks.is_estimated
        return estimates.ended(self._record, self._labels, lengths, marks, ok=ok)

    def _bucket(self) -> str:
        """The prompt bucket: by the engine's count, else an estimate, once enough prompts of the model were counted."""
        shared, usage = self._shared, self._timeline.usage
        if usage is None or usage.prompt_tokens is None:
            tokens, text_bytes = self._estimated_tokens(self._labels.model), self._peek.text_bytes
            if tokens is None and text_bytes and (scale := self._engine.speaks.usual_tokens_per_byte) is not None:
                tokens = text_bytes * scale  # for the label alone: no objective is judged by it
            return shared.buckets.bucket_of(tokens)
        if self._lane_at_length is not None:
            self._instruments.recorder.lane_by_length(self._lane_at_length(usage.prompt_tokens) == self._labels.lane)
        if self._teaches:
            shared.lengths.learn(self._labels.model, self._peek.text_bytes, usage.prompt_tokens)
        return shared.buckets.bucket_of(usage.prompt_tokens)

    def _notes(self, end: End) -> dict[str, str]:
        target = self._head.target
        path = clean_short_path(target) if len(target) <= SHORT_PATH_BYTES else clean_path(target)
        notes = {"path": path, **self._shared.headers_for_log(self._head.fields)}
        if end.status is not None:
            notes["status"] = str(end.status)
        if end.failure is not None:
            notes["error"] = end.failure.reason
        if end.resent is not None:
            notes["resent"] = end.resent
        # For how long, by the kernel, the last hop held the answer back; it overlaps with decode, so it is no phase.
        if end.delivery is not None and end.delivery.receive_window_limited_seconds > 0:
            notes["client_window_limited_seconds"] = f"{end.delivery.receive_window_limited_seconds:.6f}"
        if end.delivery is not None and end.delivery.send_buffer_limited_seconds > 0:
            notes["send_buffer_limited_seconds"] = f"{end.delivery.send_buffer_limited_seconds:.6f}"
        held_open_seconds = self._timeline.held_open_seconds
        if held_open_seconds > HELD_OPEN_SECONDS:
            notes["engine_held_open_seconds"] = f"{held_open_seconds:.6f}"
        return notes


def media_type_of(head: ResponseHead) -> bytes:
    """In lower case, without parameters; empty if it is not stated."""
    return head.found.get(b"content-type", (b"",))[0].partition(b";")[0].strip().lower()


def _unread(_at: float, _data: bytes) -> None:
    """Hook for a response body that is not read."""
