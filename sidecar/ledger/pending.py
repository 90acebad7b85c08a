"""Joins requests that have ended with the engine's reports on them. Pure.

A request is known by keys that only it has: the response id in its stream, the span that the sidecar minted for it. A
report carries such keys too, and may come before the request has ended or seconds after. A trace id is weaker: an agent
sends many requests in one trace, so it is used only while a single request has claimed it, for as long as reports may
still come. It refuses to guess: never a wrong join. A key that two requests have joins neither; a report without a
request is kept for a while and then counted; a report that comes twice is used once.

Each opened request is settled exactly once: by its report, its deadline, the table's bound, or the end of the process.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Generic, TypeVar

from sidecar.ledger.account import Reason
from sidecar.ledger.claims import Claims
from sidecar.ledger.report import EngineReport, RequestKey, of_choices


E = TypeVar("E")
Whole = Callable[[E, Sequence[EngineReport], int, bool], EngineReport | None]
"""Makes one report of those that have come (at least one) on a request of so many parts; None to wait for others. The last argument is True if
no others are waited for."""
LONGEST_REQUEST_SECONDS = 3600.0
"""Seconds for which a claimed trace is remembered at least, in case its request never ends here."""
MAX_ENTRIES = 4096
"""Entries of each table: 4,096 requests that wait 10 s each are more than one replica serves."""


class Lost(StrEnum):
    """Why a report was dropped without a join: a closed set, a counter's label."""

    UNMATCHED = "report_unmatched"
    """No request with any of its keys ended before the report's deadline."""
    TWICE = "report_twice"
    """Its request was settled by an earlier report, or the same part waits already."""
    UNNEEDED = "report_unneeded"
    """Its request did not end well, and has no phases."""
    AMBIGUOUS = "report_ambiguous"
    """Several waiting requests have its keys."""
    EVICTED = "report_evicted"
    """The table was full."""


# States of a request, and what moves it on:
#
#   running    claim(trace) and expect(key). A report on an expected key waits as long as the request runs.
#   ended      ended(keys). Then exactly one of: settled_in_band() if the answer contained its report, ended_badly() if it failed,
#              open() if it must wait, or none of them (no report can come).
#   waiting    open(), unless its whole report is there already, which settles it at once. It leaves this state by
#                reported()   its reports are whole                   -> settled, LATE_REPORT
#                expire()     `wait_seconds` have passed              -> settled, NO_REPORT
#                open()       the table is full, it is the oldest     -> settled, TABLE_FULL
#                close_all()  the process ends                        -> settled, with the caller's reason
#              In the last three `whole` may still make a report of what has come: then LATE_REPORT.
#   used       for `wait_seconds` after settled_in_band() or a join its keys recognise a second report (TWICE), and after
#              ended_badly() any report (UNNEEDED).
#
# States of a report:
#
#   arrives    a key is used, or its part waits already               -> dropped, TWICE or UNNEEDED
#              several waiting requests have its keys                 -> dropped, AMBIGUOUS
#              it completes the report of one waiting request         -> joined
#   waiting    in all other cases. It leaves this state by
#                open() or reported()  its request waits and the report is whole -> joined
#                reported()   the table is full, it is the oldest     -> dropped, EVICTED
#                expire()     its request still runs, or waits        -> waits again, at least 1 s
#                expire()     otherwise                               -> dropped, UNMATCHED
#
# Why so strict: a missing join costs one request its split (`unattributed`). A wrong join puts wrong numbers into a
# ledger, casts a wrong vote, and cannot be seen afterwards. So every doubt ends in "no join": two requests with one
# key, a trace with a second claim, a trace with claims forgotten because the table was full.


@dataclass(slots=True)
class _Waiting(Generic[E]):
    """A waiting request (`content` is its entry) or a waiting report (`content` is the report)."""

    content: E
    keys: tuple[RequestKey, ...]
    trace: str | None
    due_at: float
    parts: int = 1
    """For a request: number of parts of its report."""
    ambiguous: bool = False
    """For a request: another one waited that had a key of it, so that a report which came before may be the other's."""
    part: str | None = None
    """For a report: key that distinguishes it from other reports on the same request."""


