"""Ledgers that wait for the engine's word: each is settled exactly once, whatever comes first."""

from sidecar.ledger.account import Reason
from sidecar.ledger.pending import PendingLedgers
from sidecar.ledger.report import EngineReport


REPORT = EngineReport(0.1, 0.2, 0.3)


class Table:
    """A table, and what it settled."""

    def __init__(self, max_entries: int = 10) -> None:
        self.settled: list[tuple[str, EngineReport | None, Reason]] = []
        self.pending: PendingLedgers[str] = PendingLedgers(
            lambda entry, report, reason: self.settled.append((entry, report, reason)),
            wait_seconds=5,
            max_entries=max_entries,
        )


def test_a_report_that_comes_in_time_settles_its_request_and_no_other() -> None:
    """Seconds after the stream, by the key that only that request has."""
    table = Table()
    table.pending.open("a", "first", at=0)
    table.pending.open("b", "second", at=1)

    assert table.pending.report("b", REPORT)

    assert table.settled == [("second", REPORT, Reason.LATE_REPORT)]
    assert len(table.pending) == 1


def test_a_report_for_nobody_or_told_twice_joins_nothing() -> None:
    """The caller counts it; no other request is touched."""
    table = Table()
    table.pending.open("a", "first", at=0)
    table.pending.report("a", REPORT)

    assert not table.pending.report("a", REPORT)
    assert not table.pending.report("never seen", REPORT)
    assert len(table.settled) == 1


def test_after_the_deadline_nobody_waits() -> None:
    """What is due is settled without a report, in order; what is not due waits on."""
    table = Table()
    table.pending.open("a", "first", at=0)
    table.pending.open("b", "second", at=3)

    table.pending.expire(at=5)

    assert table.settled == [("first", None, Reason.NO_REPORT)]
    assert not table.pending.report("a", REPORT)
    assert table.pending.report("b", REPORT)


def test_the_table_is_bounded_and_the_oldest_goes_first() -> None:
    """Memory does not depend on an engine that never reports."""
    table = Table(max_entries=2)
    for number in range(4):
        table.pending.open(number, str(number), at=number)

    assert table.settled == [("0", None, Reason.TABLE_FULL), ("1", None, Reason.TABLE_FULL)]
    assert len(table.pending) == 2


def test_a_key_used_again_settles_the_request_that_had_it() -> None:
    """Ids may be reused: the older request gets no report rather than the wrong one."""
    table = Table()
    table.pending.open("a", "first", at=0)
    table.pending.open("a", "second", at=1)
    table.pending.report("a", REPORT)

    assert table.settled == [("first", None, Reason.NO_REPORT), ("second", REPORT, Reason.LATE_REPORT)]


def test_at_the_end_everything_is_settled() -> None:
    """Before the last scrape."""
    table = Table()
    table.pending.open("a", "first", at=0)
    table.pending.open("b", "second", at=1)

    table.pending.close_all(Reason.SHUTDOWN)

    assert table.settled == [("first", None, Reason.SHUTDOWN), ("second", None, Reason.SHUTDOWN)]
    assert len(table.pending) == 0
