"""The timings of the last requests that were slow or failed: a bounded ring, filled when accounts close.

A slow request missed an objective, by the same verdict that the counters use. A failed request has an outcome for which
the server side is responsible. Keeps numbers and words of closed sets. Refuses to keep an account itself: its notes
contain a path and header fields, which readers of the page must not see.
"""

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from sidecar.ledger.account import Account, Phase
from sidecar.ledger.request_labels import RequestLabels
from sidecar.logs.request_line import SPOILED
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.timeline.outcome import Outcome, Stage


KEPT = 100


class RecentFailure(NamedTuple):
    """One slow or failed request. Durations in seconds; None or absent: unknown."""

    ended_at: float
    """Instant at which its account closed, on the monotonic clock."""
    labels: RequestLabels
    streaming: bool
    outcome: Outcome
    cancelled_in: Stage | None
    missed: Mapping[Objective, Blame]
    """Objective to the phase that this request votes for. Empty: it failed, and missed no objective."""
    whole_seconds: float | None
    """From the last byte of the request body to the last byte of the response, or to another end of the request."""
    ttft_seconds: float | None
    phases: Mapping[Phase, float]
    """The ledger, phase to seconds; empty without a ledger, because the request did not end well."""
    estimated: bool
    """The ledger contains estimated phases."""
    completion_tokens: int | None
    error: str
    """The sidecar's reason for the failure, from a closed set; else empty."""
    status: str
    """The HTTP status if there was one; else empty."""


class RecentFailures:
    """The last `KEPT` slow or failed requests of one process. `clock`: monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ring: deque[RecentFailure] = deque(maxlen=KEPT)
        self._last: Hashable = None

    def __len__(self) -> int:
        return len(self._ring)

    def latest(self) -> list[RecentFailure]:
        """All kept requests, latest first."""
        return list(reversed(self._ring))

    def missed(self, account: Account, votes: Mapping[Objective, Blame]) -> None:
        self._last = account.key
        self._ring.append(recent_failure(account, votes, self._clock()))

    def closed(self, account: Account) -> None:
        """Keep a failed request when its account closes, unless `missed` was called for it just before."""
        if account.outcome in SPOILED and (account.key is None or account.key is not self._last):
            self._ring.append(recent_failure(account, {}, self._clock()))


def recent_failure(account: Account, votes: Mapping[Objective, Blame], at: float) -> RecentFailure:
    ledger, usage = account.ledger, account.marks.usage
    return RecentFailure(
        ended_at=at,
        labels=account.labels,
        streaming=account.streaming,
        outcome=account.outcome,
        cancelled_in=account.cancelled_in,
        missed=dict(votes),
        whole_seconds=account.whole_seconds(at),
        ttft_seconds=account.ttft_seconds,
        phases={} if ledger is None else {share.phase: share.seconds for share in ledger.shares},
        estimated=ledger is not None and ledger.source == "estimated",
        completion_tokens=None if usage is None else usage.completion_tokens,
        error=account.notes.get("error", ""),
        status=account.notes.get("status", ""),
    )
