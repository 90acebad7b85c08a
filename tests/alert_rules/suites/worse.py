"""One pod of many that burns slowly: a ticket, unless a page or an alert of a lane tells it (alert_rules/pages.py).

The worse pod has a sixth of the other pod's requests, so that its lane spends less than its budget, unless a scenario says otherwise:
a lane's alert comes first.
"""

from tests.alert_rules.promtool import Happens, Scenario, Suite
from tests.alert_rules.suites.odd import Pod, fleet
from tests.alert_rules.world import Traffic, broken, lane


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


def then(*shares: float) -> Happens:
    """A worse pod whose misses change."""
    pod = tuple(broken("prefill", share, FEW / COUNTED) for share in shares)
    return fleet(pod, well() * len(shares))


SUITE.cases(
    (10, 15),
    (
        "a pod that grows worse",
        "Half an hour has to miss twice the budget, for two minutes.",
        then(0, 0.3),
        {16.5: NONE, 18: PREFILL},
    ),
    (
        "a worse pod that is nearly well",
        "Its ticket ends when five minutes are within the budget.",
        then(0.3, 0.048),
        {10: PREFILL, 24: NONE},
    ),
    (
        "a worse pod that still spends more",
        "Its ticket goes on while it spends more than its budget.",
        then(0.3, 0.052),
        {24: PREFILL},
    ),
)


@SUITE.scenario(*(2, 3) * 8)
def a_worse_pod_of_uneven_traffic(scenario: Scenario) -> None:
    """Requests that come in heaps leave minutes without a miss: one ticket, and no gap in it."""
    fleet((Traffic(per_minute=4), broken("prefill", 0.4, 12)) * 8, well() * 16)(scenario)
    mine = f'ALERTS{{namespace="{scenario.name}",alertstate="firing"}}'

    scenario.alerts(15, PREFILL)
    scenario.yields(f"min(count_over_time({mine}[19m45s]))", 35, ("", {}, 40))


@SUITE.scenario(3, 6, 39)
def a_pod_that_paged_and_goes_on_more_slowly(scenario: Scenario) -> None:
    """Half an hour after its page it has a ticket."""
    then(0, 0.9, 0.3)(scenario)

    scenario.alerts(9, "LLMPodBurn page prefill")
    scenario.alerts(36)
    scenario.alerts(47, PREFILL)


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
