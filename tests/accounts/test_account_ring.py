"""Closed accounts are kept as rows of bytes: the last ones, in a fixed memory, and nothing that was unknown becomes 0."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.accounts.account_ring import AccountRing
from sidecar.accounts.account_row import ROW, AccountRow
from sidecar.budgets.budgets import ACCOUNTS_BYTES
from sidecar.ledger.account import Account, Phase, Reason
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import OTHER, RequestLabels
from sidecar.objectives.objective import Objective
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome


MARKS = Marks(
    accepted_at=9.0,
    received_at=10.0,
    first_token_at=13.0,
    last_token_at=15.0,
    ended_at=15.0,
    flushed_at=15.5,
    output_events=9,
    choices=1,
    usage=Usage(700, 512, 9),
)
REPORT = EngineReport(2.0, 0.75, 2.0)


def account(marks: Marks = MARKS, *, lane: str = "chat", report: EngineReport | None = REPORT) -> Account:
    return Account(
        labels=RequestLabels("llama", lane, "512-4k"),
        streaming=True,
        outcome=Outcome.OK,
        marks=marks,
        ledger=close_ledger(marks, streaming=True, report=report),
    )


def ring_of(rows: int) -> AccountRing:
    return AccountRing(rows * ROW.size)


def test_a_row_has_no_phase_of_the_row_before() -> None:
    """All rows are written through one list. What a request without a report does not know stays unknown behind one with a report."""
    alone, behind = ring_of(1), ring_of(2)
    alone.add(account(report=None), 16.0, ())

    behind.add(account(), 16.0, ())
    behind.add(account(report=None), 16.0, ())

    assert Phase.PREFILL in behind.row(0).phases
    assert Phase.PREFILL not in behind.row(1).phases
    assert behind.row(1) == alone.row(0)


def test_a_row_says_what_the_account_said() -> None:
    ring = ring_of(3)

    ring.add(account(), 16.0, (Objective.TTFT,))

    assert ring.row(0) == AccountRow(
        arrived_at=10.0,
        lane="chat",
        model="llama",
        streaming=True,
        outcome=Outcome.OK,
        phases={
            Phase.QUEUE: 2.0,
            Phase.PREFILL: 0.75,
            Phase.FIRST_TOKEN: 0.25,
            Phase.DECODE: 2.0,
            Phase.STREAM: 0.5,
        },
        reason=Reason.IN_BAND,
        whole_seconds=5.5,
        ttft_seconds=3.0,
        output_seconds=2.0,
        prompt_tokens=700,
        cached_tokens=512,
        completion_tokens=9,
        missed=(Objective.TTFT,),
    )


def test_what_is_unknown_stays_unknown() -> None:
    """A request that the engine failed before a token has no phases, and tokens that no usage states are no zeros."""
    failed = Account(
        labels=RequestLabels("llama", "chat", "unknown"),
        streaming=False,
        outcome=Outcome.ENGINE_ERROR,
        marks=Marks(accepted_at=9.0, received_at=10.0),
        ledger=None,
    )
    ring = ring_of(3)

    ring.add(failed, 12.0, ())
    ring.add(replace(failed, marks=Marks(accepted_at=9.0), outcome=Outcome.CLIENT_CANCELLED), 12.0, ())
    ring.add(account(replace(MARKS, usage=Usage(completion_tokens=0), choices=2), report=None), 12.0, ())

    error, cancelled, unsplit = (ring.row(number) for number in range(3))
    assert error == AccountRow(
        10.0, "chat", "llama", False, Outcome.ENGINE_ERROR, {}, None, 2.0, None, None, None, None, None, ()
    )
    assert (cancelled.arrived_at, cancelled.whole_seconds) == (9.0, None)
    assert (set(unsplit.phases), unsplit.reason) == ({Phase.UNATTRIBUTED, Phase.DECODE, Phase.STREAM}, Reason.NO_REPORT)
    assert (unsplit.prompt_tokens, unsplit.cached_tokens, unsplit.completion_tokens) == (None, None, 0)
    assert unsplit.output_seconds is None, "tokens of two choices do not come one after the other"


@given(st.integers(1, 7), st.integers(0, 40))
def test_the_last_ones_are_kept(capacity: int, closed: int) -> None:
    """For any number of accounts, the ring holds the last ones in their order, and says since when it holds all."""
    ring = AccountRing(capacity * ROW.size, began_at=1.0)

    for number in range(closed):
        ring.add(account(replace(MARKS, received_at=10.0 + number / 64)), 16.0, ())

    kept = range(max(0, closed - capacity), closed)
    assert (len(ring), ring.first, ring.used_bytes) == (len(kept), kept.start, len(kept) * ROW.size)
    assert [ring.row(number).arrived_at for number in kept] == [10.0 + number / 64 for number in kept]
    assert ring.since_at == (1.0 if closed <= capacity else 15.5)
    for gone in (kept.start - 1, closed):
        with pytest.raises(LookupError):
            ring.row(gone)


def test_a_ring_without_memory_keeps_nothing() -> None:
    ring = AccountRing(ROW.size - 1)

    ring.add(account(), 16.0, ())

    assert (len(ring), ring.closed, ring.used_bytes, ring.first) == (0, 0, 0, 0)


def test_a_row_is_small_enough_for_a_quarter_of_a_million_requests() -> None:
    assert ROW.size <= 64
    assert AccountRing(ACCOUNTS_BYTES).capacity >= 250_000


def test_a_lane_beyond_the_table_is_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reload may bring new lanes, and a row has one number for its lane."""
    monkeypatch.setattr("sidecar.accounts.account_ring.LANES_IN_ROW", 3)
    ring = ring_of(9)

    for lane in ("chat", "batch", "code", "chat", "voice"):
        ring.add(account(lane=lane), 16.0, ())

    assert [ring.row(number).lane for number in range(5)] == ["chat", "batch", OTHER, "chat", OTHER]


def test_a_number_of_tokens_that_no_field_holds_is_unknown() -> None:
    """An engine may state any number; the row that was there before is overwritten whole."""
    ring = ring_of(1)
    ring.add(account(), 16.0, ())

    ring.add(account(replace(MARKS, usage=Usage(1 << 53, (1 << 32) - 1, (1 << 32) - 2))), 16.0, ())

    kept = ring.row(1)
    assert (kept.prompt_tokens, kept.cached_tokens, kept.completion_tokens) == (None, None, (1 << 32) - 2)
