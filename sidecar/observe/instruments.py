"""The instruments of one process: the recorder, and the tables that are updated while requests run.

Knows that they share one registry, and nothing else; `wiring.py` makes them, the other modules of this folder are given
them.
"""

from dataclasses import dataclass
from typing import Self

from sidecar.accounts.account_ring import AccountRing
from sidecar.metrics.registry import Metrics
from sidecar.objectives.objective import Objectives
from sidecar.observe.estimates import Estimates
from sidecar.observe.in_flight import InFlight
from sidecar.observe.record import Recorder
from sidecar.observe.slo_counters import Slo


@dataclass(frozen=True, slots=True)
class Instruments:
    """The instruments of one process."""

    metrics: Metrics
    recorder: Recorder
    in_flight: InFlight
    slo: Slo
    estimates: Estimates | None
    """None if the config switches the estimator off."""
    accounts: AccountRing
    """The closed requests."""

    @classmethod
    def on(
        cls,
        metrics: Metrics,
        objectives: Objectives,
        *,
        estimate: bool = False,
        accounts: AccountRing | None = None,
        by_spans: bool = False,
    ) -> Self:
        """Make all of them on one registry. `accounts`: None keeps no closed requests. `by_spans`: no request passes here."""
        ring = AccountRing(0) if accounts is None else accounts
        slo = Slo(metrics, objectives, by_spans=by_spans)
        estimates = Estimates(metrics, slo.usual_prefill_seconds, slo.estimated) if estimate else None
        return cls(metrics, Recorder(metrics), InFlight(metrics), slo, estimates, ring)
