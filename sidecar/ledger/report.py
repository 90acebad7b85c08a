"""What an engine reports about one request: durations on the engine's own clock. Only durations ever cross a process boundary."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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


NO_REPORT = EngineReport()


def of_choices(reports: Sequence[EngineReport]) -> EngineReport:
    """The report on a request of several choices, from those on each: the first token is that of the choice that had one first.

    All choices are submitted in one go, so the least queue and prefill together is that choice's. Their decodes overlap and
    add up to nothing: left unstated, the wire measures it. Where any of them is incomplete, so is the whole.
    """
    if len(reports) == 1:
        return reports[0]
    first, least = NO_REPORT, float("inf")
    for report in reports:
        if report.merged or report.queue_seconds is None or report.prefill_seconds is None:
            return NO_REPORT
        if report.queue_seconds + report.prefill_seconds < least:
            first, least = report, report.queue_seconds + report.prefill_seconds
    return replace(first, decode_seconds=None)
