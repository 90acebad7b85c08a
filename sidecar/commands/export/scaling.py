"""The query by which an autoscaler decides how many replicas of an engine are wanted: one number, in replicas.

Only one fault is mended by replicas: more work than the fleet has room for. The sidecars name it: the root of their misses is
`queue`. So the number rises above the present replicas only while an objective burns and the queue is the root of most of its misses;
misses whose root is not decided yet do not count for it. While anything else burns (an engine that is down, a slow node, a slow hop, a
sidecar without CPU) it is the number of replicas that there are: no replica is added, and none is taken away from a fleet in
trouble. Else it may fall, to what the requests in flight need. A replica whose engine does not answer, as while it loads its model,
or whose sidecar cannot be scraped, has no room: its arrival is waited for before another one is asked for, and it is never taken for
idle. So the replicas that there are are the pods that Prometheus finds, those whose scrape fails too; sidecars are counted only where
Prometheus keeps no `up`.

No series, no number: an autoscaler then keeps what it has. Knows PromQL, and no autoscaler.
"""

from sidecar.commands.export.rules.burn import SLOW
from sidecar.metrics.catalogue import (
    ENGINE_REQUESTS_WAITING,
    ENGINE_UP,
    REQUESTS_IN_FLIGHT,
    SIDECAR_BUILD_INFO,
    SLO_ALLOWED_MISSES_TOTAL,
    SLO_MISSES_TOTAL,
    SLO_ROOT_CAUSE_MISSES_TOTAL,
    SLO_UNDECIDED_MISSES,
)
from sidecar.objectives.attribution import Blame
from sidecar.objectives.page_limits import LEAST_CONFIDENCE


SCALING_WINDOW = "2m"
"""Long enough for two scrapes a minute apart, and for the 15 s in which a root may be undecided."""
LEAST_MISSES = 3
"""Misses in the window from which on an objective may burn; it does if they are the multiple of the allowed ones that is a ticket (`SLOW`)."""
_SCRAPED = "up"
"""Prometheus' own series of each target, 0 while its scrape fails. A pod may be several targets."""
_OF_A_NAME = "[bcdf-hj-np-tv-xz2456789]"
"""A character of the names that Kubernetes makes up: `alphanums` of apimachinery's `pkg/util/rand`."""


def pods_of(workload: str) -> str:
    """Regular expression for the pods of one workload, and of none whose name begins alike: NAME-HASH-XXXXX of a Deployment of at most
    46 characters (a longer name is cut in its pods' names), NAME-ORDINAL of a StatefulSet.
    """
    return f"{workload}-({_OF_A_NAME}{{1,10}}-{_OF_A_NAME}{{5}}|[0-9]+)"


def replicas_wanted(selector: str, requests_per_replica: int) -> str:
    """PromQL for the replicas wanted, to be compared with a target of 1 for each replica.

    `selector`: label matchers of one workload's sidecars, without braces. `requests_per_replica`: requests that one engine works on
    at once within its objectives, at least 1 (docs/scaling.md says how to find it).
    """

    def of(name: str, *matchers: str) -> str:
        return f"{name}{{{','.join((selector, *matchers))}}}"

    def grown(name: str, *matchers: str) -> str:
        return f"sum(increase({of(name, *matchers)}[{SCALING_WINDOW}]))"

    replicas = f"(count(count by (pod) ({of(_SCRAPED)})) or count({of(SIDECAR_BUILD_INFO.name)}))"
    working = f"(count({of(ENGINE_UP.name)} == 1) or vector(0))"
    before_output = of(REQUESTS_IN_FLIGHT.name, 'state="waiting"')  # where the engine does not tell its queue
    waiting = f"(sum({of(ENGINE_REQUESTS_WAITING.name)}) or sum({before_output}))"
    misses, roots = grown(SLO_MISSES_TOTAL.name), SLO_ROOT_CAUSE_MISSES_TOTAL.name
    burning = f"({misses} >= {LEAST_MISSES} and {misses} >= {SLOW.at_least:g} * {grown(SLO_ALLOWED_MISSES_TOTAL.name)})"
    queue = grown(roots, f'phase="{Blame.QUEUE}"')
    named = f"({queue} >= {LEAST_CONFIDENCE:g} * ({grown(roots)} + sum({of(SLO_UNDECIDED_MISSES.name)})))"
    needed = f"{working} + {waiting} / {requests_per_replica}"
    in_use = f"sum({of(REQUESTS_IN_FLIGHT.name)}) / {requests_per_replica} + {replicas} - {working}"
    return "\n".join(
        (
            f"({needed} > {replicas} or {replicas}) and {burning} and {named}",
            f"or {replicas} and {burning}",
            f"or {in_use} < {replicas}",
            f"or {replicas}",
        )
    )
