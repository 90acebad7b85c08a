"""How fast a lane burns: misses in trailing windows like those of the rules, and the tier that follows.

It knows the tiers of the alerts, as numbers of its own. It refuses to know phases, pods by name and the source of the
verdicts: it gets a list of them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple


LOOK_EVERY_SECONDS = 15.0
SUSTAINED_SECONDS = 60.0
"""A burn must page if it lasts this long, which is four evaluations."""
FAST_WINDOW_SECONDS = 300.0
SHORT_WINDOW_SECONDS = 120.0
NOW_SECONDS = 60.0
LEAST_MISSES = 10
OUTAGE_RATIO = 0.5
FAST_BURN = 10.0
SLOW_BURN = 2.0
SLOW_WINDOW_SECONDS = 1800.0
SLOW_SUSTAINED_SECONDS = 300.0
NEARLY = 0.7
"""Above this share of every threshold, below the threshold itself, an alert is neither required nor false."""
POD_LEAST_DECIDED = 20
"""One pod of many must page by itself only if a window holds so many decided requests of it."""
POD_TIMES_OTHERS = 3.0
"""It must page only if its share of misses is so many times that of the other pods together."""
SPARSE_PER_MINUTE = 3.0
"""A lane with fewer requests per minute is sparse: ten misses would take it too long."""
SPARSE_WINDOW_SECONDS = 360.0
SPARSE_LEAST_MISSES = 4
"""A sparse lane must page if all its requests of `SPARSE_WINDOW_SECONDS` missed, and these are at least so many."""


class Verdict(NamedTuple):
    """One request and objective: met or missed, and the instant at which that was decided."""

    at: float
    missed: bool
    pod: int = 0


class Window(NamedTuple):
    """Number of misses and of decided requests in one trailing window."""

    misses: int
    decided: int

    @property
    def ratio(self) -> float:
        """Share of misses, 0 to 1; 0 without requests."""
        return self.misses / self.decided if self.decided else 0.0


class Windows:
    """Counts misses in any trailing window of verdicts, which are in order of their instants."""

    def __init__(self, told: Sequence[Verdict]) -> None:
        self._instants = [each.at for each in told]
        self._missed = [0, *accumulate(int(each.missed) for each in told)]

    def at(self, instant: float, seconds: float) -> Window:
        """The window of so many seconds that ends at this instant; both ends belong to it."""
        low, high = bisect_left(self._instants, instant - seconds), bisect_right(self._instants, instant)
        return Window(self._missed[high] - self._missed[low], high - low)


@dataclass(slots=True)
class Tiers:
    """The tiers that one lane and objective reached at any time since the fault."""

    must_page: bool = False
    burns: bool = False
    """For `SUSTAINED_SECONDS`, a window of two or five minutes held at least `LEAST_MISSES` misses and at least `NEARLY`
    of the share that must page, and so did the last minute's share. Whatever must page burns too."""
    may_page: bool = False
    must_ticket: bool = False
    may_ticket: bool = False
    burns_at: float | None = None
    """Instant from which on it must page; None if it never must."""
    quiet_at: float = 0.0
    """Last instant at which it may page."""

    def join(self, pod: "Tiers") -> None:
        """Take over that one of its pods, alone, must or may page. Tickets are the lane's own."""
        self.must_page |= pod.must_page
        self.burns |= pod.must_page
        self.may_page |= pod.may_page
        self.quiet_at = max(self.quiet_at, pod.quiet_at)
        known = [at for at in (self.burns_at, pod.burns_at) if at is not None]
        self.burns_at = min(known, default=None)


