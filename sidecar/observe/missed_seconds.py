"""Seconds of the latencies that missed, by phase: summed as ledgers close, and written to the page at a scrape.

Knows which ledger is in which sum. The sums between two scrapes are at most as many as lanes, models and lengths allow. It
refuses to judge: the caller says which objectives a request missed.
"""

from collections.abc import Iterable

from sidecar.ledger.account import Account, Phase
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics.catalogue import SLO_MISSED_PHASE_SECONDS_TOTAL
from sidecar.metrics.registry import Metrics
from sidecar.objectives.latency_parts import add_latency_parts
from sidecar.objectives.objective import Objective


class MissedSeconds:
    """The counter of one process. `add` is on the way of each request that missed, so it makes few calls."""

    def __init__(self, metrics: Metrics) -> None:
        self._counter = metrics.counter(SLO_MISSED_PHASE_SECONDS_TOTAL)
        self._sums: dict[RequestLabels, dict[Objective, dict[Phase, float]]] = {}
        metrics.before_scrape(self._write)

    def begin(self, model: str, lane: str, objective: str) -> None:
        """Put the series of this lane on the page at 0: a panel draws their growth, and a first miss may long be the only one."""
        self._counter.begin(model=model, lane=lane, objective=objective)

    def add(self, labels: RequestLabels, missed: Iterable[Objective], account: Account) -> None:
        """A request that missed these objectives has ended; one without a ledger has no seconds by phase."""
        marks, ledger = account.marks, account.ledger
        if ledger is None:
            return
        first_at, last_at = marks.first_token_at, marks.last_token_at
        output_seconds = None if first_at is None or last_at is None else last_at - first_at
        phases = {share.phase: share.seconds for share in ledger.shares}
        sums = self._sums.get(labels)
        if sums is None:
            sums = self._sums[labels] = {objective: {} for objective in Objective}
        for objective in missed:
            add_latency_parts(sums[objective], objective, phases, ledger.ttft_seconds, output_seconds)

    def _write(self, _at: float) -> None:
        for labels, by_objective in self._sums.items():
            for objective, sums in by_objective.items():
                for phase, seconds in sums.items():
                    self._counter.of[labels, objective, phase].inc(seconds)
        self._sums.clear()
