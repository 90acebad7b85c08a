"""The closed account of one request: all values from which metrics and the log line are written.

Knows labels from closed sets, instants and phases. Refuses free text of a client, except in `notes`, cleaned and
capped.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from sidecar.ledger.request_labels import RequestLabels
from sidecar.timeline.finish import NO_FINISH, Finish
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome, Stage


class Phase(StrEnum):
    """Phases into which the time of a request is split (design section 3)."""

    QUEUE = "queue"
    PREFILL = "prefill"
    FIRST_TOKEN = "first_token"  # noqa: S105  a phase, not a secret
    UNATTRIBUTED = "unattributed"
    """Time before the first token that cannot be split (non-streamed: the rest that the engine does not report). Of an
    answer that was held back, also its decode."""
    DECODE = "decode"
    STREAM = "stream"


class Source(StrEnum):
    """Origin of a phase's number: measured by the engine or on the wire, or derived or estimated."""

    ENGINE = "engine"
    WIRE = "wire"
    DERIVED = "derived"
    ESTIMATED = "estimated"


class Reason(StrEnum):
    """How a split was obtained, or why there is none: `llm_phase_attribution_total{reason}`."""

    IN_BAND = "in_band"
    LATE_REPORT = "late_report"
    SPAN_ALONE = "span_alone"
    """The request itself is known from its engine's span alone: no hop saw it (`--no-proxy`)."""
    NO_REPORT = "no_report"
    NOT_TOLD_APART = "not_told_apart"
    """The engine states sums over its requests, and this one's part of them cannot be told from others'."""
    REPORT_EXCEEDS_WIRE = "report_exceeds_wire"
    REPORT_INCOMPLETE = "report_incomplete"
    ENGINE_MERGES_PHASES = "engine_merges_phases"
    """The engine states queue and prefill as one number."""
    ESTIMATED = "estimated"
    """There was no report, and the estimator was ready (design section 4)."""
    NO_TOKEN = "no_token"  # noqa: S105  a stream without output
    SHUTDOWN = "shutdown"
    TABLE_FULL = "table_full"


class Share(msgspec.Struct, frozen=True):
    phase: Phase
    seconds: float
    source: Source


class Ledger(msgspec.Struct, frozen=True):
    """The phases of one request; their seconds add up to `e2e_seconds`."""

    shares: tuple[Share, ...]
    e2e_seconds: float
    ttft_seconds: float | None
    """None for non-streamed requests."""
    held_seconds: float
    """Seconds for which output of the engine was held back before it reached the sidecar; part of `stream`."""
    reason: Reason

    @property
    def source(self) -> str:
        """Origin of the split of TTFT (non-streamed: of the whole request): a `Source`, or "none"."""
        for share in self.shares:
            if share.phase is Phase.QUEUE:
                return share.source._value_
        return "none"


class OwnSpan(msgspec.Struct, frozen=True):
    """The span of one request that is exported to the user's collector: its place in a trace, and what only a span tells."""

    trace_id: str
    """32 hex digits: the client's, or of a trace that begins here."""
    span_id: str
    """16 hex digits; where the engine's spans are asked for, their parent."""
    parent_id: str
    """The client's span, 16 hex digits; empty where the trace begins here."""
    operation: str
    """The name of the operation in OpenTelemetry's GenAI conventions (`timeline/operations.py`)."""
    response_id: str | None
    """As the engine states it."""
    ended_at: float
    """The end of the request, well or not, on the clock of the marks."""


class Estimate(NamedTuple):
    """The estimated prefill of one request, in seconds, and an interval that holds the true one in 80 of 100 cases."""

    prefill_seconds: float
    low_seconds: float
    high_seconds: float
    basis: str
    """The way in which it was found (`engines/estimator.py`)."""
    behind_seconds: float = 0.0
    """From the end of such a prefill to the first token, as reports on others told it, also where that is more than this TTFT; 0: no report told
    it, and it is contained in the prefill."""
    met_full: bool = False
    """Between its arrival and its first token as many streams ran as ever have, so that it may have waited for one of them to end."""


class PhasePart(msgspec.Struct, frozen=True):
    """A part of one phase, or its rest (`ledger/phase_parts.py`)."""

    phase: Phase
    part: str
    seconds: float


class Account(msgspec.Struct, frozen=True):
    labels: RequestLabels
    streaming: bool
    """The response was an event stream (or, before any response, was asked to be one)."""
    outcome: Outcome
    marks: Marks
    ledger: Ledger | None
    """None unless the outcome is ok."""
    cancelled_in: Stage | None = None
    """Set when the outcome is client_cancelled."""
    trace_id: str | None = None
    """32 hex digits, only when the client's own trace was sampled, or the request's own span is exported: the exemplar."""
    kv_transfer_seconds: float | None = None
    """Moving the KV cache between workers, where the engine reports it."""
    reasoning_seconds: float | None = None
    """From the first token of reasoning to the first one of the content, where the engine reports it."""
    parts: tuple[PhasePart, ...] = ()
    """The parts of its phases, where the engine states some."""
    prompt_lengths: Sequence[tuple[float, str]] = ()
    """The length of its prompt in each measure that is known, tokens or bytes, the best first (`pod/costs/prefill_cost.py`)."""
    text_bytes: int | None = None
    """Bytes of its body that may be prompt text; None if they say nothing of its length (`classify/found.py`)."""
    estimate: Estimate | None = None
    """The estimator's prefill; used only if there is no report, else compared with the report."""
    key: Any = None
    """The request's record while it ran (`observe/request_record.py`), until its ledger is closed; not used for anything else."""
    finish: Finish = NO_FINISH
    """The finish reason that the answer states, of several choices the first one."""
    teaches: bool = True
    """Its times are those of a prompt and of tokens. False of embeddings and the like, and of a stream that was ordered before."""
    is_empty: bool = False
    """The answer was read whole, and says nothing: no text, no reasoning, no tool call."""
    own_span: OwnSpan | None = None
    """None unless the request's span is exported."""
    notes: Mapping[str, str] = MappingProxyType({})
    """Values for the log line only (request id, error reason, ...), already cleaned and capped."""

    @property
    def ttft_seconds(self) -> float | None:
        """From the body's last byte to the first token of a stream; None if there was none, or it came before that byte."""
        marks = self.marks
        if self.ledger is not None:
            return self.ledger.ttft_seconds
        if not self.streaming or marks.first_token_at is None or marks.received_at is None:
            return None
        ttft = marks.first_token_at - marks.received_at
        return ttft if ttft >= 0 else None

    def whole_seconds(self, at: float) -> float | None:
        """From the body's last byte to the answer's, or to another end; None if the body never came whole.

        `at`: now. Without a ledger an account closes at once, so this is the end.
        """
        if self.ledger is not None:
            return self.ledger.e2e_seconds
        return None if self.marks.received_at is None else max(0.0, at - self.marks.received_at)
