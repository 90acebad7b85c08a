"""A request as a scenario: `Scenario().received(0).token(0.8).end(2.0)`, and then its ledger.

Instants are seconds after `accepted_at`, which is instant 50 of the clock, so that nothing works only from zero.
"""

from typing import Self

from sidecar.ledger.account import Ledger, Reason
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.timeline.events import StreamEvent, Usage
from sidecar.timeline.timeline import Timeline


START = 50.0


class Scenario:
    """One request, with the events that the relay would report."""

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self.timeline = Timeline(START, self.gaps.append)

    def received(self, at: float) -> Self:
        self.timeline.received_at = START + at
        return self

    def sent(self, at: float) -> Self:
        self.timeline.sent(START + at)
        return self

    def headers(self, at: float) -> Self:
        self.timeline.headers(START + at)
        return self

    def events(self, at: float, *stream_events: StreamEvent) -> Self:
        self.timeline.read(START + at, stream_events)
        return self

    def token(self, at: float, choice: int = 0) -> Self:
        return self.events(at, StreamEvent(output=(choice,)))

    def usage(self, at: float, **counts: int) -> Self:
        return self.events(at, StreamEvent(usage=Usage(**counts)))

    def paused(self, at: float) -> Self:
        self.timeline.paused(START + at)
        return self

    def resumed(self, at: float) -> Self:
        self.timeline.resumed(START + at)
        return self

    def end(self, at: float, flushed: float | None = None) -> Self:
        self.timeline.ended(START + at)
        self.timeline.flushed_at = START + (at if flushed is None else flushed)
        return self

    def ledger(
        self,
        queue: float | None = None,
        prefill: float | None = None,
        decode: float | None = None,
        *,
        streaming: bool = True,
        reason: Reason = Reason.IN_BAND,
    ) -> Ledger:
        """The ledger with this report; without any number there is no report."""
        report = None if queue is prefill is decode is None else EngineReport(queue, prefill, decode)
        ledger = close_ledger(self.timeline.marks(), streaming=streaming, report=report, reason=reason)
        assert ledger is not None
        return ledger


def phases(ledger: Ledger) -> dict[str, tuple[float, str]]:
    """Phase to (milliseconds, source): milliseconds, because that is how a person reads a ledger."""
    return {share.phase.value: (round(share.seconds * 1000, 6), share.source.value) for share in ledger.shares}
