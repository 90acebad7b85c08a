"""Requests of `sidecar verify`: they pass unchanged and stay outside all lanes, as long as there are few of them.

Such a request says so in a header. Any client can send that header, so a bucket limits how many are believed: MOST_PROBES_AT_ONCE, and one
more every PROBE_EVERY_SECONDS. Beyond it a request counts as every other one. Both are counted (`llm_sidecar_verify_probes_total`).

A probe has no lane, no objective and no line in the log, and no gauge of a lane counts it. The engine works on it all the same, so it
counts where requests are compared with the engine's own numbers: in flight, ended, and passed here. The engine's report on it is no loss.
"""

from sidecar.engines.reports.lone_requests import Ending
from sidecar.observe.settlement import Settlement
from sidecar.proxy.headers import RequestHead
from sidecar.proxy.observer import End
from sidecar.proxy.unobserved import Unobserved
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import ENDED_WELL


VERIFY_HEADER = b"x-llm-phase-sidecar-verify"
"""In lower case. Its value says nothing."""
MOST_PROBES_AT_ONCE = 48
"""One run sends twelve to each of two addresses, which may both lead through this sidecar: two runs."""
PROBE_EVERY_SECONDS = 60.0
"""A client that hides its traffic behind the header hides one request a minute in the long run, on a lean page too."""


class ProbeBucket:
    """The probes that are believed."""

    def __init__(self) -> None:
        self._left = float(MOST_PROBES_AT_ONCE)
        self._at = 0.0

    def take(self, at: float) -> bool:
        """Whether the probe that came at this instant is believed; then one fewer is left."""
        self._left = min(MOST_PROBES_AT_ONCE, self._left + max(0.0, at - self._at) / PROBE_EVERY_SECONDS)
        self._at = at
        if self._left < 1:
            return False
        self._left -= 1
        return True


class ProbeObserver(Unobserved):
    """Observer of one probe."""

    def __init__(self, settlement: Settlement, head: RequestHead) -> None:
        self._settlement = settlement
        self._accepted_at = head.accepted_at
        settlement.instruments.in_flight.apart += 1

    def close(self, at: float, end: End) -> None:
        settlement = self._settlement
        settlement.instruments.in_flight.apart -= 1
        if end.failure is not None:
            settlement.instruments.recorder.failed(end.failure.reason)
        if end.outcome is ENDED_WELL:
            settlement.on_probe_done()
        settlement.probe_ended(Ending((), Marks(accepted_at=self._accepted_at), streaming=False, at=at, waits=False))
