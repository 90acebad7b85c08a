"""What an engine reports about one request: durations on the engine's own clock. Only durations ever cross a process boundary."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineReport:
    """One engine's word on one request; None where this engine does not say. All non-negative, finite seconds."""

    queue_seconds: float | None = None
    """Submitted to the scheduler until first scheduled."""
    prefill_seconds: float | None = None
    """First scheduled until the first token exists."""
    decode_seconds: float | None = None
    """First token until the last."""
