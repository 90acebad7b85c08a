"""Requests that have ended and wait for the engine's word, and words that have come and wait for their request. Pure.

A request is known by keys that only it has: the response id that stood in its stream, the span that the sidecar minted
for it. A word carries such keys too, and may come before the request has ended or seconds after. A trace id is weaker: an
agent sends many requests in one trace, so it counts only while one single request has claimed it for as long as words
may still be on their way. One rule above all: never a wrong join. A key that two requests have is nobody's; a word for
nobody is kept for a while and then counted; a word that comes twice is used once.

Each opened request is settled exactly once: by its word, its deadline, the table's bound, or the end of the process.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from sidecar.ledger.account import Reason
from sidecar.ledger.report import EngineReport, of_choices


E = TypeVar("E")
LONGEST_REQUEST_SECONDS = 3600.0
"""A trace is remembered for so long from the last request that claimed it, should that one never end here."""
MAX_ENTRIES = 4096
"""Of each table: 4,096 requests of 10 s each are more than any one replica serves."""


class Lost(StrEnum):
    """What became of a word or a key that did not lead to a join: a closed set, a counter's label."""

    FOR_NOBODY = "report_unmatched"
    """No request with any of its keys ended in time."""
    TWICE = "report_twice"
    """Its request has been settled by an earlier word."""
    AMBIGUOUS = "report_ambiguous"
    """Its keys are claimed by several requests."""
    EVICTED = "report_evicted"
    """The table was full."""


@dataclass(slots=True)
class _Waiting(Generic[E]):
    """A request (its `content` is the entry) or a word (its `content` is the report)."""

    content: E
    keys: tuple[Hashable, ...]
    trace: Hashable | None
    due_at: float
    words: int = 1
    """Of a request: how many words make up its report."""
    part: Hashable | None = None
    """Of a word: what tells it from its request's other words."""


class _Table(Generic[E]):
    """What waits, in the order in which it came, with an index by key."""

    def __init__(self) -> None:
        self.waiting: dict[int, _Waiting[E]] = {}
        self._by_key: dict[Hashable, set[int]] = {}
        self._numbers = 0

    def add(self, waiting: _Waiting[E]) -> int:
        self._numbers += 1
        self.waiting[self._numbers] = waiting
        for key in (*waiting.keys, waiting.trace):
            self._by_key.setdefault(key, set()).add(self._numbers)
        return self._numbers

    def having(self, keys: Iterable[Hashable]) -> set[int]:
        """All that have any of these keys."""
        return set().union(*(self._by_key.get(key, ()) for key in keys))

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
        """Those whose deadline has passed: all have waited equally long, so they are the first ones."""
        due = []
        for number, waiting in self.waiting.items():
            if waiting.due_at > at:
                break
            due.append(number)
        return due


