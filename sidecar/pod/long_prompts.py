"""Prompts that are much longer than the usual ones of their lane: which misses waited behind them. Pure.

The mean prompt hardly grows by a few very long ones, and each of them holds up all others while it is computed. The
longest usual length of a lane is learned from arrivals that stayed calm for two minutes. It knows lengths and instants.
It refuses to know why a request waits.
"""

from collections import deque
from collections.abc import Callable, Hashable
from math import inf, log2
from typing import ClassVar

from sidecar.pod.usual.comparison import CALM_AFTER_SECONDS, FADES
from sidecar.pod.usual.learner import Amount, Learner, Table, Text


CLASSES = 8
"""Classes of lengths per octave: neighbouring classes differ by 9 %."""
FEWEST_PROMPTS = 100.0
MOST_LONG = 0.005
"""Share of usual prompts that may be longer than the longest usual one."""
LONG_SHARE = 0.25
"""Share of all prompt tokens from which on long prompts hold up the others: their cost rises faster than their length,
and it comes at once."""
HOLDS_UP = 0.5
LONGEST_TIMES = 8.0
"""A prompt is computed after at most so many times its own seconds: of an unstreamed one the end is not seen."""
KEPT_PROMPTS = 256
KEPT_ARRIVALS = 16_384
ARRIVALS_SECONDS = 1.0
"""Arrivals within so many seconds are counted together."""


class LongPrompts(Learner):
    """All prompts of one process. An arrival is a few steps."""

    KEPT: ClassVar = {
        "_usual": Table(Text(), Table(Amount(whole=True), Amount())),
        "_longest": Table(Text(), Amount(whole=True)),
    }

    def __init__(self, prefill_seconds: Callable[[float], float | None] = lambda _tokens: None) -> None:
        """`prefill_seconds`: of an uncached prompt of so many tokens; None if unknown."""
        self._prefill_seconds = prefill_seconds
        self.calm_after_seconds = CALM_AFTER_SECONDS
        self._usual: dict[str, dict[int, float]] = {}
        self._arrived: deque[tuple[float, str, int]] = deque(maxlen=KEPT_ARRIVALS)
        """Arrivals that have yet to stay calm before they teach; above the limit the oldest teach nothing."""
        self._longest: dict[str, int] = {}
        self.open: dict[Hashable, tuple[float, float, float | None]] = {}
        """Long prompts that are not computed yet: the instant of their arrival, their tokens, and their seconds alone."""
        self._computed: deque[tuple[float, float, float, float | None]] = deque(maxlen=KEPT_PROMPTS)
        self._received: deque[list[float]] = deque(maxlen=KEPT_PROMPTS)
        """Tokens of all prompts, by slice of time."""

    def received(self, key: Hashable, lane: str, tokens: float, at: float) -> None:
        """A request arrived; `tokens`: of its prompt, at least 1, counted or estimated."""
        size = int(CLASSES * log2(tokens))
        self._arrived.append((at, lane, size))
        if self._received and at - self._received[-1][0] < ARRIVALS_SECONDS:
            self._received[-1][1] += tokens
        else:
            self._received.append([at, tokens])
        if size > self._longest.get(lane, inf) and len(self.open) < KEPT_PROMPTS:
            self.open[key] = at, tokens, self._prefill_seconds(tokens)

    def computed(self, key: Hashable, at: float) -> None:
        """The first output of a request came, or it is over."""
        if key in self.open:
            came_at, tokens, seconds = self.open.pop(key)
            self._computed.append((came_at, at, tokens, seconds))

    def tick(self, at: float, *, calm: bool) -> None:
        """Learn from calm arrivals; call it every few seconds. `calm`: no objective burns."""
        if not calm:
            self._arrived.clear()
            return
        taught = set()
        while self._arrived and self._arrived[0][0] <= at - self.calm_after_seconds:
            _, lane, size = self._arrived.popleft()
            usual = self._usual.setdefault(lane, {})
            usual[size] = usual.get(size, 0.0) + 1.0
            taught.add(lane)
        for lane in taught:
            self._learn(lane)

    def _learn(self, lane: str) -> None:
        usual = self._usual[lane]
        for size in usual:
            usual[size] *= FADES
        total = sum(usual.values())
        if total < FEWEST_PROMPTS:
            return
        above = 0.0
        for size in sorted(usual, reverse=True):
            above += usual[size]
            if above > MOST_LONG * total:
                self._longest[lane] = size + 1
                return

    def any_since(self, since: float) -> bool:
        """Whether one has waited or been computed at any time since this instant."""
        return bool(self.open) or bool(self._computed and self._computed[-1][1] >= since)

    def hold_up(self, since: float, until: float, threshold_seconds: float | None) -> bool:
        """Whether long prompts held up a request that waited between these instants.

        They did if they alone take half of `threshold_seconds` to compute. Where that is unknown, they must be a good
        part of the prompts that came meanwhile.
        """
        found = [
            (came_at, min(until, came_at + LONGEST_TIMES * seconds) if seconds else until, tokens, seconds)
            for came_at, tokens, seconds in self.open.values()
            if came_at <= until
        ]
        found = [each for each in found if each[1] >= since]
        for each in reversed(self._computed):
            if each[1] < since:
                break
            if each[0] <= until:
                found.append(each)
        if not found:
            return False
        known = [seconds for *_, seconds in found if seconds is not None]
        if threshold_seconds is not None and len(known) == len(found):
            return sum(known) >= HOLDS_UP * threshold_seconds
        began_at, ended_at = min(each[0] for each in found), max(each[1] for each in found)
        received = sum(tokens for at, tokens in self._received if began_at - ARRIVALS_SECONDS < at <= ended_at)
        return sum(each[2] for each in found) >= LONG_SHARE * received
