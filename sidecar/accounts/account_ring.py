"""The ring of closed accounts: one row of bytes for each request that ended, the oldest overwritten when it is full.

Filled once per closed account (`observe/settlement.py`). Its readers are the question for the slowest requests (`slowest.py`) and
the export (`workload_lines.py`); both read in slices, while rows are overwritten. The rows lie in one private mapping of memory that
the kernel fills page by page: a quiet pod holds the rows that it has, and not the whole ring. Pure: no clock, no file. It refuses
to keep an account itself, whose notes contain a path and header fields.
"""

from collections.abc import Iterator, Sequence
from math import nan
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct
from typing import Any

from sidecar.accounts.account_row import (
    MISSED,
    NO_REASON,
    NO_SECONDS,
    NUMBER_OF_OUTCOME,
    NUMBER_OF_REASON,
    ONE_CHOICE,
    PLACE_OF,
    ROW,
    STREAMED,
    UNKNOWN_TOKENS,
    AccountRow,
    row_of,
)
from sidecar.ledger.account import Account
from sidecar.ledger.request_labels import OTHER
from sidecar.objectives.objective import Objective
from sidecar.timeline.events import NO_USAGE


LANES_IN_ROW = 1 << 16
MODELS_IN_ROW = 1 << 8
_EVERY_PHASE = slice(None)


class _Names:
    """Names in the order in which they came, at most `most`; a name beyond that is the first one, `other`."""

    def __init__(self, most: int) -> None:
        self.names = [OTHER]
        self.number = {OTHER: 0}
        self._most = most

    def add(self, name: str) -> int:
        if len(self.names) == self._most:
            return 0
        self.number[name] = number = len(self.names)
        self.names.append(name)
        return number


class AccountRing:
    """The ring of one process. `began_at`: the instant from which on it is filled."""

    def __init__(self, most_bytes: int, began_at: float = 0.0) -> None:
        """`most_bytes`: memory for rows; less than one row keeps none."""
        self.capacity = most_bytes // ROW.size
        """Rows that it keeps at most."""
        self.closed = 0
        """Accounts closed since the start. They are numbered from 0 on; the last `capacity` of them are kept."""
        self.rows = mmap(-1, max(1, self.capacity) * ROW.size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        self._lanes, self._models = _Names(LANES_IN_ROW), _Names(MODELS_IN_ROW)
        self._began_at = began_at
        self._offset = 0
        self._end = self.capacity * ROW.size
        self._phases = [*NO_SECONDS]
        """The seconds of the row that is being written: one list for all rows, because a request may take few allocations."""

    def __len__(self) -> int:
        """Rows that are kept now."""
        return min(self.closed, self.capacity)

    @property
    def first(self) -> int:
        """Number of the oldest account that is kept."""
        return max(0, self.closed - self.capacity)

    @property
    def used_bytes(self) -> int:
        return len(self) * ROW.size

    @property
    def lanes(self) -> list[str]:
        """Names of lanes by their number in a row."""
        return self._lanes.names

    @property
    def since_at(self) -> float:
        """Instant since which every closed account is kept: the start, or the end of the oldest request that is kept."""
        if self.closed <= self.capacity:
            return self._began_at
        oldest = self.row(self.first)
        return oldest.arrived_at + (oldest.whole_seconds or 0.0)

    def offset_of(self, number: int) -> int:
        """The first byte of the row of this number, which must be kept."""
        return number % self.capacity * ROW.size

    def row(self, number: int) -> AccountRow:
        """The account of this number. Raises LookupError where it is not kept."""
        if not self.first <= number < self.closed:
            raise LookupError(f"account {number} is not kept")
        return row_of(self.rows, self.offset_of(number), self._lanes.names, self._models.names)

    def read(self, first: int, last: int, layout: Struct) -> Iterator[tuple[Any, ...]]:
        """The rows of the accounts from `first` on, as `layout` reads a row: all before `last`, or up to where the memory ends.

        All of them must be kept. Take them before the loop goes on, because later accounts overwrite them.
        """
        begin = self.offset_of(first)
        end = min(self._end, begin + (last - first) * ROW.size)
        return layout.iter_unpack(memoryview(self.rows)[begin:end])  # in order: all rows from `first` on are kept

    def add(self, account: Account, at: float, missed: Sequence[Objective]) -> None:
        """Keep a closed account. `at`: now, which is the end of a request without a ledger; `missed`: its missed objectives.

        A number of tokens that no field holds, which is 2^32 and more, is unknown.
        """
        if not self.capacity:
            return
        marks, labels, ledger, usage = account.marks, account.labels, account.ledger, account.marks.usage
        received_at, first_at, last_at = marks.received_at, marks.first_token_at, marks.last_token_at
        if ledger is None:
            phases, reason = NO_SECONDS, NO_REASON
            whole, ttft = account.whole_seconds(at), account.ttft_seconds
        else:
            phases, reason = self._phases, NUMBER_OF_REASON[ledger.reason]
            whole, ttft = ledger.e2e_seconds, ledger.ttft_seconds
            self._phases[_EVERY_PHASE] = NO_SECONDS
            for share in ledger.shares:
                self._phases[PLACE_OF[share.phase]] = share.seconds
        flags = STREAMED if account.streaming else 0
        if marks.choices == 1:
            flags |= ONE_CHOICE
        for objective in missed:
            flags |= MISSED[objective]
        queue, prefill, first_token, unattributed, decode, stream = phases
        prompt, cached, completion, _ = NO_USAGE if usage is None else usage
        lane, model = self._lanes.number.get(labels.lane), self._models.number.get(labels.model)
        ROW.pack_into(
            self.rows,
            self._offset,
            marks.accepted_at if received_at is None else received_at,
            queue,
            prefill,
            first_token,
            unattributed,
            decode,
            stream,
            nan if ttft is None else ttft,
            nan if whole is None else whole,
            nan if first_at is None or last_at is None else last_at - first_at,
            UNKNOWN_TOKENS if prompt is None or prompt > UNKNOWN_TOKENS else prompt,
            UNKNOWN_TOKENS if cached is None or cached > UNKNOWN_TOKENS else cached,
            UNKNOWN_TOKENS if completion is None or completion > UNKNOWN_TOKENS else completion,
            self._lanes.add(labels.lane) if lane is None else lane,
            self._models.add(labels.model) if model is None else model,
            NUMBER_OF_OUTCOME[account.outcome],
            flags,
            reason,
        )
        self.closed += 1
        self._offset += ROW.size
        if self._offset == self._end:
            self._offset = 0
