"""Whether what happens now may become the usual: the rules of learning, and where the usual values came from. Pure.

Nothing is learned while an objective burns. In a process's first ten minutes nothing is learned either while misses
exceed twice the budget, however few they are: a process that starts in a fault must not take the fault for the usual.
Where no usual value is known and something has burned for an hour without a break, the calmest tenth of the time
teaches, and what is learned then is provisional: it is dropped once calm returns.

It knows misses and instants. It refuses to know what is learned (`learner.py`) and where it is kept (`baseline.py`).
"""

from collections import deque
from enum import StrEnum
from math import inf

from sidecar.objectives.recent import Burning
from sidecar.pod.usual.comparison import CALM_AFTER_SECONDS


FIRST_SECONDS = 600.0
BURNED_SECONDS = 3600.0
"""After this time without a break, the calmest part of a burn has to serve as the usual."""
BURN_WINDOW_SECONDS = 60.0
CALMEST = 10
"""One in so many windows teaches."""
OWN_SECONDS = 1800.0
"""After so long a time of learning, half of a restored value's weight is of this process."""


class Came(StrEnum):
    """The sources of usual values: the closed set of the label `source`."""

    PROCESS = "process"
    """This process learned them."""
    STATE = "state"
    """An earlier process of this pod, through the state directory."""
    FILE = "file"
    """Another pod, through a file."""
    NONE = "none"
    """Nothing is usual yet."""


class Learning:
    """The rules of one process. All instants are monotonic seconds."""

    def __init__(self) -> None:
        self._burning = Burning()
        self.decided = self._burning.decided
        """Takes in each decision on an objective."""
        self._began_at: float | None = None
        self._ticked_at: float | None = None
        self._not_before = -inf
        """Nothing is learned until then: a fault may last that began before this process."""
        self._burns_since: float | None = None
        self._calm_since: float | None = None
        self._windows: deque[float] = deque(maxlen=round(BURNED_SECONDS / BURN_WINDOW_SECONDS))
        """Misses over the budget at the end of each window of the present burn."""
        self._window_at = 0.0
        self._calmest: float | None = None
        """Misses over the budget up to which a moment of this burn teaches; None: none does."""
        self._taught_seconds = 0.0
        self._restored: Came | None = None
        self.provisional = False
        """Whether what is known was learned, or restored, from a burn."""

    def restored(self, came: Came, at: float, *, burned: bool, provisional: bool) -> None:
        """Usual values were restored. `burned`: objectives burned when they were saved."""
        self._restored, self.provisional, self._taught_seconds = came, provisional, 0.0
        if burned:
            self._not_before = at + CALM_AFTER_SECONDS

    def dropped(self) -> None:
        """Everything that was learned was dropped."""
        self._restored, self.provisional, self._taught_seconds = None, False, 0.0

    def tick(self, at: float, *, known: bool) -> bool:
        """Call it about once a second. `known`: some usual value is known. True: drop what was learned provisionally."""
        before, self._ticked_at = self._ticked_at, at
        self._began_at = at if self._began_at is None else self._began_at
        if self.teaches(at) and before is not None:
            self._taught_seconds += at - before
        if not self._burning.at(at):
            self._burns_since = self._calmest = None
            self._windows.clear()
            self._calm_since = at if self._calm_since is None else self._calm_since
            return self.provisional and at - self._calm_since >= CALM_AFTER_SECONDS
        self._calm_since = None
        if self._burns_since is None:
            self._burns_since = self._window_at = at
        if at - self._window_at >= BURN_WINDOW_SECONDS:
            self._window_at = at
            self._windows.append(self._burning.worst(at))
        # A burn that begins beside usual values must not replace them, however long it lasts.
        if at - self._burns_since >= BURNED_SECONDS and (self.provisional or not known):
            self._calmest = sorted(self._windows)[len(self._windows) // CALMEST]
            self.provisional = self.provisional or self.hurries(at)
        return False

    def burns(self, at: float) -> bool:
        """Whether an objective burns."""
        return self._burning.at(at)

    def hurries(self, at: float) -> bool:
        """Whether this is one of the calmest moments of a burn, which teaches without two minutes of calm after it."""
        if self._calmest is None or not self._burning.at(at):
            return False
        # All moments are alike up to rounding if each request misses, and none is calmer than another.
        return self._burning.worst(at) <= self._calmest * (1.0 + 1e-6)

    def teaches(self, at: float) -> bool:
        """Whether what happens now may become the usual."""
        if self._burning.at(at):
            return self.hurries(at)
        first = self._began_at is None or at - self._began_at < FIRST_SECONDS
        return at >= self._not_before and not (first and self._burning.exceeds(at))

    def came(self, *, known: bool) -> Came:
        """The source of the usual values. `known`: some usual value is known."""
        if self._restored is not None and self._taught_seconds < OWN_SECONDS:
            return self._restored
        return Came.PROCESS if known else Came.NONE
