"""One pod of many that burns slowly: a ticket, unless a page or an alert of a lane tells it (alert_rules/pages.py).

The fleet is well for more than an hour, so that the lanes' windows of half an hour dilute what begins then.
"""

from tests.alert_rules.promtool import Scenario, Suite
from tests.alert_rules.suites.odd import FINE, Pod, fleet, misses, slow
from tests.alert_rules.world import Traffic, broken, lane


SUITE = Suite("worse-pods", step_seconds=30, evaluation_seconds=30)
BEFORE = 70.0
TOLD = BEFORE + 23.5
"""By then its quarter of an hour is over, and no lane burns yet."""
SEVEN = 7
BOTH = (
    ("", {"alertname": "LLMDecodeBurn", "objective": "tpot"}, 1),
    ("", {"alertname": "LLMPodBurn"}, 1),
)
PREFILL, NONE = "LLMPodBurn ticket prefill", ""


def others(share: float) -> list[Pod]:
    return [misses(share)] * SEVEN


def split(queue: float) -> Pod:
    return Traffic(), broken("prefill", 0.3, queue=queue)


def decided(count: float) -> Pod:
    """So many of its misses are decided in the 6 minutes of 15 that are asked."""
    return Traffic(), Traffic(0.3, {"prefill": count / 6 / 36})


SUITE.cases(
    (BEFORE, 38),
    ("twice its budget", "A ticket.", fleet(misses(0.102), FINE), {TOLD: PREFILL}),
    ("less than twice its budget", "None.", fleet(misses(0.098), FINE), {TOLD: NONE}),
    ("three times as much as seven others", "A ticket.", fleet(misses(0.3), *others(0.099)), {TOLD: PREFILL}),
    ("less than three times as much", "None.", fleet(misses(0.3), *others(0.101)), {TOLD: NONE}),
    (
        "twenty requests in five minutes",
        "They are enough to compare.",
        fleet(misses(0.5, 4.1), *[slow(4.1)] * SEVEN),
        {TOLD: PREFILL},
    ),
    ("too few requests on the worse pod", "It is not compared.", fleet(misses(0.6, 3.9), FINE, FINE), {TOLD: NONE}),
    ("requests on another pod", "Twenty are enough.", fleet(misses(0.102), slow(4.1)), {TOLD: PREFILL}),
    (
        "too few requests on the other pod",
        "There is nothing to compare with.",
        fleet(misses(0.102), slow(3.9)),
        {TOLD: NONE},
    ),
    ("ten misses in five minutes", "They are enough.", fleet(misses(0.102, 20), FINE), {TOLD: PREFILL}),
    ("nine misses in five minutes", "They are too few.", fleet(misses(0.102, 19), FINE), {TOLD: NONE}),
    ("six of ten misses of one root", "It leads.", fleet(split(0.39), *[FINE] * SEVEN), {TOLD: PREFILL}),
    (
        "roots of a worse pod that are split",
        "None leads.",
        fleet(split(0.41), *[FINE] * SEVEN),
        {TOLD: "LLMPodBurn ticket unattributed"},
    ),
    (
        "three decided misses of a quarter of an hour",
        "They are enough.",
        fleet(decided(3.2), *[FINE] * SEVEN),
        {BEFORE + 33: PREFILL},
    ),
    (
        "two decided misses of a quarter of an hour",
        "They are too few.",
        fleet(decided(2.1), *[FINE] * SEVEN),
        {BEFORE + 33: "LLMPodBurn ticket unattributed"},
    ),
    (
        "a worse pod of two",
        "Its ticket goes when the lane has one, which names it.",
        fleet(misses(0.21), FINE),
        {BEFORE + 22: PREFILL, BEFORE + 37: "LLMPrefillBurn ticket"},
    ),
    (
        "a quarter of an hour",
        "So long it has to last.",
        fleet(misses(0.3), *[FINE] * SEVEN),
        {BEFORE + 16: NONE, BEFORE + 20.5: PREFILL},
    ),
)


@SUITE.scenario(BEFORE, 6, 30)
def a_pod_that_paged_and_goes_on_more_slowly(scenario: Scenario) -> None:
    """Its page tells it until five minutes after it was odd; then the quarter of an hour begins."""
    spans = (Traffic(), broken("prefill", 0.9), broken("prefill", 0.3))
    fleet(spans, *[(Traffic(),) * 3] * SEVEN)(scenario)

    scenario.alerts(BEFORE + 6, "LLMPodBurn page prefill")
    scenario.alerts(BEFORE + 25)
    scenario.alerts(BEFORE + 30, PREFILL)


@SUITE.scenario(BEFORE, 33)
def a_worse_pod_and_another_objective_that_burns_slowly(scenario: Scenario) -> None:
    """The lane's ticket is about TPOT; the pod's about TTFT stays."""
    fleet(misses(0.3), *[FINE] * SEVEN)(scenario)
    for number in range(SEVEN + 1):
        lane(scenario, Traffic(), broken("decode", 0.3), pod=f"engine-{number}", objective="tpot")

    mine = f'ALERTS{{namespace="{scenario.name}",alertstate="firing",severity="ticket"}}'
    scenario.yields(f"count by (alertname, objective) ({mine})", BEFORE + 33, *BOTH)
