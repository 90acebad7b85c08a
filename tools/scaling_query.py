"""The query by which an autoscaler decides how many replicas of an engine are wanted: a ratio, 1 where the present number is right.

A HorizontalPodAutoscaler, KEDA's too, keeps the replicas that its workload states while a ratio is within a tenth of its target 1, and
else wants the pods that are *ready*, times the ratio, rounded up (Kubernetes' `replica_calculator.go`, `getUsageRatioReplicaCount`). So
a ratio of exactly 1 holds whatever the pods do, and any other one is true only where the ready pods are those that are wanted: while a
pod loads its model, surges or terminates, or its sidecar cannot be scraped, the ratio is 1, and what was needed comes right after it.

Only one fault is mended by replicas: more work than the fleet has room for. The sidecars name it: the root of their misses is `queue`.
Then, and only then, the ratio may be above 1: the requests in the engines beside what these hold. While anything else burns (an engine
that is down, a slow node, a slow hop, a sidecar without CPU), and while it is not decided yet, it is 1: no replica is added, and none
is taken away from a fleet in trouble. While nothing burns it may be below 1.

No series, no number: an autoscaler then keeps what it has. Knows PromQL, and the series of kube-state-metrics where Prometheus has them.
"""

from sidecar.commands.export.rules.burn import SLOW
from sidecar.metrics.catalogue import (
    ENGINE_REQUESTS_RUNNING,
    ENGINE_REQUESTS_WAITING,
    READY,
    REQUESTS_IN_FLIGHT,
    SLO_ALLOWED_MISSES_TOTAL,
    SLO_MISSES_TOTAL,
    SLO_ROOT_CAUSE_MISSES_TOTAL,
    SLO_UNDECIDED_MISSES,
)
from sidecar.objectives.attribution import Blame
from sidecar.objectives.page_limits import LEAST_CONFIDENCE


SCALING_WINDOW = "2m"
"""Long enough for two scrapes a minute apart, and for the 15 s in which a root may be undecided."""
SETTLED_FOR = "1m"
"""The time for which the pods must have been ready: between a pod that has gone and the first scrape of the one in its place, those that
Prometheus knows are all ready."""
LEAST_MISSES = 3
"""Misses in the window from which on an objective may burn; it does if they are the multiple of the allowed ones that is a ticket (`SLOW`)."""
_STATED = (("kube_deployment_spec_replicas", "deployment"), ("kube_statefulset_replicas", "statefulset"))
"""kube-state-metrics 2.x: the replicas that a workload states, with the label that has its name."""
_OF_A_NAME = "[bcdf-hj-np-tv-xz2456789]"
"""A character of the names that Kubernetes makes up: `alphanums` of apimachinery's `pkg/util/rand`."""


def pods_of(workload: str) -> str:
    """Regular expression for the pods of one workload, and of none whose name begins alike: NAME-HASH-XXXXX of a Deployment of at most
    46 characters (a longer name is cut in its pods' names), NAME-ORDINAL of a StatefulSet.
    """
    return f"{workload}-({_OF_A_NAME}{{1,10}}-{_OF_A_NAME}{{5}}|[0-9]+)"


def scaling_ratio(namespace: str, workload: str, requests_per_replica: int) -> str:
    """PromQL for the replicas wanted beside those that there are, to be compared with a target of the *value* 1.

    `requests_per_replica`: requests that one engine works on at once within its objectives, at least 1 (docs/scaling.md says how to find
    it). What an engine holds is that number only while nothing burns, and where the engine does not state what it runs: one in which
    requests wait holds what it runs.
    """
    there = f'namespace="{namespace}"'
    selector = f'{there},pod=~"{pods_of(workload)}"'

    def of(name: str, *matchers: str) -> str:
        return f"{name}{{{','.join((selector, *matchers))}}}"

    def grown(name: str, *matchers: str) -> str:
        return f"sum(increase({of(name, *matchers)}[{SCALING_WINDOW}]))"

    # A pod may be several targets. `up` knows those whose scrape fails too, kube-state-metrics those that no node has yet.
    alive = of("kube_pod_status_phase", 'phase=~"Pending|Running"')
    pods = f"count by (pod) ({of('up')} or {of(READY.name)} or {alive} == 1)"
    ready = f"sum(max by (pod) ({of(READY.name)}))"
    stated = " or ".join(f'{name}{{{there},{label}="{workload}"}}' for name, label in _STATED)
    settled = f"min_over_time(({ready} == bool count({pods}))[{SETTLED_FOR}:15s]) == 1 unless max({stated}) != {ready}"

    running, waiting = of(ENGINE_REQUESTS_RUNNING.name), of(ENGINE_REQUESTS_WAITING.name)
    in_engine = f"max by (pod) ({running}) + max by (pod) ({waiting})"
    inside = f"sum({in_engine} or sum by (pod) ({of(REQUESTS_IN_FLIGHT.name)}))"
    held = f"(max(max_over_time({running}[{SCALING_WINDOW}])) > 0)"

    misses, roots = grown(SLO_MISSES_TOTAL.name), SLO_ROOT_CAUSE_MISSES_TOTAL.name
    burning = f"({misses} >= {LEAST_MISSES} and {misses} >= {SLOW.at_least:g} * {grown(SLO_ALLOWED_MISSES_TOTAL.name)})"
    queue = grown(roots, f'phase="{Blame.QUEUE}"')
    named = f"{queue} >= {LEAST_CONFIDENCE:g} * ({grown(roots)} + sum({of(SLO_UNDECIDED_MISSES.name)}))"
    mean = f"/ ({ready} > 0)"
    return "\n".join(
        (
            f"(clamp_min(({inside} / {held} or {inside} / {requests_per_replica}) {mean}, 1) and {burning} and {named}",
            f"or clamp_max({inside} / {requests_per_replica} {mean}, 1) unless {burning})",
            f"and ({settled})",
            f"or group({pods})",
        )
    )
