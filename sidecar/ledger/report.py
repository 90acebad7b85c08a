"""The report of an engine on one request, and the keys by which that request is found.

It knows durations on the engine's own clock: only durations ever cross a process boundary. A key is the id that the answer
gave itself, or the span that the sidecar minted; either may count within one trace only. It refuses to know where a
report came from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sidecar.ledger.account import Source


@dataclass(frozen=True, slots=True)
class EngineReport:
    """One engine's word on one request; None where this engine does not say. All non-negative, finite seconds."""

    queue_seconds: float | None = None
    """Submitted to the scheduler until first scheduled."""
    prefill_seconds: float | None = None
    """First scheduled until the first token exists."""
    decode_seconds: float | None = None
    """First token until the last."""
    queue_source: Source = Source.ENGINE
    """`derived` where the engine does not state the queue and it is what is left of something else (an upper bound)."""
    prefill_source: Source = Source.ENGINE
    front_end_seconds: float | None = None
    """Before the queue (validation, tokenising), stated by an engine that does not state its prefill: what is left of a streamed
    request's TTFT after this and the queue is then the prefill, `derived`."""
    merged: bool = False
    """The engine states queue and prefill as one number: nobody can split them, and what it states is not the queue."""
    kv_transfer_seconds: float | None = None
    """Moving the KV cache between disaggregated workers, where reported; which phase it lies in, the engine's file says."""
    spoke_at: float | None = field(default=None, compare=False)
    """When its first token came, on a clock of the engine's: only ever compared between the choices of one request."""


NO_REPORT = EngineReport()


class RequestKey(NamedTuple):
    """One name by which a request is found."""

    names: str
    """The thing that the id names: "response" or "span"."""
    id: str
    trace_id: str | None = None
    """The trace within which alone the key counts; None: it counts everywhere."""


def response_key(response_id: str) -> RequestKey:
    """The key of a request by the id that its answer gave itself."""
    return RequestKey("response", response_id)


def span_key(span_id: str) -> RequestKey:
    """The key of a request by the span that the sidecar minted for it, the parent of the engine's own."""
    return RequestKey("span", span_id)


def traced_key(key: RequestKey, trace_id: str) -> RequestKey:
    """A key that counts within one trace: clients choose ids freely, also those that bypass the sidecar."""
    return RequestKey(key.names, key.id, trace_id)


@dataclass(frozen=True, slots=True)
class KeyedReport:
    """A report that came out-of-band, with the keys by which its request is found."""

    keys: tuple[RequestKey, ...]
    """Those that only this request has."""
    report: EngineReport
    trace_id: str | None = None
    """The trace of a span: its ids count within it alone, and without ids it counts by itself while one request has it."""
    part: str | None = None
    """Key that distinguishes this report from other reports on the same request (one per choice); None: it is the only one."""


def of_choices(reports: Sequence[EngineReport]) -> EngineReport:
    """The report on a request of several choices, from those on each: the first token is that of the choice that had one first.

    Which one that was, the engine's clock says, and where it does not, the least queue and prefill together: they were all
    submitted in one go. Their decodes overlap and add up to nothing: left unstated, the wire measures it. Where any of them is
    incomplete, so is the whole.
    """
    if len(reports) == 1:
        return reports[0]
    if any(report.merged or report.queue_seconds is None or report.prefill_seconds is None for report in reports):
        return NO_REPORT
    clocked = all(report.spoke_at is not None for report in reports)
    return replace(min(reports, key=_spoke_at if clocked else _first_token_seconds), decode_seconds=None)


def _spoke_at(report: EngineReport) -> float:
    return report.spoke_at or 0.0


def _first_token_seconds(report: EngineReport) -> float:
    return (report.queue_seconds or 0.0) + (report.prefill_seconds or 0.0)
