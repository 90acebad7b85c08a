"""Requests that no hop saw, made of their engine's spans: what is left of an observer where no traffic passes here (`--no-proxy`).

A span comes when its request is over, up to some seconds later, and states all that will ever be known of it: its times, its tokens, what
the client asked for. It becomes one closed account of the shape that a proxied request has, whose ledger has the reason `span_alone`, and
goes the same way: metrics, objectives, roots, the ring, the log. Each part of a request (one per choice) is a request of its own, as the
engine counts it.

It refuses to make up what no span tells: the client's side (uploads, delivery, who left), the instants between two tokens, and every
request without a span. Those are the failed and the cancelled ones, and those whose client's trace was not sampled. So objectives hold on
what succeeded.

The engine's wall clock is another one than the sidecar's. Of two requests only the difference counts, so the ends of spans are laid on the
sidecar's clock by the smallest delay that a span has had of late: the order and the distances are the engine's, and all of them are
moved by that delay.
"""

from collections import OrderedDict
from math import inf

from sidecar.classify.found import Peek
from sidecar.engines.kind import UNKNOWN_KIND, EngineKind
from sidecar.engines.kinds import KINDS
from sidecar.ledger.account import Account
from sidecar.ledger.pending import Lost
from sidecar.ledger.report import KeyedReport, SpanRequest
from sidecar.ledger.request_labels import OTHER, RequestLabels
from sidecar.observe.request import Observers
from sidecar.observe.request_record import RequestRecord
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import ENDED_WELL


DELAY_SECONDS = 300.0
"""The smallest delay of a span is remembered for one to two times as long: clocks drift, and an engine that starts anew may be another."""
MOST_DELAY_SECONDS = 120.0
"""A span that seems later than that behind the smallest delay comes from a clock that was set back: exporters give up before (64 s)."""
MAX_TAKEN = 16_384
"""Spans that are remembered, so that none is counted again: half a minute of 500 a second, and some 5 MB at most. An exporter sends a batch
again where the answer came too late, within 64 s, and a Collector with two pipelines sends each span twice within seconds."""
LANE_CHARACTERS = 256
"""Longest value of a span's attribute that is compared with the lanes; no lane has so long a name."""
TRACE_STATE = "tracestate."
"""Beginning of a `lanes.span_attribute` that names a key of the client's `tracestate`."""


def left_out(counted_ratio: float | None) -> str:
    """Says what the requests here are not, for people. `counted_ratio`: share of the engine's ended requests that had a span; None: unknown."""
    share = (
        ""
        if counted_ratio is None
        else f" {counted_ratio:.0%} of the requests that the engine counted as ended had one."
    )
    return (
        "No traffic passes here (--no-proxy): requests are counted from the engine's spans. Requests that failed, were cancelled, or whose"
        f" client's trace was not sampled have no span.{share} So objectives hold on what succeeded. The phase stream, the gaps between"
        " tokens, stalls and requests in flight are unknown."
    )


def unable(kind: EngineKind) -> tuple[str, ...]:
    """Says of which spans nothing can be counted: of all, where this kind's do not state requests; of most forms, where it is not known."""
    if kind.spans_tell_requests:
        return ()
    if kind is UNKNOWN_KIND:
        able = " or ".join(name for name, each in KINDS.items() if each.spans_tell_requests)
        said = (
            "The engine's kind is not known: a span counts only if it states queue, prefill, first token and whole as gen_ai.latency.*, and the"
            f" engine's own page is not read. If it is {able}, set engine.kind."
        )
    else:
        said = f"The spans of {kind.title} do not state requests: with --no-proxy nothing of it is counted but its own page."
    return (said,)


class EngineClock:
    """The sidecar's instants of an engine's wall-clock times, from spans that came some time after them."""

    def __init__(self) -> None:
        self._least, self._least_before = inf, inf
        self._began_at = -inf

    def local(self, unix: float, at: float) -> float:
        """The instant of a time of the engine's clock, of which a span tells that came at `at`: at most `at`."""
        delay = at - unix
        if at - self._began_at >= DELAY_SECONDS:
            self._least_before, self._least, self._began_at = self._least, inf, at
        self._least = min(self._least, delay)
        late_seconds = delay - min(self._least, self._least_before)
        if late_seconds > MOST_DELAY_SECONDS:
            self._least = self._least_before = delay
            return at
        return at - late_seconds


