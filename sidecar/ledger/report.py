"""What an engine reports about one request: durations on the engine's own clock. Only durations ever cross a process boundary."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

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
