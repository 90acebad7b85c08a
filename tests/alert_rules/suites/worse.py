"""One pod of many that burns slowly: a ticket, unless a page or an alert of a lane tells it (alert_rules/pages.py).

The worse pod has a sixth of the other pod's requests, so that its lane spends less than its budget, unless a scenario says otherwise:
a lane's alert comes first.
"""

from tests.alert_rules.promtool import Happens, Scenario, Suite
from tests.alert_rules.suites.odd import Pod, fleet
from tests.alert_rules.world import WELL, Traffic, broken, lane


SUITE = Suite("worse-pods", step_seconds=30, evaluation_seconds=30)
TOLD = 15.0
COUNTED = 12
"""Minutes of which the requests are counted two minutes before."""
MANY, FEW = 1440, 240
"""Requests in these minutes, of the other pod and of the worse one."""
PREFILL, UNNAMED, NONE = "LLMPodBurn ticket prefill", "LLMPodBurn ticket unattributed", ""


def misses(share: float, requests: float = FEW) -> Pod:
    return (broken("prefill", share, requests / COUNTED),)


def well(requests: float = MANY) -> Pod:
    return (Traffic(per_minute=requests / COUNTED),)


def split(queue: float, requests: float = FEW) -> Pod:
    return (broken("prefill", 0.3, requests / COUNTED, queue=queue),)


def decided(count: float) -> Pod:
    """So many of its misses are decided."""
    return (Traffic(0.3, {"prefill": count / (0.3 * FEW)}, FEW / COUNTED),)


def two_lanes(requests_elsewhere: float) -> Happens:
    """Neither lane has ten misses, so that neither has an alert; the pod has."""

    def tell(scenario: Scenario) -> None:
        fleet(misses(0.3, 23), well(requests_elsewhere))(scenario)
        lane(scenario, *misses(0.3, 23), lane="batch")

    return tell


SUITE.cases(
    (TOLD,),
    ("twice its budget", "A ticket.", fleet(misses(0.102), well()), {TOLD: PREFILL}),
    ("less than twice its budget", "None.", fleet(misses(0.098), well()), {TOLD: NONE}),
    ("three times as much as the other", "A ticket.", fleet(misses(0.12, 120), misses(0.039, MANY)), {TOLD: PREFILL}),
    ("less than three times as much", "None.", fleet(misses(0.12, 120), misses(0.041, MANY)), {TOLD: NONE}),
    ("twenty requests", "They are enough.", fleet(misses(0.6, 20.5), well()), {TOLD: PREFILL}),
    (
        "too few requests on the worse pod",
        "It is not compared.",
        fleet(misses(0.6, 19.5), well(), well()),
        {TOLD: NONE},
    ),
    ("requests on another pod", "Twenty are enough.", two_lanes(20.5), {TOLD: PREFILL}),
    ("too few requests on the other pod", "There is nothing to compare with.", two_lanes(16), {TOLD: NONE}),
    ("ten misses", "They are enough.", fleet(misses(0.3, 34), well()), {TOLD: PREFILL}),
    ("nine misses", "They are too few.", fleet(misses(0.3, 32), well()), {TOLD: NONE}),
    ("six of ten misses of one root", "It leads.", fleet(split(0.39), well()), {TOLD: PREFILL}),
    ("roots of a worse pod that are split", "None leads.", fleet(split(0.41), well()), {TOLD: UNNAMED}),
    ("three decided misses of a worse pod", "They are enough.", fleet(decided(3.1), well()), {TOLD: PREFILL}),
    ("two decided misses of a worse pod", "They are too few.", fleet(decided(2.4), well()), {TOLD: UNNAMED}),
    ("a worse pod of two", "Its lane tells it.", fleet(misses(0.21, MANY), well()), {TOLD: "LLMPrefillBurn ticket"}),
    (
        "a worse pod of two whose roots are split",
        "So does its lane.",
        fleet(split(0.41, MANY), well()),
        {TOLD: "LLMUnattributedBurn ticket"},
    ),
)


def then(*shares: float, per_minute: float = FEW / COUNTED, others: tuple[float, ...] = ()) -> Happens:
    """A worse pod whose misses change. `others`: what the other pod misses meanwhile; none, unless told."""
    pod = tuple(broken("prefill", share, per_minute) for share in shares)
    other = tuple(broken("prefill", share) for share in others or (0,) * len(shares))
    return fleet(pod, other)


def no_longer(*phases: str) -> Happens:
    """A worse pod whose root changes."""
    pod = tuple(broken(phase, 0.12, FEW / COUNTED) for phase in phases)
    return fleet(pod, well() * len(phases))