class SpanRequests:
    """Takes the reports of one engine's spans, each as a request."""

    def __init__(self, observers: Observers) -> None:
        self._observers = observers
        self._settlement = observers.settlement
        self._clock = EngineClock()
        self._taken: OrderedDict[tuple[str | None, str], None] = OrderedDict()
        """Trace and span of the last MAX_TAKEN that were counted."""
        self.heard_at = -inf
        """When the last report came: the engine lives, whatever its health checks say."""

    def take(self, keyed: KeyedReport) -> None:
        """A report came: account for its request, if its span states one that ended well."""
        settlement, request = self._settlement, keyed.request
        at = self.heard_at = settlement.clock()
        if request is None or request.aborted:
            settlement.instruments.recorder.dropped("span_incomplete" if request is None else "span_of_aborted")
            return
        if self._is_second(keyed):
            settlement.instruments.recorder.dropped(Lost.TWICE)
            return
        marks = self._marks(request, self._clock.local(request.ended_at_unix, at), keyed.report.decode_seconds)
        account = Account(
            labels=self._labels(request),
            streaming=True,
            outcome=ENDED_WELL,
            marks=marks,
            ledger=None,
            trace_id=keyed.trace_id,
            key=RequestRecord(),
            notes={"known_from": "span"},
        )
        settlement.stated(account, request, keyed.report, at=at)

    def _is_second(self, keyed: KeyedReport) -> bool:
        """Whether this span was counted already. A report of several spans has no `part`: its engine's assembler makes each once."""
        if keyed.part is None:
            return False
        span, taken = (keyed.trace_id, keyed.part), self._taken
        if span in taken:
            return True
        taken[span] = None
        if len(taken) > MAX_TAKEN:
            taken.popitem(last=False)
        return False

    def _marks(self, request: SpanRequest, ended_at: float, decode_seconds: float | None) -> Marks:
        came_at = ended_at - request.e2e_seconds
        first_at = came_at + request.ttft_seconds
        last_at = ended_at if decode_seconds is None else min(ended_at, first_at + decode_seconds)
        return Marks(
            accepted_at=came_at,
            received_at=came_at,
            first_token_at=first_at,
            last_token_at=last_at,
            ended_at=ended_at,
            flushed_at=ended_at,
            choices=1,
            usage=request.usage,
        )

    def _labels(self, request: SpanRequest) -> RequestLabels:
        observers, recorder = self._observers, self._settlement.instruments.recorder
        model = self._settlement.engine.names.of(request.model)
        if request.model is not None and model == OTHER:
            recorder.outside("model")
        tokens = request.usage.prompt_tokens
        peek = Peek(model=request.model, max_tokens=request.max_tokens)
        attribute = observers.rules.span_attribute
        said = None if attribute is None else _said(request, attribute)
        stated = {} if said is None or attribute is None else {attribute.encode(): (said.encode("utf-8", "replace"),)}
        lane = observers.rules.lane_of(b"", stated, peek, None, tokens)
        if lane == OTHER:
            recorder.outside("lane")
        return RequestLabels(model, lane, observers.buckets.bucket_of(tokens))


def _said(request: SpanRequest, attribute: str) -> str | None:
    """The value of an attribute or, behind TRACE_STATE, of a key of the client's `tracestate`; None if the span does not have it."""
    if not attribute.startswith(TRACE_STATE):
        value = request.said.get(attribute)
        return None if value is None else str(value)[:LANE_CHARACTERS]
    for member in request.trace_state.split(","):
        key, equals, value = member.strip().partition("=")
        if equals and key == attribute.removeprefix(TRACE_STATE):
            return value[:LANE_CHARACTERS]
    return None
