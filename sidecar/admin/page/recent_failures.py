"""The last requests that were slow or failed, as timings: a bounded ring, fed where accounts close.

Slow means that an objective was missed, by the verdict that the counters have; failed, that the server side is to answer
for the outcome. Keeps numbers and words of closed sets. Refuses to keep an account itself: its notes have a path and header
fields, which are nobody's business who looks at a page.
"""

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from sidecar.ledger.account import Account, Phase
from sidecar.ledger.request_labels import RequestLabels
from sidecar.logs.request_line import SPOILED
from sidecar.slo.attribution import Blame
from sidecar.slo.objective import Objective
from sidecar.timeline.outcome import Outcome, Stage


KEPT = 100


@dataclass(frozen=True, slots=True)
class Trouble:
    """One request. Durations in seconds; None and absent: nobody knows."""

    ended_at: float
    """When its account closed, on the monotonic clock."""
    labels: RequestLabels
    streaming: bool
    outcome: Outcome
    cancelled_in: Stage | None
    missed: Mapping[Objective, Blame]
    """Objective to the phase that this request votes for. Empty: it failed, and nothing was promised."""
    whole_seconds: float | None
    """From the body's last byte to the answer's, or to the end that it had instead."""
    ttft_seconds: float | None
    phases: Mapping[Phase, float]
    """The ledger; empty where it has none, because it did not end well."""
    estimated: bool
    """Some of it is an estimate."""
    output_events: int
    prompt_tokens: int | None
    completion_tokens: int | None
    error: str
    """The sidecar's own word for the failure, from a closed set; else empty."""
    status: str
    """The HTTP status where there was one; else empty."""


class Troubles:
    """One process's last `KEPT`. `clock`: monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ring: deque[Trouble] = deque(maxlen=KEPT)
        self._last: Hashable = None

    def __len__(self) -> int:
        return len(self._ring)

    def latest(self) -> list[Trouble]:
        """Latest first."""
        return list(reversed(self._ring))

    def missed(self, account: Account, votes: Mapping[Objective, Blame]) -> None:
        """It missed what was promised, and has voted."""
        self._last = account.key
        self._ring.append(trouble(account, votes, self._clock()))

    def closed(self, account: Account) -> None:
        """An account is closed, and if it missed anything, `missed` was told just before."""
        if account.outcome in SPOILED and (account.key is None or account.key is not self._last):
            self._ring.append(trouble(account, {}, self._clock()))


def trouble(account: Account, votes: Mapping[Objective, Blame], at: float) -> Trouble:
    """What is kept of one account."""
    marks, ledger, usage = account.marks, account.ledger, account.marks.usage
    ttft = None if ledger is None else ledger.ttft_seconds
    if ttft is None and account.streaming and marks.first_token_at is not None and marks.received_at is not None:
        ttft = marks.first_token_at - marks.received_at
    return Trouble(
        ended_at=at,
        labels=account.labels,
        streaming=account.streaming,
        outcome=account.outcome,
        cancelled_in=account.cancelled_in,
        missed=dict(votes),
        whole_seconds=_whole(account, at),
        ttft_seconds=ttft,
        phases={} if ledger is None else {share.phase: share.seconds for share in ledger.shares},
        estimated=ledger is not None and ledger.source == "estimated",
        output_events=marks.output_events,
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        completion_tokens=None if usage is None else usage.completion_tokens,
        error=account.notes.get("error", ""),
        status=account.notes.get("status", ""),
    )


def _whole(account: Account, at: float) -> float | None:
    """Without a ledger an account closes at once: what was waited until then."""
    if account.ledger is not None:
        return account.ledger.e2e_seconds
    received_at = account.marks.received_at
    return None if received_at is None else max(0.0, at - received_at)
