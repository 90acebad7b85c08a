"""Compares the sidecar's counts with the engine's own: the share of traffic that passes here, and the sums of phases. Pure.

Both sides are taken when the engine's page is read, and their growth is compared over a sliding window. A request may have
ended at the engine and not yet here, or the other way round. So there is no ratio until the window holds many more requests
than were in flight at its edges. It names no cause: a share of traffic below 1 also comes from APIs that the sidecar does not measure
(embeddings), and from answers that were complete at the engine and never reached their client.

The engine's sums hold all requests, and not all have a report: those of some APIs have none, nor those of several choices or prompts, of
which the engine counts each. What these took is not known, but bounded by their times on the wire. So the seconds that were
reported are compared with the interval that is left of the engine's sum without them: outside it they disagree.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.engines.probe.state import Growth
from sidecar.engines.probe.state_names import Count
from sidecar.ledger.account import Account, Phase, Source
from sidecar.timeline.outcome import ENDED_WELL


WINDOW_SECONDS = 600.0
MIN_REQUESTS = 100
"""Fewest requests of the engine in the window: with fewer, requests at its edges outweigh those within."""
MIN_PER_EDGE = 4
"""Requests in the window for each one in flight at an edge."""
MIN_SECONDS = 0.1
"""Least seconds of a phase in the window: sums of microseconds are noise."""
MOST_OPEN = 0.5
"""Share of the engine's sum that requests without a report may have taken, above which one that is within the interval says nothing."""

COUNTED_PHASES = {
    Phase.QUEUE: Count.QUEUE_SECONDS,
    Phase.PREFILL: Count.PREFILL_SECONDS,
    Phase.DECODE: Count.DECODE_SECONDS,
}
_DECODED, _REQUESTS, _BY_REPORT = Phase.DECODE, Count.REQUESTS, Source.ENGINE
"""The members themselves, for each request: CPython 3.11 takes ten times as long to find them by name."""


class Tally:
    """The sidecar's counts since the process began."""

    def __init__(self) -> None:
        self.counts: dict[Count, float] = dict.fromkeys((Count.REQUESTS, *COUNTED_PHASES.values()), 0.0)
        self.unreported: dict[Phase, float] = dict.fromkeys(COUNTED_PHASES, 0.0)
        """The most seconds of each phase that requests, and choices, took on which the engine reported none."""

    def closed(self, account: Account) -> None:
        """One request is settled. The engine counts each choice as a request, and may have counted one that did not end well."""
        ledger, choices, told = account.ledger, account.marks.choices or 1, 0
        if account.outcome is ENDED_WELL and ledger is not None:
            self.counts[_REQUESTS] += choices
            for share in ledger.shares:
                if share.source is _BY_REPORT and (count := COUNTED_PHASES.get(share.phase)) is not None:
                    # Output held back on its way was decode to the engine; the ledger has it in stream.
                    held = ledger.held_seconds if share.phase is _DECODED else 0.0
                    self.counts[count] += share.seconds + held
                    told += 1
        if told < len(COUNTED_PHASES) or choices > 1:
            self._leave_open(account, choices, told)

    def _leave_open(self, account: Account, choices: int, told: int) -> None:
        marks, ledger, ttft = account.marks, account.ledger, account.ttft_seconds
        if ledger is not None:
            whole = ledger.e2e_seconds
        elif marks.received_at is not None:
            whole = max(marks.last_token_at or 0.0, marks.ended_at or 0.0, marks.received_at) - marks.received_at
        else:
            return
        before, unreported = choices * (whole if ttft is None else ttft), self.unreported
        for phase in unreported:
            unreported[phase] += choices * whole if phase is _DECODED else before
        if told and ledger is not None:
            for share in ledger.shares:
                if share.source is _BY_REPORT and share.phase in unreported:
                    unreported[share.phase] -= (before if share.phase is not _DECODED else choices * whole) / choices

    def probe_done(self) -> None:
        """A probe of `sidecar verify` ended well: it passed here, so that the engine's count of it is no sign of another way."""
        self.counts[Count.REQUESTS] += 1


@dataclass(frozen=True, slots=True)
class Ratios:
    """The ratios now; None, or a phase is absent, if the window holds too little."""

    traffic_seen: float | None = None
    """Requests with outcome ok here over requests that the engine counted."""
    agreement: Mapping[Phase, float] = field(default_factory=dict)
    """Seconds of a phase in the engine's reports on requests here, over the nearest seconds that its own sums leave for these requests."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    at: float
    ours: Mapping[Count, float]
    unreported: Mapping[Phase, float]
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
        self._window.append(
            _Snapshot(at, dict(self._tally.counts), dict(self._tally.unreported), self._theirs, in_flight)
        )
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
        agreement = {}
        for phase, count in COUNTED_PHASES.items():
            # Without a reported second there is no disagreement: no request has a report.
            if theirs.get(count, 0.0) >= MIN_SECONDS and ours[count] > 0:
                ratio = _nearest(ours[count], theirs[count], last.unreported[phase] - first.unreported[phase])
                if ratio is not None:
                    agreement[phase] = ratio
        return Ratios(ours[Count.REQUESTS] / requests if Count.REQUESTS in theirs else None, agreement)


def _nearest(reported: float, counted: float, unreported: float) -> float | None:
    """The seconds that were reported over the nearest that may be right: all that the engine `counted`, or as much less as those
    without a report took, at most `unreported`. None where that is too much to tell.
    """
    least = max(0.0, counted - unreported)
    if reported > counted:
        return reported / counted
    if reported < least:
        return reported / least
    return 1.0 if unreported <= MOST_OPEN * counted else None