SUITE.cases(
    (14, 18),
    (
        "a pod that grows worse",
        "It has a ticket when its misses stand in five times of 2 minutes, two minutes later.",
        then(0, 0.3),
        {25.5: NONE, 27: PREFILL},
    ),
    (
        "a worse pod that is nearly well",
        "Its ticket ends ten minutes after the five that are within the budget.",
        then(0.3, 0.048),
        {14: PREFILL, 28: PREFILL, 32: NONE},
    ),
    (
        "a worse pod that still spends more",
        "Its ticket goes on while it spends more than its budget.",
        then(0.3, 0.052),
        {32: PREFILL},
    ),
)
SUITE.cases(
    (18, 20),
    (
        "a worse pod beside one that grows as bad",
        "In five minutes, it no longer misses three times as much.",
        then(0.12, 0.12, per_minute=10, others=(0, 0.041)),
        {18: PREFILL, 37: NONE},
    ),
    (
        "a worse pod beside one that grows nearly as bad",
        "It still misses three times as much.",
        then(0.12, 0.12, per_minute=10, others=(0, 0.039)),
        {37: PREFILL},
    ),
    (
        "a worse pod beside one that was as bad",
        "In half an hour, it does not miss three times as much.",
        then(0.105, 0.105, per_minute=10, others=(0.06, 0)),
        {30.5: NONE},
    ),
    (
        "a worse pod beside one that was nearly as bad",
        "It does.",
        then(0.105, 0.105, per_minute=10, others=(0.043, 0)),
        {29: PREFILL},
    ),
)
SUITE.cases(
    (40, 30),
    (
        "a pod that slowly grows worse",
        "It has spent twice the budget of half an hour after most of it.",
        then(0, 0.13),
        {62: NONE, 68: PREFILL},
    ),
    (
        "a worse pod with another root",
        "The root of the last half hour counts.",
        no_longer("decode", "prefill"),
        {70: PREFILL},
    ),
)


@SUITE.scenario(10, 6, 32, 6, 10)
def bad_times_of_six_minutes(scenario: Scenario) -> None:
    """Each is over, and neither is a slow burn."""
    then(0, 0.9, 0, 0.9, 0, per_minute=9)(scenario)
    mine = f'ALERTS{{namespace="{scenario.name}",alertstate="firing",severity="ticket"}}'

    scenario.yields(f"count_over_time({mine}[1h])", 64)


@SUITE.scenario(20, 15)
def pods_that_begin_when_all_grow_bad(scenario: Scenario) -> None:
    """A new pod has not seen the good times of the others: no ticket."""
    bad = broken("queue", 0.12)
    fleet((Traffic(per_minute=0), bad), (WELL, bad), (WELL, bad))(scenario)
    mine = f'ALERTS{{namespace="{scenario.name}",alertstate="firing",alertname="LLMPodBurn"}}'

    scenario.yields(f"count_over_time({mine}[35m])", 35)


@SUITE.scenario(*(7, 3) * 6)
def a_worse_pod_of_uneven_traffic(scenario: Scenario) -> None:
    """Requests that come in heaps leave minutes without a miss: one ticket, and no gap in it."""
    fleet((Traffic(per_minute=4), broken("prefill", 0.4, 12)) * 6, well() * 12)(scenario)
    mine = f'ALERTS{{namespace="{scenario.name}",alertstate="firing"}}'

    scenario.alerts(34, PREFILL)
    scenario.yields(f"min(count_over_time({mine}[25m45s]))", 60, ("", {}, 52))


for queue, page, ticket in ((0.0, "LLMPodBurn page prefill", PREFILL), (0.41, "LLMPodBurn page unattributed", UNNAMED)):

    def paged(scenario: Scenario, queue: float = queue, page: str = page, ticket: str = ticket) -> None:
        pod = (Traffic(per_minute=20), *(broken("prefill", share, 20, queue=queue) for share in (0.9, 0.3)))
        fleet(pod, well() * 3)(scenario)

        scenario.alerts(9, page)
        scenario.alerts(16, page)
        scenario.alerts(20, ticket)

    paged.__name__ = f"a pod that had its {page} and goes on more slowly".replace("LLMPodBurn ", "")
    paged.__doc__ = "Its page ends, and it has a ticket."
    SUITE.scenario(3, 6, 11)(paged)


@SUITE.scenario(TOLD)
def a_worse_pod_and_another_objective_that_burns_slowly(scenario: Scenario) -> None:
    """The lane's ticket is about TPOT; the pod's about TTFT stays."""
    fleet(misses(0.12), well())(scenario)
    for number in range(2):
        lane(scenario, broken("decode", 0.3), pod=f"engine-{number}", objective="tpot")

    mine = f'ALERTS{{namespace="{scenario.name}",alertstate="firing",severity="ticket"}}'
    both = (
        ("", {"alertname": "LLMDecodeBurn", "objective": "tpot"}, 1),
        ("", {"alertname": "LLMPodBurn"}, 1),
    )
    scenario.yields(f"count by (alertname, objective) ({mine})", TOLD, *both)