def tiers_of(
    told: Sequence[Verdict],
    allowed: float,
    since: float,
    until: float,
    *,
    others: Sequence[Verdict] | None = None,
    sparse: bool = False,
) -> Tiers:
    """Tiers from windows that end between two instants. `allowed`: share of misses that the target allows.

    `others`: verdicts of the other pods, if `told` are those of one pod; it must page only if it stands out from them.
    """
    lane, tiers = _Lane(told, allowed, others), Tiers()
    paging = burning = slow = 0.0
    at = since
    while at <= until:
        # A window of five minutes still contains misses of a burn that is over: it must page only while it goes on.
        paging = _lasted(paging, holds=lane.pages(at))
        burning = _lasted(burning, holds=lane.burns(at))
        slow = _lasted(slow, holds=lane.burns_slowly(at))
        if paging >= SUSTAINED_SECONDS:
            tiers.must_page = True
            tiers.burns_at = at - SUSTAINED_SECONDS if tiers.burns_at is None else tiers.burns_at
        if sparse and lane.all_missed(at):
            tiers.must_page = True
            tiers.burns_at = at if tiers.burns_at is None else tiers.burns_at
        tiers.burns = tiers.burns or tiers.must_page or burning >= SUSTAINED_SECONDS
        if lane.nearly_pages(at) or (sparse and lane.nearly_all_missed(at)):
            tiers.may_page, tiers.quiet_at = True, at
        tiers.must_ticket = tiers.must_ticket or slow >= SLOW_SUSTAINED_SECONDS
        tiers.may_ticket = tiers.may_ticket or lane.nearly_burns_slowly(at)
        at += LOOK_EVERY_SECONDS
    return tiers


def _lasted(seconds: float, *, holds: bool) -> float:
    return seconds + LOOK_EVERY_SECONDS if holds else 0.0


class _Lane:
    """Each condition of the tiers at one instant."""

    def __init__(self, told: Sequence[Verdict], allowed: float, others: Sequence[Verdict] | None) -> None:
        self._windows = Windows(told)
        self._others = None if others is None else Windows(others)
        self._allowed = allowed
        self._page_ratio = min(OUTAGE_RATIO, FAST_BURN * allowed)

    def pages(self, at: float) -> bool:
        return self._fast(at, LEAST_MISSES, self._page_ratio, stands_out=True) and self._now(at) >= self._page_ratio

    def burns(self, at: float) -> bool:
        ratio = NEARLY * self._page_ratio
        return self._fast(at, LEAST_MISSES, ratio) and self._now(at) >= ratio

    def nearly_pages(self, at: float) -> bool:
        return self._fast(at, NEARLY * LEAST_MISSES, NEARLY * self._page_ratio)

    def burns_slowly(self, at: float) -> bool:
        slow, fast = self._windows.at(at, SLOW_WINDOW_SECONDS), self._windows.at(at, FAST_WINDOW_SECONDS)
        return slow.misses >= LEAST_MISSES and min(slow.ratio, fast.ratio) >= SLOW_BURN * self._allowed

    def nearly_burns_slowly(self, at: float) -> bool:
        slow = self._windows.at(at, SLOW_WINDOW_SECONDS)
        return slow.misses >= NEARLY * LEAST_MISSES and slow.ratio >= NEARLY * self._allowed

    def all_missed(self, at: float) -> bool:
        window = self._windows.at(at, SPARSE_WINDOW_SECONDS)
        return window.misses == window.decided >= SPARSE_LEAST_MISSES

    def nearly_all_missed(self, at: float) -> bool:
        window = self._windows.at(at, SPARSE_WINDOW_SECONDS)
        return window.misses >= NEARLY * SPARSE_LEAST_MISSES and window.ratio >= NEARLY

    def _now(self, at: float) -> float:
        return self._windows.at(at, NOW_SECONDS).ratio

    def _fast(self, at: float, misses: float, ratio: float, *, stands_out: bool = False) -> bool:
        """Whether a window of two or five minutes holds so many misses and such a share of them."""
        for seconds in (FAST_WINDOW_SECONDS, SHORT_WINDOW_SECONDS):
            window = self._windows.at(at, seconds)
            if (
                window.misses >= misses
                and window.ratio >= ratio
                and (not stands_out or self._stands_out(window, at, seconds))
            ):
                return True
        return False

    def _stands_out(self, window: Window, at: float, seconds: float) -> bool:
        if self._others is None:
            return True
        others = self._others.at(at, seconds).ratio
        return window.decided >= POD_LEAST_DECIDED and window.ratio >= POD_TIMES_OTHERS * others
