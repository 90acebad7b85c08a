"""The question: what are the slowest one percent of a lane's requests made of? Exactly, from the ring of closed accounts.

Three latencies are asked for apart: the time to first token and the time per output token of streamed
requests, and the whole answer of the others. The gaps within an answer are not kept. Each of the slowest requests is taken apart into phases that add up to its latency.
Only requests with a ledger count, which are those with outcome ok, except where an instant of them is not known. Below LEAST_REQUESTS it says how many there are, and
nothing else: one percent of fewer is no request. Pure, and in slices: the ring may be overwritten between two of them.
"""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heapreplace

from sidecar.accounts.account_ring import AccountRing
from sidecar.accounts.account_row import (
    LATENCIES,
    NO_REASON,
    ONE_CHOICE,
    STREAMED,
    UNKNOWN_TOKENS,
    AccountRow,
)
from sidecar.history.slices import Sliced
from sidecar.ledger.account import Phase, Reason
from sidecar.objectives.latency_parts import latency_parts
from sidecar.objectives.objective import E2E, TPOT, TTFT, Objective


_TAKEN_APART = (TTFT, TPOT, E2E)
"""The latencies, in the order of an answer."""
LEAST_REQUESTS = 100
ONE_IN = 100
"""The slowest one in so many: one percent, rounded up."""
FRESH_FOR_SECONDS = 5.0
FRESH_FOR_SECONDS_A_ROW = 1e-4
"""An answer is given again for so long: a row takes 1 to 2 us of computing, so that pages that are watched take 1 to 2 % of a core."""
ROWS_AT_ONCE = 256
"""Rows read in one slice."""
SLOW_AT_ONCE = 64
"""Rows taken apart in one slice, each in about 6 us."""


@dataclass(frozen=True, slots=True)
class Slowest:
    """The slowest one percent of one lane by one latency."""

    lane: str
    objective: Objective
    """Names the latency: ttft, tpot or e2e."""
    requests: int
    """Requests of the ring that have this latency."""
    slowest: int = 0
    """Number of the slowest ones; 0: there are too few requests."""
    least_seconds: float = 0.0
    """Latency of the fastest among the slowest: 99 % of the requests were faster, or as fast."""
    mean_seconds: float = 0.0
    phases: Mapping[Phase, float] | None = None
    """Mean seconds of each phase within the latency; they add up to `mean_seconds`. None: there are too few requests."""
    estimated: int = 0
    """Slowest requests whose phases before the first token are estimated."""
    missed: int = 0
    """Slowest requests that missed this objective."""
    prompt_tokens: float | None = None
    """Mean over those whose length is known; None if it is known of none. The same holds for the next two."""
    cached_tokens: float | None = None
    completion_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class SlowestRequests:
    """All lanes, as of one instant."""

    span_seconds: float
    """Time for which all closed requests are in the ring, up to that instant."""
    requests: int
    """Requests in the ring, however they ended."""
    of: tuple[Slowest, ...]
    """By lane, then ttft, tpot, e2e; a latency that no request has is absent."""


class SlowestQuestion:
    """The question to one ring, which is answered again only after some seconds, for any number of askers."""

    def __init__(self, ring: AccountRing) -> None:
        self._ring = ring
        self._answered: tuple[float, SlowestRequests] | None = None

    def ask(self, at: float) -> Sliced[SlowestRequests]:
        """The answer. `at`: now, on the clock of the ring."""
        fresh_seconds = max(FRESH_FOR_SECONDS, FRESH_FOR_SECONDS_A_ROW * len(self._ring))
        if self._answered is not None and at - self._answered[0] < fresh_seconds:
            return self._answered[1]
        found = yield from slowest_of(self._ring, at)
        self._answered = at, found
        return found


