"""The arithmetic of a HorizontalPodAutoscaler with one external metric of type Value, as Kubernetes 1.34 does it.

`getUsageRatioReplicaCount` of `pkg/controller/podautoscaler/replica_calculator.go` gives the replicas that the metric wants,
`stabilizeRecommendationWithBehaviors` and `convertDesiredReplicasWithBehaviorRate` of `horizontal.go` how soon they come. KEDA makes such
an object of its own and leaves the arithmetic to Kubernetes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil, trunc
from typing import Any


SYNC_SECONDS = 15.0
TOLERANCE = 0.1
_UNSTABILISED = {"scaleUp": 0.0, "scaleDown": 300.0}


@dataclass(frozen=True, slots=True)
class Bounded:
    """One autoscaler states these: the target's type and value, the bounds, and the behaviour of both directions."""

    target_type: str
    target: float
    least: int
    most: int
    behavior: Mapping[str, Mapping[str, Any]]


def of_hpa(spec: Mapping[str, Any]) -> Bounded:
    """The `spec` of a HorizontalPodAutoscaler (autoscaling/v2)."""
    target = spec["metrics"][0]["external"]["target"]
    value = float(target["value" if target["type"] == "Value" else "averageValue"])
    return Bounded(target["type"], value, spec["minReplicas"], spec["maxReplicas"], spec["behavior"])


def of_keda(spec: Mapping[str, Any]) -> Bounded:
    """The `spec` of a ScaledObject (keda.sh/v1alpha1), as `getHPASpec` of KEDA 2.17 hands it on."""
    trigger = spec["triggers"][0]
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    value = float(trigger["metadata"]["threshold"])
    return Bounded(trigger["metricType"], value, spec["minReplicaCount"], spec["maxReplicaCount"], behavior)


def played(given: Bounded, replicas: int, seen: Iterable[tuple[float | None, int]]) -> list[int]:
    """The replicas that the workload states after each sync. `seen`: the metric (None without one) and the pods that are ready then."""
    assert given.target_type == "Value", (
        f"{given.target_type} counts every pod that there is, those that surge and terminate too"
    )
    stated, changes, told = replicas, [(0.0, replicas)], [(0.0, replicas)]
    made = []
    for sync, (metric, ready) in enumerate(seen):
        now = sync * SYNC_SECONDS
        if metric is not None:
            ratio = trunc(metric * 1000) / (given.target * 1000)
            wanted = stated if abs(1 - ratio) <= TOLERANCE else ceil(ratio * ready)
            told.append((now, wanted))
            allowed = _within(stated, _stable(given, stated, told, now), changes, given, now)
            stated = min(max(allowed, given.least), given.most)
            changes.append((now, stated))
        made.append(stated)
    return made


def _stable(given: Bounded, stated: int, told: list[tuple[float, int]], now: float) -> int:
    """The least that was wanted in the window of rises, the most in that of falls."""

    def within(way: str) -> list[int]:
        window = given.behavior[way].get("stabilizationWindowSeconds", _UNSTABILISED[way])
        return [told[-1][1], *(wanted for at, wanted in told if at > now - window)]

    return min(max(stated, min(within("scaleUp"))), max(within("scaleDown")))


def _within(stated: int, wanted: int, changes: list[tuple[float, int]], given: Bounded, now: float) -> int:
    """`wanted`, no further from the replicas of a period ago than the policy of this direction lets it go."""
    if wanted == stated:
        return wanted
    way = "scaleUp" if wanted > stated else "scaleDown"
    (policy,) = given.behavior[way]["policies"]
    assert policy["type"] == "Pods"
    before = [count for at, count in changes if at <= now - policy["periodSeconds"]]
    began = before[-1] if before else changes[0][1]
    step = int(policy["value"])
    if way == "scaleUp":
        return max(stated, min(wanted, began + step))
    return min(stated, max(wanted, began - step))
