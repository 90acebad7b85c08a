"""The report of an engine on one request, and the keys by which that request is found.

It knows durations on the engine's own clock, because instants of two processes cannot be compared. A key is the
response id in the answer, or the span that the sidecar minted; either may be valid within one trace only. It refuses to
know where a report came from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from sidecar.ledger.account import Phase, Source
from sidecar.ledger.phase_parts import PHASE_OF_PART, Part, StatedPart
from sidecar.timeline.events import NO_USAGE, Usage


class EngineReport(msgspec.Struct, frozen=True, eq=False):
    """One engine's report on one request, in seconds, finite and at least 0; None where the engine states no value."""

    queue_seconds: float | None = None
    """Submitted to the scheduler until first scheduled."""
    prefill_seconds: float | None = None
    """First scheduled until the first token exists."""
    decode_seconds: float | None = None
    """First token until the last."""
    unsent_seconds: float = 0.0
    """The part of decode before the first output that is sent: reasoning that the client does not get."""
    reasoning_seconds: float | None = None
    """First token of reasoning until the first one of the content, a part of decode. None where either is not stated, or the content came first."""
    queue_source: Source = Source.ENGINE
    """`derived` if the engine does not state the queue and it is computed as a remainder (an upper bound)."""
    prefill_source: Source = Source.ENGINE
    front_end_seconds: float | None = None
    """Time before the queue (validation, tokenising), stated by an engine that does not state its prefill. The prefill
    of a streamed request is then TTFT less this and the queue, with source `derived`."""
    merged: bool = False
    """The engine states queue and prefill as one number. It cannot be split, and `queue_seconds` is not the queue."""
    merged_seconds: float | None = None
    """That number, where it is known: an estimate splits it, and its two parts add up to it."""
    behind_queue: bool = False
    """Its clock starts behind a queue of the server's own, which it does not state: that time is part of the TTFT, and belongs to the queue."""
    kv_transfer_seconds: float | None = None
    """Moving the KV cache between disaggregated workers, if reported. The engine's file says which phase contains
    it."""
    parts: tuple[StatedPart, ...] = ()
    """Parts of its phases, each at most once."""
    usage: Usage | None = None
    """Token counts, where the report states them: used if the answer states none."""
    untold_seconds: float = 0.0
    """Between prefill and first token, and nothing tells whether it is a queue or the move of a KV cache."""
    ttft_seconds: float | None = None
    """Arrival at the server that states this until that server had the first token: no hop and no other worker before it is in it."""
    spoke_at: float | None = None
    """Instant of the first token on the engine's clock, in seconds: compared only between the choices of one
    request."""

    def __eq__(self, other: object) -> bool:
        """Whether both state the same times of phases: token counts, TTFT and instants are none."""
        return isinstance(other, EngineReport) and _DURATIONS_OF(self) == _DURATIONS_OF(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def splits_off_queue(self) -> bool:
        """It states the whole queue, and of the rest no prefill."""
        return self.prefill_seconds is None and not self.merged and not self.behind_queue

    @property
    def narrows(self) -> bool:
        """It does not split a TTFT, and bounds an estimate of the split by what it states. Not where the TTFT holds what no estimate knows:
        a queue of the server's own, or a KV cache's move.
        """
        if self.merged:
            return True
        if self.behind_queue or self.kv_transfer_seconds:
            return False
        return self.queue_seconds is None or (self.prefill_seconds is None and self.front_end_seconds is None)

    @property
    def least_queue_seconds(self) -> float:
        """The stated parts of the queue: it is at least so long, also where it is estimated."""
        return sum(part.seconds for part in self.parts if PHASE_OF_PART[part.part] is Phase.QUEUE)

    def beside(self, front: "EngineReport") -> "EngineReport":
        """The report of the engine itself, with what the server in front of it states: its parts, and the part of the queue before it."""
        if self.merged or not front.merged:
            return self
        if self.queue_seconds is None and self.prefill_seconds is None:
            return replace(front, usage=self.usage)
        queue = None if self.queue_seconds is None else self.queue_seconds + front.least_queue_seconds
        transfer = self.kv_transfer_seconds if front.kv_transfer_seconds is None else front.kv_transfer_seconds
        untold = self.untold_seconds if front.kv_transfer_seconds is None else 0.0
        parts = (*front.parts, *self.parts)
        return replace(self, queue_seconds=queue, untold_seconds=untold, kv_transfer_seconds=transfer, parts=parts)

    def admitted_after(self, seconds: float) -> "EngineReport":
        """The report with so many seconds of the part that is the KV cache's move taken for the wait before it, for a place at the worker of
        the decode. `kv_transfer_seconds` stays as it is stated. `seconds`: at least 0.
        """
        if not seconds:
            return self
        parts = [
            part._replace(seconds=max(0.0, part.seconds - seconds)) if part.part is Part.KV_TRANSFER else part
            for part in self.parts
        ]
        return replace(self, parts=(*parts, StatedPart(Part.DECODE_ADMISSION, seconds)))

    def behind(self, outer: "EngineReport") -> "EngineReport":
        """The report with the queue before it, as another report states it."""
        if self.queue_seconds is None or outer.queue_seconds is None:
            return self
        return replace(self, queue_seconds=outer.queue_seconds + self.queue_seconds, behind_queue=False)


_OUTSIDE = frozenset({"usage", "ttft_seconds", "spoke_at"})
_DURATIONS_OF = attrgetter(*(name for name in EngineReport.__struct_fields__ if name not in _OUTSIDE))
NO_REPORT = EngineReport()


class RequestKey(NamedTuple):
    """One name by which a request is found."""

    kind: str
    """The kind of id: "response" or "span"."""
    id: str
    trace_id: str | None = None
    """The only trace in which the key is valid; None: it is valid in all."""


def response_key(response_id: str) -> RequestKey:
    """The key of a request by the response id in its answer."""
    return RequestKey("response", response_id)


def span_key(span_id: str) -> RequestKey:
    """The key of a request by the span that the sidecar minted for it, which is the parent of the engine's span."""
    return RequestKey("span", span_id)


def traced_key(key: RequestKey, trace_id: str) -> RequestKey:
    """The same key, valid within one trace: clients choose ids freely, also clients that bypass the sidecar."""
    return RequestKey(key.kind, key.id, trace_id)


@dataclass(frozen=True, slots=True)
class SpanRequest:
    """One whole request as its engine's span states it: all that is known of it where no hop saw it (`observe/span_requests.py`)."""

    ended_at_unix: float
    """End of the answer on the engine's wall clock, in seconds: compared only with the ends of that engine's other requests."""
    ttft_seconds: float
    """Arrival at the engine's server until that server had the first token."""
    e2e_seconds: float
    """Arrival at the engine's server until that server had the last token."""
    usage: Usage
    max_tokens: int | None = None
    model: str | None = None
    aborted: bool = False
    """The span says that the answer is not whole."""
    said: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """The span's attributes, of which the config may name one as the lane."""
    trace_state: str = ""
    """The client's `tracestate`, of which it may name a key."""


@dataclass(frozen=True, slots=True)
class KeyedReport:
    """A report that came out-of-band, with the keys by which its request is found."""

    keys: tuple[RequestKey, ...]
    """Keys that only this request has."""
    report: EngineReport
    trace_id: str | None = None
    """The trace of a span. The keys are valid in it alone; without keys the trace itself finds the request, if only one
    has it."""
    part: str | None = None
    """Key that distinguishes this report from other reports on the same request (one per choice). None if alone."""
    request: SpanRequest | None = field(default=None, compare=False)
    """The request itself, where the report came as a span that states it. It is no part of the report."""


def of_choices(reports: Sequence[EngineReport]) -> EngineReport:
    """The report on a request of several choices, from one report per choice: queue and prefill of the choice with the
    first token.

    The engine's clock tells which choice that was. Without that clock it is the choice with the least queue + prefill,
    because all choices were submitted together. Their decodes overlap and cannot be added, so decode is left unstated
    and the wire measures it. If any of the reports is incomplete, the result states no times.
    """
    if len(reports) == 1:
        return reports[0]
    usage = _usage_of_choices([report.usage or NO_USAGE for report in reports])
    if any(report.merged or report.queue_seconds is None or report.prefill_seconds is None for report in reports):
        return replace(NO_REPORT, usage=usage)
    clocked = all(report.spoke_at is not None for report in reports)

    def first_token(report: EngineReport) -> float:
        return (report.spoke_at if clocked else (report.queue_seconds or 0.0) + (report.prefill_seconds or 0.0)) or 0.0

    return replace(min(reports, key=first_token), decode_seconds=None, usage=usage)


def _usage_of_choices(usages: Sequence[Usage]) -> Usage | None:
    """As an answer of several choices states it: the prompt's tokens once, all generated ones.

    Choices of one prompt state the same length. Several prompts of one length cannot be told from them, so their sum is not known either:
    the report of a further prompt must leave its length out.
    """
    prompts = {usage.prompt_tokens for usage in usages}
    completions = [usage.completion_tokens for usage in usages]
    usage = Usage(
        prompt_tokens=next(iter(prompts)) if len(prompts) == 1 else None,
        completion_tokens=None if None in completions else sum(count or 0 for count in completions),
    )
    return None if usage == NO_USAGE else usage
