"""What an engine reports about one request: durations on the engine's own clock. Only durations ever cross a process boundary."""

from dataclasses import dataclass

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
    merged: bool = False
    """The engine states queue and prefill as one number: nobody can split them, and what it states is not the queue."""
    kv_transfer_seconds: float | None = None
    """Moving the KV cache between disaggregated workers, where reported; which phase it lies in, the engine's file says."""


NO_REPORT = EngineReport()