class _Table(Generic[E]):
    """Waiting requests or reports in the order of arrival, with an index by key.

    An engine may give one id to all its answers: what is asked for each request takes as long under a key that thousands have.
    """

    def __init__(self) -> None:
        self.waiting: OrderedDict[int, _Waiting[E]] = OrderedDict()
        self._by_key: dict[RequestKey | str | None, set[int]] = {}
        self._numbers = 0

    def add(self, waiting: _Waiting[E]) -> int:
        self._numbers += 1
        self.waiting[self._numbers] = waiting
        for key in (*waiting.keys, waiting.trace):
            self._by_key.setdefault(key, set()).add(self._numbers)
        return self._numbers

    def having(self, keys: Iterable[RequestKey | str]) -> set[int]:
        """Numbers of all entries that have any of these keys."""
        return set().union(*(self._by_key.get(key, ()) for key in keys))

    def has(self, keys: Iterable[RequestKey | str]) -> bool:
        """Whether an entry has any of these keys."""
        return any(key in self._by_key for key in keys)

    def first_two(self, keys: Iterable[RequestKey | str]) -> set[int]:
        """Numbers of entries that have any of these keys: of all if these are none, one or two, else of at least two of them."""
        return {number for key in keys for number in islice(self._by_key.get(key, ()), 2)}

    def mark_ambiguous(self, keys: Iterable[RequestKey | str]) -> bool:
        """Mark the entries that share one of these keys with the entry that was just added. Returns whether there are any.

        Where three or more share a key, all but the last to come are marked already.
        """
        shared = False
        for key in keys:
            numbers = self._by_key[key]
            if len(numbers) > 1:
                shared = True
                for number in numbers if len(numbers) == 2 else (self._numbers,):
                    self.waiting[number].ambiguous = True
        return shared

    def take(self, number: int) -> _Waiting[E]:
        waiting = self.waiting.pop(number)
        for key in (*waiting.keys, waiting.trace):
            numbers = self._by_key[key]
            numbers.discard(number)
            if not numbers:
                del self._by_key[key]
        return waiting

    def oldest(self) -> int:
        return next(iter(self.waiting))

    def due(self, at: float) -> list[int]:
        """Numbers of entries with a passed deadline. All wait equally long, so these are the first ones."""
        due = []
        for number, waiting in self.waiting.items():
            if waiting.due_at > at:
                break
            due.append(number)
        return due


def of_all_parts(_entry: object, reports: Sequence[EngineReport], parts: int, _last: bool) -> EngineReport | None:
    """The report on a request of several parts, once each of them has its own."""
    return of_choices(reports) if len(reports) == parts else None


