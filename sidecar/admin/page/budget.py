"""Error budgets for the status page: what was promised, what was missed of it now and since this process began. Pure.

Misses over allowed misses, as the counters have them: the same division as the recording rules', over a window that is
stated. Refuses to speak of a month: a process knows only what it has lived through.
"""

from dataclasses import dataclass

from sidecar.history.growth import Labels
from sidecar.history.slices import Sliced
from sidecar.history.snapshot import Snapshot, counted
from sidecar.metrics import slo_metrics as p
from sidecar.metrics.declaration import Gauge
from sidecar.metrics.registry import Metrics
from sidecar.slo.objective import Objective


@dataclass(frozen=True, slots=True)
class Tally:
    """Over some time."""

    requests: float = 0.0
    """Decided: met or missed."""
    misses: float = 0.0
    allowed: float = 0.0
    """What the targets allow of so many requests."""

    @property
    def burn(self) -> float | None:
        """Misses over allowed ones: 1 spends the budget just as fast as it comes. None: nothing was decided."""
        return self.misses / self.allowed if self.allowed > 0 else None

    @property
    def missed(self) -> float | None:
        """Share of the requests."""
        return self.misses / self.requests if self.requests else None


@dataclass(frozen=True, slots=True)
class Budget:
    """One promise of a lane, over its prompt lengths."""

    lane: str
    objective: Objective
    thresholds: tuple[float, float]
    """Seconds: of the strictest and of the most generous prompt length."""
    targets: tuple[float, float]
    """Ratios, 0 to 1, as above."""
    now: Tally
    """Over the window of the page."""
    ever: Tally
    """Since this process began."""


def budgets(metrics: Metrics, then: Snapshot, now: Snapshot) -> Sliced[list[Budget]]:
    """One of every promise of the config in force, lane by lane, also where nothing was decided yet."""
    recent = yield from _tallies(then, now)
    ever = yield from _tallies(None, now)
    targets = _by_lane(metrics, p.SLO_TARGET_RATIO)
    return [
        Budget(
            lane=lane,
            objective=Objective(objective),
            thresholds=(min(thresholds), max(thresholds)),
            targets=(min(aimed := targets.get((lane, objective), [0.0])), max(aimed)),
            now=recent.get((lane, objective), Tally()),
            ever=ever.get((lane, objective), Tally()),
        )
        for (lane, objective), thresholds in sorted(_by_lane(metrics, p.SLO_THRESHOLD_SECONDS).items())
    ]


def _tallies(then: Snapshot | None, now: Snapshot) -> Sliced[dict[Labels, Tally]]:
    requests = yield from counted(then, now, p.SLO_REQUESTS_TOTAL, "lane", "objective")
    misses = yield from counted(then, now, p.SLO_MISSES_TOTAL, "lane", "objective")
    allowed = yield from counted(then, now, p.SLO_ALLOWED_MISSES_TOTAL, "lane", "objective")
    return {who: Tally(count, misses.get(who, 0.0), allowed.get(who, 0.0)) for who, count in requests.items()}


def _by_lane(metrics: Metrics, metric: Gauge) -> dict[tuple[str, str], list[float]]:
    """(lane, objective) to the values of all prompt lengths."""
    found: dict[tuple[str, str], list[float]] = {}
    for (lane, _, objective), child in metrics.gauge(metric).children.items():
        if child.value is not None:
            found.setdefault((lane, objective), []).append(child.value)
    return found
