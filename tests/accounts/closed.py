"""Closed accounts with known phases, and a ring of them, for tests of what is read from the ring."""

from collections.abc import Sequence

from sidecar.accounts.account_ring import AccountRing
from sidecar.accounts.account_row import ROW
from sidecar.ledger.account import Account
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import RequestLabels
from sidecar.objectives.objective import Objective
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome


def streamed(
    queue: float, *, gap: float = 0.25, lane: str = "chat", tokens: int = 9, held: float = 0.0, split: bool = True
) -> Account:
    """A stream that waited `queue` seconds, then 0.5 s for its prefill and 0.25 s more, then had a token every `gap` seconds."""
    first, decode = queue + 0.75 + held, gap * (tokens - 1)
    marks = Marks(
        accepted_at=0.0,
        received_at=0.0,
        first_token_at=first,
        last_token_at=first + decode,
        ended_at=first + decode,
        flushed_at=first + decode,
        output_events=tokens,
        choices=1,
        usage=Usage(700, 512, tokens),
    )
    report = EngineReport(queue, 0.5, decode + held) if split else None
    ledger = close_ledger(marks, streaming=True, report=report)
    return Account(RequestLabels("llama", lane, "512-4k"), True, Outcome.OK, marks, ledger)


def whole(seconds: float, *, lane: str = "chat") -> Account:
    marks = Marks(accepted_at=0.0, received_at=0.0, ended_at=seconds, flushed_at=seconds)
    ledger = close_ledger(marks, streaming=False, report=EngineReport(seconds / 2, None, None))
    return Account(RequestLabels("llama", lane, "unknown"), False, Outcome.OK, marks, ledger)


def ring_of(accounts: Sequence[Account], rows: int = 5000) -> AccountRing:
    ring = AccountRing(rows * ROW.size)
    for account in accounts:
        ring.add(account, 10.0, (Objective.TTFT,) if account.streaming else ())
    return ring