class Pending(Generic[E]):
    """Both tables. `settle` is called once per request, with its report, or with None and the reason."""

    def __init__(
        self,
        settle: Callable[[E, EngineReport | None, Reason], None],
        lost: Callable[[Lost], None],
        *,
        wait_seconds: float,
        whole: Whole[E] = of_all_parts,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        self.wait_seconds = wait_seconds
        self._settle = settle
        self._lost = lost
        self._whole = whole
        self._max_entries = max_entries
        self.evicted = 0
        """Requests that were settled without a report because the table was full."""
        self._requests: _Table[E] = _Table()
        self._reports: _Table[EngineReport] = _Table()
        self._used: OrderedDict[RequestKey, float] = OrderedDict()
        """Key of a settled request to the instant until which a second report is recognised."""
        self._unneeded: OrderedDict[RequestKey, float] = OrderedDict()
        """The same of requests that did not end well."""
        self._claims = Claims(4 * max_entries, LONGEST_REQUEST_SECONDS)
        self._expected: OrderedDict[RequestKey, None] = OrderedDict()
        """Keys of requests that still run: a report on one of them waits until it ends."""

    def __len__(self) -> int:
        """Number of waiting requests."""
        return len(self._requests.waiting)

    # --- requests --------------------------------------------------------------------------------------------------------

    def claim(self, trace: str, at: float) -> None:
        """A request of this trace has begun. Call it for every request, or a shared trace looks unshared."""
        self._claims.claim(trace, at)

    def expect(self, key: RequestKey) -> None:
        """A request has begun that alone has this key: until it ends, reports on it are kept, however early they came.

        One choice may finish long before the others, and a slow client may read an answer long after the engine made
        it.
        """
        self._expected[key] = None
        if len(self._expected) > 4 * self._max_entries:
            self._expected.popitem(last=False)

    def ended(self, keys: Iterable[RequestKey]) -> None:
        """The request with these keys has ended, in any way. Call it before `open`."""
        for key in keys:
            self._expected.pop(key, None)

    def settled_in_band(self, keys: Iterable[RequestKey], at: float) -> None:
        """The request with these keys was settled by a report in its answer: one that came or comes is its second."""
        self._needs_none(tuple(keys), at, self._used, Lost.TWICE)

    def ended_badly(self, keys: Iterable[RequestKey], at: float) -> None:
        """The request with these keys did not end well, so that no report on it is used."""
        self._needs_none(tuple(keys), at, self._unneeded, Lost.UNNEEDED)

    def _needs_none(
        self, keys: tuple[RequestKey, ...], at: float, table: OrderedDict[RequestKey, float], lost: Lost
    ) -> None:
        self._remember(keys, at, table)
        for number in self._reports.having(keys) if self._reports.waiting else ():
            self._reports.take(number)
            self._lost(lost)

    def open(
        self, keys: Iterable[RequestKey], entry: E, at: float, trace: str | None = None, *, parts: int = 1
    ) -> None:
        """A request has ended and its phases wait for the engine's report; `keys` should be its own.

        `parts`: number of parts of its report (one per choice, with some engines).
        """
        keys = tuple(dict.fromkeys(keys))
        number = self._requests.add(_Waiting(entry, keys, trace, at + self.wait_seconds, parts=parts))
        if not self._requests.mark_ambiguous(keys) and self._try(number, at):
            return
        while len(self._requests.waiting) > self._max_entries:
            self._close(self._requests.oldest(), Reason.TABLE_FULL, at)
            self.evicted += 1

    # --- reports ---------------------------------------------------------------------------------------------------------

    def reported(
        self,
        keys: Iterable[RequestKey],
        report: EngineReport,
        at: float,
        trace: str | None = None,
        *,
        part: str | None = None,
    ) -> None:
        """A report came on the request that has these keys, or that alone has this trace.

        `part`: key that distinguishes it from other reports on the same request, if the engine sends one per choice.
        """
        keys = tuple(dict.fromkeys(keys))
        known_parts = (self._reports.waiting[number].part for number in self._reports.having(keys))
        if any(key in self._unneeded for key in keys):
            self._lost(Lost.UNNEEDED)
            return
        if any(key in self._used for key in keys) or part in known_parts:
            self._lost(Lost.TWICE)
            return
        waiting = _Waiting(report, keys, trace, at + self.wait_seconds, part=part)
        owners = self._requests.first_two(keys) or self._by_trace(self._requests, trace)
        if len(owners) > 1:
            self._lost(Lost.AMBIGUOUS)
            return
        self._reports.add(waiting)
        if owners and self._try(owners.pop(), at):
            return
        while len(self._reports.waiting) > self._max_entries:
            self._reports.take(self._reports.oldest())
            self._lost(Lost.EVICTED)

    def _try(self, number: int, at: float, *, last: bool = False) -> bool:
        """Settle a waiting request if the reports that have come on it make a whole one. Returns whether they do."""
        request = self._requests.waiting[number]
        found = sorted(self._reports.having(request.keys) or self._by_trace(self._reports, request.trace))
        reports = [self._reports.waiting[each].content for each in found]
        report = self._whole(request.content, reports, request.parts, last) if reports else None
        if report is None:
            return False
        keys = [key for each in found for key in self._reports.take(each).keys]
        self._remember((*request.keys, *keys), at, self._used)
        self._settle(self._requests.take(number).content, report, Reason.LATE_REPORT)
        return True

    def _by_trace(self, table: "_Table[E] | _Table[EngineReport]", trace: str | None) -> set[int]:
        """Entries that wait under this trace, if exactly one request has claimed it."""
        if trace is None or not self._claims.alone(trace):
            return set()
        return table.having((trace,))

    # --- time ------------------------------------------------------------------------------------------------------------

    def expire(self, at: float, most: int = MAX_ENTRIES) -> bool:
        """Settle requests and drop reports that have passed their deadline. Once a second is enough.

        `most`: the most requests, and the most reports, in one call. Returns True if there are more, so that the caller
        can give other tasks of the event loop a turn first.
        """
        requests = self._requests.due(at)
        for number in requests[:most]:
            self._close(number, Reason.NO_REPORT, at)
        reports = self._reports.due(at)
        for number in reports[:most]:
            waiting = self._reports.take(number)
            if any(key in self._expected for key in waiting.keys) or self._requests.has(waiting.keys):
                waiting.due_at = at + max(self.wait_seconds, 1.0)
                self._reports.add(waiting)
            else:
                self._lost(Lost.UNMATCHED)
        # Nearly in the order of the instants; an entry behind a later one is forgotten with that one, and a key that is kept
        # too long only makes a join less likely.
        for remembered in (self._used, self._unneeded):
            while remembered and next(iter(remembered.values())) <= at:
                remembered.popitem(last=False)
        # An emptied table keeps the room of its fullest day until it is cleared.
        for table in (self._used, self._unneeded, self._expected):
            if not table:
                table.clear()
        return max(len(requests), len(reports)) > most

    def close_all(self, reason: Reason) -> None:
        """Settle all waiting requests: the process ends."""
        for number in list(self._requests.waiting):
            self._close(number, reason, self._requests.waiting[number].due_at)

    def _close(self, number: int, reason: Reason, at: float) -> None:
        """No further report is waited for."""
        if self._requests.waiting[number].ambiguous or not self._try(number, at, last=True):
            self._settle(self._requests.take(number).content, None, reason)

    def _remember(self, keys: tuple[RequestKey, ...], at: float, table: OrderedDict[RequestKey, float]) -> None:
        for key in keys:
            table[key] = at + self.wait_seconds
            table.move_to_end(key)
        while len(table) > 4 * self._max_entries:
            table.popitem(last=False)
