"""Compares the sidecar's counts with the engine's own: the share of traffic that passes here, and the sums of phases. Pure.

Both sides are taken when the engine's page is read, and their growth is compared over a sliding window. A request may have
ended at the engine and not yet here, or the other way round. So there is no ratio until the window holds many more requests
than were in flight at its edges. It names no cause: a ratio below 1 also comes from APIs that the sidecar does not measure
(embeddings), and from answers that were complete at the engine and never reached their client.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.engines.probe.state import Growth
from sidecar.engines.probe.state_names import Count
from sidecar.ledger.account import Account, Phase, Source
from sidecar.timeline.outcome import Outcome


WINDOW_SECONDS = 600.0
MIN_REQUESTS = 100
"""Fewest requests of the engine in the window: with fewer, requests at its edges outweigh those within."""
MIN_PER_EDGE = 4
"""Requests in the window for each one in flight at an edge."""
MIN_SECONDS = 0.1
"""Least seconds of a phase in the window: sums of microseconds are noise."""

COUNTED_PHASES = {
    Phase.QUEUE: Count.QUEUE_SECONDS,
    Phase.PREFILL: Count.PREFILL_SECONDS,
    Phase.DECODE: Count.DECODE_SECONDS,
}


class Tally:
    """The sidecar's counts since the process began."""

    def __init__(self) -> None:
        self.counts: dict[Count, float] = dict.fromkeys((Count.REQUESTS, *COUNTED_PHASES.values()), 0.0)

    def closed(self, account: Account) -> None:
        """One request is settled. The engine counts each choice as a request."""
        if account.outcome is not Outcome.OK or account.ledger is None:
            return
        self.counts[Count.REQUESTS] += max(1, account.marks.choices)
        for share in account.ledger.shares:
            if share.source is Source.ENGINE and share.phase in COUNTED_PHASES:
                # Output held back on its way was decode to the engine; the ledger has it in stream.
                held = account.ledger.held_seconds if share.phase is Phase.DECODE else 0.0
                self.counts[COUNTED_PHASES[share.phase]] += share.seconds + held

    def probe_done(self) -> None:
        """A probe of `sidecar verify` ended well: it passed here, so that the engine's count of it is no sign of another way."""
        self.counts[Count.REQUESTS] += 1


@dataclass(frozen=True, slots=True)
class Ratios:
    """The ratios now; None, or a phase is absent, if the window holds too little."""

    traffic_seen: float | None = None
    """Requests with outcome ok here over requests that the engine counted."""
    agreement: Mapping[Phase, float] = field(default_factory=dict)
    """Seconds of a phase in the engine's reports on requests here, over seconds in its own sums."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    at: float
    ours: Mapping[Count, float]
    theirs: Mapping[Count, float]
    in_flight: int


class Agreement:
    """Compares a `Tally` with the growth of an engine's counters."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._theirs: dict[Count, float] = {}
        self._window: deque[_Snapshot] = deque()

    def read(self, growth: Growth, at: float, in_flight: int) -> Ratios:
        """Called after each good reading of the engine's page, with the number of requests in flight here then."""
        compared = {count: grown for count, grown in growth.counters.items() if count in self._tally.counts}
        # Counts between a process's last reading and its end are unknown, and so are counts that a page left out for a while.
        if growth.restarted or compared.keys() != self._theirs.keys():
            self._window.clear()
            self._theirs = dict.fromkeys(compared, 0.0)
        else:
            self._theirs = {count: self._theirs[count] + grown for count, grown in compared.items()}
        self._window.append(_Snapshot(at, dict(self._tally.counts), self._theirs, in_flight))
        # One snapshot older than the window stays, so that it is never shorter than it should be.
        while len(self._window) > 2 and self._window[1].at <= at - WINDOW_SECONDS:
            self._window.popleft()
        return self._compare(self._window[0], self._window[-1])

    def _compare(self, first: _Snapshot, last: _Snapshot) -> Ratios:
        theirs = {count: last.theirs[count] - first.theirs[count] for count in last.theirs}
        ours = {count: last.ours[count] - first.ours[count] for count in last.ours}
        requests = theirs.get(Count.REQUESTS, ours[Count.REQUESTS])
        if requests < max(MIN_REQUESTS, MIN_PER_EDGE * max(first.in_flight, last.in_flight)):
            return Ratios()
        return Ratios(
            traffic_seen=ours[Count.REQUESTS] / requests if Count.REQUESTS in theirs else None,
            agreement={
                phase: ours[count] / theirs[count]
                for phase, count in COUNTED_PHASES.items()
                # Without a reported second there is no disagreement: no request has a report.
                if theirs.get(count, 0.0) >= MIN_SECONDS and ours[count] > 0
            },
        )
