"""Misses whose root is not decided yet: each for at most 15 s. Pure.

A miss is decided at the first of: its request's end (and the end of its ledger, if that closes in the same turn), clear
evidence, or `WAIT_SECONDS` after it was counted. It knows when to decide. It refuses to know how (`weigh.py`).
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from sidecar.ledger.request_labels import RequestLabels
from sidecar.objectives.attribution import Blame
from sidecar.objectives.judge import TokenDeadlines
from sidecar.objectives.objective import Objective
from sidecar.pod.life import Failed


WAIT_SECONDS = 15.0
DECIDED_AT_ONCE = 128
"""Most misses that are decided in one turn: about a millisecond."""


@dataclass(slots=True, eq=False)
class Miss:
    """One miss of one objective."""

    labels: RequestLabels
    objective: Objective
    received_at: float
    missed_at: float
    timed_from_at: float
    """Beginning of the time that the objective measures."""
    threshold_seconds: float | None = None
    """Threshold of the TTFT objective of its lane, or of a stall; None without one."""
    deadlines: TokenDeadlines | None = None
    """The gaps of the stream; None for a miss of another objective than a stall."""
    waited_in: Blame | None = None
    failed: Failed | None = None
    turned_away: bool = False
    paused: bool = False
    transferred: bool = False
    """Most of its excess lies between its first output and its second."""
    over: bool = False
    """Its request has ended."""


class OpenMisses:
    """All undecided misses of one process."""

    def __init__(self, decide: Callable[[Miss, float], bool]) -> None:
        """`decide`: called with a miss and an instant; returns whether it was decided. It must decide if the miss is
        `WAIT_SECONDS` old, or its request is over.
        """
        self._decide = decide
        self._in_order: dict[Miss, None] = {}
        self._over: deque[Miss] = deque()
        """Misses of requests that have ended, in the order of these ends."""

    def __len__(self) -> int:
        return len(self._in_order)

    def __iter__(self) -> Iterator[Miss]:
        return iter(self._in_order)

    def missed(self, miss: Miss) -> None:
        """A miss was counted."""
        self._in_order[miss] = None

    def ended(self, miss: Miss) -> None:
        """Its request is over: it is decided at the next tick, with its ledger if that closes at once."""
        if miss in self._in_order:
            miss.over = True
            self._over.append(miss)

    def tick(self, at: float) -> bool:
        """Decide the misses of requests that are over, those that have waited long enough, and those that are clear: at
        most `DECIDED_AT_ONCE`. True: more may be due, so call it again after other work had its turn.
        """
        left = DECIDED_AT_ONCE
        while self._over and left:
            self._take(self._over.popleft(), at)
            left -= 1
        oldest = list(islice(self._in_order, left))
        decided = [self._take(miss, at) for miss in oldest]
        return bool(self._over) or (bool(decided) and all(decided) and len(self._in_order) > 0)

    def _take(self, miss: Miss, at: float) -> bool:
        """Decide a miss, if that is due. Returns whether it is decided now."""
        if miss not in self._in_order or not self._decide(miss, at):
            return False
        del self._in_order[miss]
        return True
