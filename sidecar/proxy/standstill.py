"""The time in which this process itself stood still: no time limit counts it, because the sidecar could move nothing then.

A process stands still when it is stopped, gets no CPU, or is held up by its own work. The engine and the clients go on
meanwhile, and what they sent is not read yet. The sweep (`server.py`) looks here a few times a second, and a look that comes
late tells how long it was. Pure; instants are passed in. Refuses to know which limits there are, and changes no
instant: what is measured stays true, only limits forgive.
"""

from bisect import bisect_right
from dataclasses import dataclass


LATE_SWEEP_SECONDS = 1.0
"""So much of the time between two looks counts for limits; the rest is a standstill. Looks come every 0.25 s, and by some
0.1 s later from a busy loop. It is not less, so that a loop that is always late still ends what is overdue."""
KEPT_STANDSTILLS = 4096
"""The newest ones that are known: two hours of a process that gets its CPU once in two seconds. Of older ones the time counts."""


class Standstills:
    """The standstills of one process."""

    def __init__(self, at: float) -> None:
        """`at`: now, in monotonic seconds, as all instants here."""
        self._looked_at = at
        self._ends: list[float] = []
        self._seconds: list[float] = []
        """The length of each."""
        self._sums: list[float] = []
        """The length of each and of all before it."""

    def look(self, at: float) -> "Now":
        """The loop runs at this instant. To be called a few times a second."""
        stood_seconds = at - self._looked_at - LATE_SWEEP_SECONDS
        self._looked_at = at
        if stood_seconds > 0:
            self._sums.append((self._sums[-1] if self._sums else 0.0) + stood_seconds)
            self._seconds.append(stood_seconds)
            self._ends.append(at)
            if len(self._ends) > KEPT_STANDSTILLS:
                del self._ends[0], self._seconds[0], self._sums[0]
        return Now(at, self)

    def seconds_after(self, began_at: float) -> float:
        """Seconds of standstill since this instant."""
        ends = self._ends
        if not ends or began_at >= ends[-1]:
            return 0.0
        first = bisect_right(ends, began_at)
        return self._sums[-1] - self._sums[first] + min(self._seconds[first], ends[first] - began_at)


@dataclass(frozen=True, slots=True)
class Now:
    """The instant of a sweep, and how long ago others were for a time limit."""

    at: float
    standstills: Standstills

    def since(self, began_at: float) -> float:
        """Seconds since `began_at` in which this process ran."""
        return self.at - began_at - self.standstills.seconds_after(began_at)
