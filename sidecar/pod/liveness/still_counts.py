"""How long an engine's own counts of its work have stood still, though it says that it runs requests. Pure.

A request that is not streamed shows nothing before its end. An engine whose count of output grows token by token shows on
its metrics page that it works on such a request, whatever waits behind it. This module knows that page's counts and the requests in flight; it
refuses to judge while a stream has output, because the wire shows more than the page (`silence.py`), and while no request runs: one
that waits may wait for its grammar or its adapter.
"""

from sidecar.pod.liveness.silence import BATCH_SECONDS, EXCUSE, UNKNOWN_ANSWER_SECONDS, Flow, Silent, excused_seconds


class StillCounts:
    """The counts of one engine. Call `look` about once a second."""

    def __init__(self) -> None:
        self.quiet_seconds = 0.0
        """Time in which a count should have grown and did not, seen by a loop that turned on time."""
        self.explained_seconds = UNKNOWN_ANSWER_SECONDS
        """As much of that as the prefill of the pending requests explains: a prompt is counted at its end."""

    def look(self, at: float, passed_seconds: float, flow: Flow, *, running: float | None, grew_at: float) -> float:
        """Seconds for which the counts have stood still beyond the pending work; 0 or less: that explains it, or nothing can
        be said. `running`: requests that the engine says it runs; None if unknown. `grew_at`: when a count last grew.
        """
        if not running or not flow.unseen or flow.begun > 0:
            self.quiet_seconds = 0.0
            return 0.0
        since = max(grew_at, flow.spoke_at, flow.unseen_since)
        self.quiet_seconds = min(self.quiet_seconds + passed_seconds, at - since)
        least = EXCUSE * BATCH_SECONDS if flow.cost_known else UNKNOWN_ANSWER_SECONDS
        self.explained_seconds = max(least, excused_seconds(Silent(0.0, flow.work_seconds)))
        return self.quiet_seconds - self.explained_seconds
