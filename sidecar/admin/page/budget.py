"""Error budgets for the status page: objectives, and their misses in the window and since the process began. Pure.

A burn rate is misses over allowed misses, read from the counters: the same division as in the recording rules, over a
window that the page states. Refuses to state a monthly budget: a process knows only the time since its start.
"""

from dataclasses import dataclass

from sidecar.history.growth import Labels
from sidecar.history.slices import Sliced
from sidecar.history.snapshot import Snapshot, counted
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Gauge
from sidecar.metrics.registry import Metrics
from sidecar.objectives.objective import Objective


@dataclass(frozen=True, slots=True)
class Tally:
    """Requests and misses of one objective over some time."""

    requests: float = 0.0
    """Requests that are judged: met or missed."""
    misses: float = 0.0
    allowed: float = 0.0
    """Misses that the targets allow for this number of requests."""

    @property
    def burn(self) -> float | None:
        """Misses over allowed misses: at 1 the budget lasts exactly for its period. None: no request was judged."""
        return self.misses / self.allowed if self.allowed > 0 else None

    @property
    def missed(self) -> float | None:
        """Share of the judged requests that missed, 0 to 1; None if no request was judged."""
        return self.misses / self.requests if self.requests else None


@dataclass(frozen=True, slots=True)
class Budget:
    """One objective of a lane, over all its prompt lengths."""

    lane: str
    objective: Objective
    thresholds: tuple[float, float]
    """Thresholds in seconds: the lowest and the highest over all prompt lengths."""
    targets: tuple[float, float]
    """Targets, 0 to 1: the lowest and the highest over all prompt lengths."""
    now: Tally
    """Counted over the window of the page."""
    ever: Tally
    """Counted since this process began."""


def budgets(metrics: Metrics, then: Snapshot, now: Snapshot) -> Sliced[list[Budget]]:
    """One budget per lane and objective of the config in force, also if no request was judged yet."""
    recent = yield from _tallies(then, now)
    ever = yield from _tallies(None, now)
    targets = _by_lane(metrics, c.SLO_TARGET_RATIO)
    return [
        Budget(
            lane=lane,
            objective=Objective(objective),
            thresholds=(min(thresholds), max(thresholds)),
            targets=(min(aimed := targets.get((lane, objective), [0.0])), max(aimed)),
            now=recent.get((lane, objective), Tally()),
            ever=ever.get((lane, objective), Tally()),
        )
        for (lane, objective), thresholds in sorted(_by_lane(metrics, c.SLO_THRESHOLD_SECONDS).items())
    ]


def _tallies(then: Snapshot | None, now: Snapshot) -> Sliced[dict[Labels, Tally]]:
    requests = yield from counted(then, now, c.SLO_REQUESTS_TOTAL, "lane", "objective")
    misses = yield from counted(then, now, c.SLO_MISSES_TOTAL, "lane", "objective")
    allowed = yield from counted(then, now, c.SLO_ALLOWED_MISSES_TOTAL, "lane", "objective")
    return {who: Tally(count, misses.get(who, 0.0), allowed.get(who, 0.0)) for who, count in requests.items()}


def _by_lane(metrics: Metrics, metric: Gauge) -> dict[tuple[str, str], list[float]]:
    """(lane, objective) to the gauge's values of all prompt lengths."""
    found: dict[tuple[str, str], list[float]] = {}
    for (lane, _, objective), child in metrics.gauge(metric).children.items():
        if child.value is not None:
            found.setdefault((lane, objective), []).append(child.value)
    return found
