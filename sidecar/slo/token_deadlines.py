"""Token deadlines of one stream, with slack (the fluidity index of Etalon, arXiv 2407.07000).

The first output event of a stream is due at the TTFT threshold, each later one a TPOT threshold after the deadline of
the one before. An early event leaves slack for those behind it. A miss removes the slack: the next event is due one
TPOT threshold after the late one. So one long stall is one miss, and a stream that is late once is not late for ever.
Knows one stream; no clock, no lane.
"""


class TokenDeadlines:
    """The deadlines of one stream. An event stands for one token, because only events have instants."""

    __slots__ = ("_due_at", "_pace_seconds", "deadlines", "misses")

    def __init__(self, first_due_at: float, pace_seconds: float) -> None:
        """`first_due_at`: received_at plus the TTFT threshold. `pace_seconds`: the TPOT threshold."""
        self._due_at = first_due_at
        self._pace_seconds = pace_seconds
        self.deadlines = 0
        self.misses = 0

    def output(self, at: float, events: int) -> None:
        """So many output events were read together at this instant."""
        self.deadlines += events
        if at > self._due_at:
            # One miss: after it, the other events of this read are due later than this instant.
            self.misses += 1
            self._due_at = at
        self._due_at += events * self._pace_seconds