def slowest_of(ring: AccountRing, at: float) -> Sliced[SlowestRequests]:
    """The answer as of now."""
    span_seconds, kept = max(0.0, at - ring.since_at), len(ring)
    by_lane = yield from _latencies(ring)
    found = []
    for lane, latencies in sorted((ring.lanes[number], latencies) for number, latencies in by_lane.items()):
        for objective, of in latencies.of.items():
            requests = len(of.seconds)
            if requests >= LEAST_REQUESTS:
                slow = yield from _largest(of, -(-requests // ONE_IN))
                found.append((yield from _taken_apart(ring, lane, objective, requests, slow)))
            elif requests:
                found.append(Slowest(lane, objective, requests))
    return SlowestRequests(span_seconds, kept, tuple(found))


class _Latency:
    """One latency of one lane: its values, and the numbers of their accounts."""

    def __init__(self) -> None:
        self.seconds = array("f")
        self.numbers = array("Q")


class _Lane:
    """The latencies of one lane."""

    def __init__(self) -> None:
        self.of = {objective: _Latency() for objective in _TAKEN_APART}
        self.tell = tuple(append for one in self.of.values() for append in (one.seconds.append, one.numbers.append))
        """Bound once: in the order of the objectives, what takes a value, and what takes its number."""


def _latencies(ring: AccountRing) -> Sliced[dict[int, _Lane]]:
    """By number of the lane. A row is one of hundreds of thousands, so this loop makes no call that it can save."""
    found: dict[int, _Lane] = {}
    number, last = ring.first, ring.closed
    while number < last:
        number = max(number, ring.first)  # what was overwritten since the last slice is gone
        rows = ring.read(number, min(last, number + ROWS_AT_ONCE), LATENCIES)
        for number, (decode, ttft, whole, output, completion, lane, flags, reason) in enumerate(rows, number):  # noqa: B020  read before
            if reason == NO_REASON:  # no ledger: it did not end well, or its time is not known whole
                continue
            of = found.get(lane)
            if of is None:
                of = found[lane] = _Lane()
            ttft_is, ttft_of, tpot_is, tpot_of, e2e_is, e2e_of = of.tell
            if not flags & STREAMED:
                e2e_is(whole)
                e2e_of(number)
                continue
            if ttft == ttft:  # noqa: PLR0124  false of NaN alone
                ttft_is(ttft)
                ttft_of(number)
            # An answer that was held back has no decode, and no pace.
            if flags & ONE_CHOICE and 1 < completion < UNKNOWN_TOKENS and output > 0 and decode == decode:  # noqa: PLR0124
                tpot_is(output / (completion - 1))
                tpot_of(number)
        number += 1
        yield
    return found


def _largest(of: _Latency, count: int) -> Sliced[list[int]]:
    """The numbers of the `count` largest; of equals, those that closed later."""
    heap = list(zip(of.seconds[:count], of.numbers[:count], strict=True))
    heapify(heap)
    for begin in range(count, len(of.seconds), ROWS_AT_ONCE):
        yield
        part, floor = slice(begin, begin + ROWS_AT_ONCE), heap[0][0]
        for value, number in zip(of.seconds[part], of.numbers[part], strict=True):
            if value >= floor:
                heapreplace(heap, (value, number))
                floor = heap[0][0]
    return [number for _, number in heap]


def _taken_apart(ring: AccountRing, lane: str, objective: Objective, requests: int, slow: list[int]) -> Sliced[Slowest]:
    values: list[float] = []
    phases: dict[Phase, float] = {}
    tokens: tuple[list[int], ...] = ([], [], [])
    estimated = missed = 0
    for place, number in enumerate(slow):
        if place % SLOW_AT_ONCE == 0:
            yield
        if number < ring.first:
            continue  # overwritten meanwhile
        row = ring.row(number)
        parts = parts_of(row, objective)
        values.append(sum(parts.values()))
        for phase, part in parts.items():
            phases[phase] = phases.get(phase, 0.0) + part
        estimated += row.reason is Reason.ESTIMATED
        missed += objective in row.missed
        for known, count in zip(tokens, (row.prompt_tokens, row.cached_tokens, row.completion_tokens), strict=True):
            if count is not None:
                known.append(count)
    if not values:
        return Slowest(lane, objective, requests)
    prompt, cached, completion = (sum(known) / len(known) if known else None for known in tokens)
    return Slowest(
        lane=lane,
        objective=objective,
        requests=requests,
        slowest=len(values),
        least_seconds=min(values),
        mean_seconds=sum(values) / len(values),
        phases={phase: phases[phase] / len(values) for phase in Phase if phase in phases},
        estimated=estimated,
        missed=missed,
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=completion,
    )


def parts_of(row: AccountRow, objective: Objective) -> dict[Phase, float]:
    """The phases of one latency of one request, which must have it, in seconds (of tpot: per token); they add up to it."""
    found = latency_parts(objective, row.phases, row.ttft_seconds, row.output_seconds)
    if objective is not TPOT:
        return found
    assert row.completion_tokens is not None
    return {phase: part / (row.completion_tokens - 1) for phase, part in found.items()}
