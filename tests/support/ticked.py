"""One process whose history is ticked by hand, for tests of what is read out of it.

It knows the registry and the ring. It refuses to know which numbers a test writes.
"""

from sidecar.history.ring import PERIOD_SECONDS, History
from sidecar.history.rows import Moment, NotKnownError, Reader
from sidecar.history.slices import run_now
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics


class Pod:
    """One process whose history is ticked by hand."""

    def __init__(self) -> None:
        self.metrics = Metrics(lanes=["chat", "batch"], prompt_buckets=["0-512"], models=["llama"])
        self.history = History(self.metrics, at=0.0)
        self.at = 0.0

    def passes(self, seconds: float) -> "Pod":
        for _ in range(round(seconds / PERIOD_SECONDS)):
            self.at += PERIOD_SECONDS
            run_now(self.history.tick(self.at))
        return self

    def ends(self, outcome: str, times: float, lane: str = "chat") -> None:
        self.metrics.counter(c.REQUESTS_TOTAL).child("llama", lane, "0-512", outcome).inc(times)

    def moment(self, **labels: str) -> Moment:
        now = run_now(self.history.now(self.at))
        return Moment(history=self.history, now=now, at_unix=1000.0, labels=labels)

    def reads(self, reader: Reader, **labels: str) -> object:
        """The rows, or the reason why they are not known."""
        try:
            return dict(run_now(reader(self.moment(**labels))))
        except NotKnownError as error:
            return str(error)