class Joins(Generic[E]):
    """Both tables. `settle` is told each request once, with its report, or with None and why there is none."""

    def __init__(
        self,
        settle: Callable[[E, EngineReport | None, Reason], None],
        lost: Callable[[Lost], None],
        *,
        wait_seconds: float,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        self.wait_seconds = wait_seconds
        self._settle = settle
        self._lost = lost
        self._max_entries = max_entries
        self._requests: _Table[E] = _Table()
        self._words: _Table[EngineReport] = _Table()
        self._used: dict[Hashable, float] = {}
        """Keys of joined requests, until when a second word is recognised as one."""
        self._claims: dict[Hashable, tuple[int, float]] = {}
        """Trace id to how many requests have claimed it, and until when that matters."""
        self._expected: dict[Hashable, None] = {}
        """Keys of requests that still run: a word on one of them waits as long as it takes."""

    def __len__(self) -> int:
        """How many requests wait."""
        return len(self._requests.waiting)

    # --- requests --------------------------------------------------------------------------------------------------------

    def claim(self, trace: Hashable, at: float) -> None:
        """A request of this trace has begun. Told for every one of them, or a trace that many share looks like one's own."""
        claims, _ = self._claims.pop(trace, (0, 0.0))
        self._claims[trace] = (claims + 1, at + LONGEST_REQUEST_SECONDS)
        if len(self._claims) > 4 * self._max_entries:
            # Forgotten is not unclaimed: what is not known to be unique is not used.
            del self._claims[next(iter(self._claims))]

    def expect(self, key: Hashable) -> None:
        """A request with this key of its own has begun: until it ends, words on it are kept, however early they came.

        A choice may be finished long before the others, and a client may read slowly what the engine has long done.
        """
        self._expected[key] = None
        if len(self._expected) > 4 * self._max_entries:
            del self._expected[next(iter(self._expected))]

    def ended(self, keys: Iterable[Hashable]) -> None:
        """The request that had these keys has ended, in whatever way. Told before `open`."""
        for key in keys:
            self._expected.pop(key, None)

    def told(self, keys: Iterable[Hashable], at: float) -> None:
        """The request that had these keys was settled by what its answer said: a word that comes now is its second."""
        self._remember(tuple(keys), at)

    def open(
        self, keys: Iterable[Hashable], entry: E, at: float, trace: Hashable | None = None, *, words: int = 1
    ) -> None:
        """A request has ended and its phases wait for the engine's word; `keys` are those that should be its own.

        `words`: how many words make up its report.
        """
        keys = tuple(dict.fromkeys(keys))
        found = self._words.having(keys) or self._by_trace(self._words, trace)
        if len(found) == words and not self._requests.having(keys):
            report = self._whole(found)
            self._remember(keys, at)
            self._settle(entry, report, Reason.LATE_REPORT)
            return
        while len(self._requests.waiting) >= self._max_entries:
            self._close(self._requests.oldest(), None, Reason.TABLE_FULL)
        self._requests.add(_Waiting(entry, keys, trace, at + self.wait_seconds, words=words))

    # --- words -----------------------------------------------------------------------------------------------------------

    def word(
        self,
        keys: Iterable[Hashable],
        report: EngineReport,
        at: float,
        trace: Hashable | None = None,
        *,
        part: Hashable | None = None,
    ) -> None:
        """The engine's word on the request that has these keys, or all alone this trace.

        `part`: what tells this word from others on the same request, of an engine that has one on each choice.
        """
        keys = tuple(dict.fromkeys(keys))
        told = (self._words.waiting[number].part for number in self._words.having(keys))
        if any(key in self._used for key in keys) or part in told:
            self._lost(Lost.TWICE)
            return
        word = _Waiting(report, keys, trace, at + self.wait_seconds, part=part)
        owners = self._requests.having(keys) or self._by_trace(self._requests, trace)
        if len(owners) > 1:
            self._lost(Lost.AMBIGUOUS)
            return
        if owners:
            owner = owners.pop()
            request = self._requests.waiting[owner]
            others = self._words.having(request.keys)
            if len(others) + 1 == request.words:
                report = self._whole({*others, self._words.add(word)})
                self._remember((*request.keys, *keys), at)
                self._close(owner, report, Reason.LATE_REPORT)
                return
        while len(self._words.waiting) >= self._max_entries:
            self._words.take(self._words.oldest())
            self._lost(Lost.EVICTED)
        self._words.add(word)

    def _whole(self, numbers: Iterable[int]) -> EngineReport:
        """Take these words; what they say together."""
        return of_choices([self._words.take(number).content for number in sorted(numbers)])

    def _by_trace(self, table: "_Table[E] | _Table[EngineReport]", trace: Hashable | None) -> set[int]:
        """What waits under this trace, if one request alone has claimed it."""
        if trace is None or self._claims.get(trace, (0, 0.0))[0] != 1:
            return set()
        return table.having((trace,))

    # --- time ------------------------------------------------------------------------------------------------------------

    def expire(self, at: float, most: int = MAX_ENTRIES) -> bool:
        """Settle requests whose deadline has passed, drop words that nobody claimed. Once a second is enough.

        `most`: how many at once; True where there are more, so that the caller can let others have their turn first.
        """
        requests, words = self._requests.due(at), self._words.due(at)
        for number in requests[:most]:
            self._close(number, None, Reason.NO_REPORT)
        for number in words[:most]:
            word = self._words.take(number)
            if any(key in self._expected for key in word.keys):
                word.due_at = at + max(self.wait_seconds, 1.0)
                self._words.add(word)
            else:
                self._lost(Lost.FOR_NOBODY)
        for key in [key for key, until in self._used.items() if until <= at]:
            del self._used[key]
        for trace in [trace for trace, (_, until) in self._claims.items() if until <= at]:
            del self._claims[trace]
        return max(len(requests), len(words)) > most

    def close_all(self, reason: Reason) -> None:
        """Settle everything: the process ends."""
        for number in list(self._requests.waiting):
            self._close(number, None, reason)

    def _close(self, number: int, report: EngineReport | None, reason: Reason) -> None:
        self._settle(self._requests.take(number).content, report, reason)

    def _remember(self, keys: tuple[Hashable, ...], at: float) -> None:
        for key in keys:
            self._used[key] = at + self.wait_seconds
        while len(self._used) > 4 * self._max_entries:
            del self._used[next(iter(self._used))]
