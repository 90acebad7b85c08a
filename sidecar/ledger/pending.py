"""Requests that have ended and whose phases still wait for the engine's word: a bounded table with a deadline.

Pure: time is an argument, and what a settled request means is the caller's. Each opened entry is settled exactly once:
by its report, by its deadline, by the table's bound (the oldest goes first) or by the end of the process.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sidecar.ledger.account import Reason
from sidecar.ledger.report import EngineReport


E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class _Open(Generic[E]):
    entry: E
    due_at: float


class PendingLedgers(Generic[E]):
    """Entries by key, in the order in which they were opened."""

    def __init__(
        self, settle: Callable[[E, EngineReport | None, Reason], None], *, wait_seconds: float, max_entries: int = 4096
    ) -> None:
        """`settle` is told each entry once, with its report, or with None and why there is none."""
        self._settle = settle
        self._wait_seconds = wait_seconds
        self._max_entries = max_entries
        self._open: dict[Hashable, _Open[E]] = {}

    def __len__(self) -> int:
        """How many wait."""
        return len(self._open)

    def keys(self) -> tuple[Hashable, ...]:
        """Who waits, oldest first."""
        return tuple(self._open)

    def open(self, key: Hashable, entry: E, at: float) -> None:
        """Wait for the report on this request. A key that is open already settles its older entry unreported."""
        self._close(key, Reason.NO_REPORT)
        while len(self._open) >= self._max_entries:
            self._close(next(iter(self._open)), Reason.TABLE_FULL)
        self._open[key] = _Open(entry, at + self._wait_seconds)

    def report(self, key: Hashable, report: EngineReport) -> bool:
        """The engine's word has come. False where nobody waits for it: unknown, too late, or told twice."""
        waiting = self._open.pop(key, None)
        if waiting is None:
            return False
        self._settle(waiting.entry, report, Reason.LATE_REPORT)
        return True

    def expire(self, at: float) -> None:
        """Settle everything whose deadline has passed."""
        while self._open:
            key, oldest = next(iter(self._open.items()))
            if oldest.due_at > at:
                return
            self._close(key, Reason.NO_REPORT)

    def close_all(self, reason: Reason) -> None:
        """Settle everything: the process ends."""
        while self._open:
            self._close(next(iter(self._open)), reason)

    def _close(self, key: Hashable, reason: Reason) -> None:
        waiting = self._open.pop(key, None)
        if waiting is not None:
            self._settle(waiting.entry, None, reason)
