"""One bad pod of many: it has a page of its own, and its lanes have none (alert_rules/roots.py)."""

from tests.alert_rules.promtool import LANE, MODEL, Happens, Scenario, Suite, of
from tests.alert_rules.world import WELL, Traffic, broken, causes, lane, undecided


SUITE = Suite("odd-pods")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}
Pod = tuple[Traffic, ...]
FINE: Pod = (WELL, WELL)


def fleet(*pods: Pod, target: float = 0.95) -> Happens:
    """Each pod's traffic, span by span; roots are told by cause too."""

    def happens(scenario: Scenario) -> None:
        for number, spans in enumerate(pods):
            lane(scenario, *spans, pod=f"engine-{number}", target=target)
            causes(scenario, *spans, pod=f"engine-{number}")

    return happens


def misses(share: float, per_minute: float = 120) -> Pod:
    """From the second span on."""
    return Traffic(per_minute=per_minute), broken("prefill", share, per_minute)


def slow(per_minute: float) -> Pod:
    return (Traffic(per_minute=per_minute),) * 2


for name, promise, happens, is_odd in (
    ("three times the others", "It is odd.", fleet(misses(0.9), misses(0.29), misses(0.29)), True),
    ("less than three times the others", "It is not.", fleet(misses(0.9), misses(0.31), misses(0.31)), False),
    ("twenty requests each", "They are enough to compare.", fleet(misses(0.9, 10.2), slow(10.2)), True),
    ("too few requests on the odd one", "It is not compared.", fleet(misses(0.9, 9.8), FINE, FINE), False),
    ("too few requests on the other", "There is nothing to compare with.", fleet(misses(0.9), slow(9.8)), False),
    ("half of its requests", "It burns, whatever the target.", fleet(misses(0.51), FINE, target=0.8), True),
    ("less than half of its requests", "It does not.", fleet(misses(0.49), FINE, target=0.8), False),
    ("ten times its budget", "It burns.", fleet(misses(0.102), FINE, target=0.99), True),
    ("less than ten times its budget", "It does not.", fleet(misses(0.098), FINE, target=0.99), False),
    ("ten misses of its own", "They are enough.", fleet(misses(0.34, 15), FINE, target=0.99), True),
    ("nine misses of its own", "They are too few.", fleet(misses(0.32, 15), FINE, target=0.99), False),
):

    def tell(scenario: Scenario, happens: Happens = happens, is_odd: bool = is_odd) -> None:
        happens(scenario)
        scenario.records("pod:llm_slo:odd", 8, *([({"model": MODEL, "pod": "engine-0"}, 1.0)] if is_odd else []))

    tell.__name__, tell.__doc__ = name, promise
    SUITE.scenario(6, 2)(tell)

NAMED, UNNAMED = "LLMPodBurn page prefill", "LLMPodBurn page unattributed"
FIRST = broken("prefill", 0.9, queue=0.39), broken("prefill", 0.9, queue=0.41)
THREE, TWO = (Traffic(0.9, {"decode": count / 2 / 108}) for count in (3.1, 2.8))
for name, promise, happens, pages in (
    *(
        (f"one of {size}", "Named within two minutes.", fleet(misses(0.9), *[FINE] * (size - 1)), {8: "prefill"})
        for size in (2, 3, 8, 16)
    ),
    ("roots that lead on a pod", "Six of ten are enough.", fleet((WELL, FIRST[0]), FINE), {8: "prefill"}),
    (
        "roots that are split",
        "None leads: after three minutes.",
        fleet((WELL, FIRST[1]), FINE),
        {9: "", 10.75: "unattributed"},
    ),
    ("three decided misses", "They are enough.", fleet((WELL, THREE), FINE), {8: "decode", 11: "decode"}),
    ("two decided misses", "They are too few.", fleet((WELL, TWO), FINE), {11: "unattributed"}),
    ("a pod that decides nothing", "Its page says so.", fleet((WELL, undecided()), FINE), {11: "unattributed"}),
):

    def page(scenario: Scenario, happens: Happens = happens, pages: dict[float, str] = pages) -> None:  # type: ignore[assignment]
        happens(scenario)
        for minute, phase in pages.items():
            scenario.pages(minute, *(["LLMPodBurn"] if phase else []), phase=phase)
        scenario.records("lane:llm_slo_miss:ratio_rate5m", 8, (WHO, 0))

    page.__name__, page.__doc__ = name, promise
    SUITE.scenario(6, 6)(page)


for since, told in ((5.25, ""), (4.75, UNNAMED)):

    def young(scenario: Scenario, since: float = since, told: str = told) -> None:
        scenario.began(since * 60, pod="engine-0")
        fleet((WELL, undecided()), FINE)(scenario)
        scenario.alerts(13.0, *([told] if told else []))

    young.__name__ = f"a pod whose process began at minute {since:g}"
    young.__doc__ = "Misses without a root tell nothing in its first five minutes; then the page waits for three."
    SUITE.scenario(6, 7.5)(young)


@SUITE.scenario(6, 5, 8)
def a_pod_that_decided_nothing_and_is_well_again(scenario: Scenario) -> None:
    """Its page ends with its misses, and not with the memory of them."""
    fleet((WELL, undecided(), WELL), (WELL,) * 3)(scenario)
    scenario.pages(12, "LLMPodBurn", phase="unattributed")
    scenario.pages(17.5, phase="unattributed")


@SUITE.scenario(6, 6, 8)
def a_pod_that_is_well_again_with_the_misses_of_a_healthy_day(scenario: Scenario) -> None:
    """Its few misses later are no fault: no second page, by whatever name."""
    few = Traffic(0.015, {"queue": 1}, 30)
    fleet((few, broken("decode", 0.9, 30), few), (few, few, few))(scenario)

    scenario.pages(11, "LLMPodBurn", phase="decode")
    for minute in (17.25, 17.75, 18.25, 19.25, 20):
        scenario.alerts(minute)


STILL = 17.75
for name, healed_to, target, told in (
    ("a quarter of its requests, named", broken("prefill", 0.26), 0.8, NAMED),
    ("less than a quarter of them, named", broken("prefill", 0.24), 0.8, ""),
    ("six times its budget, named", broken("prefill", 0.062), 0.99, NAMED),
    ("less than six times its budget, named", broken("prefill", 0.058), 0.99, ""),
    ("a quarter of its requests, unnamed", undecided(0.26), 0.8, UNNAMED),
    ("less than a quarter of them, unnamed", undecided(0.24), 0.8, ""),
    ("six times its budget, unnamed", undecided(0.062), 0.99, UNNAMED),
    ("less than six times its budget, unnamed", undecided(0.058), 0.99, ""),
):

    def still(scenario: Scenario, healed_to: Traffic = healed_to, target: float = target, told: str = told) -> None:
        was, phase = (broken("prefill", 0.9), "prefill") if healed_to.roots else (undecided(0.9), "unattributed")
        fleet((WELL, was, healed_to), (WELL,) * 3, target=target)(scenario)
        scenario.pages(11, "LLMPodBurn", phase=phase)
        scenario.alerts(STILL, *([told] if told else []))

    still.__name__ = f"a pod that was odd and still misses {name}".replace(",", "")
    still.__doc__ = "Its page goes on as long as it burns and its misses stay out of the lane."
    SUITE.scenario(6, 6, 7)(still)


def another_model(scenario: Scenario) -> None:
    lane(scenario, *FINE, pod="engine-1", model="large")


def late(decided: float) -> Traffic:
    """So many misses in two minutes are decided, all of them the sidecar's own."""
    return Traffic(0.9, {"sidecar": decided / 2 / 108})


STARVED = "LLMSidecarStarved page, LLMUnattributedBurn page"
LATE = broken("sidecar", 0.9, queue=0.49)
SUITE.cases(
    (6, 3),
    (
        "half of eight",
        "That is the fleet's page, and no pod's.",
        fleet(*[misses(1.0)] * 4, *[FINE] * 4),
        {9: "LLMPrefillBurn page"},
    ),
    (
        "seven of sixteen",
        "The others miss too much for an odd pod, and the lane less than half: the fleet's page.",
        fleet(*[misses(1.0)] * 7, *[FINE] * 9),
        {8.25: "LLMPrefillBurn page", 9: "LLMPrefillBurn page"},
    ),
    (
        "eight of sixteen that miss most",
        "The same.",
        fleet(*[misses(0.9)] * 8, *[FINE] * 8),
        {8.25: "LLMPrefillBurn page", 9: "LLMPrefillBurn page"},
    ),
    ("all of four", "So is this.", fleet(*[misses(0.9)] * 4), {9: "LLMPrefillBurn page"}),
    ("a pod of another model", "It is no sibling.", of(fleet(misses(0.9)), another_model), {9: "LLMPrefillBurn page"}),
    ("a starved sidecar", "Half of its decided misses are the sidecar's own.", fleet((WELL, LATE)), {9: STARVED}),
    (
        "a sidecar that is late at times",
        "Less than half.",
        fleet((WELL, broken("queue", 0.9, sidecar=0.35))),
        {9: "LLMQueueBurn page"},
    ),
    (
        "ten late misses",
        "They are enough.",
        fleet((WELL, late(10.2))),
        {9: "LLMSidecarStarved page, LLMSidecarBurn page"},
    ),
    ("nine late misses", "They are too few.", fleet((WELL, late(9.8))), {9: "LLMSidecarBurn page"}),
    ("late misses of a healthy pod", "They burn nothing.", fleet((WELL, broken("sidecar", 0.049))), {9: ""}),
)


SUITE.cases(
    (6, 5),
    (
        "an odd pod with a starved sidecar",
        "Its lanes are well: both of its pages, of which Alertmanager sends one.",
        fleet((WELL, LATE), FINE, FINE),
        {11: "LLMSidecarStarved page, LLMPodBurn page unattributed"},
    ),
)


@SUITE.scenario(6, 6, 9)
def a_pod_that_was_odd(scenario: Scenario) -> None:
    """Its misses stay out of the lane for five minutes, so that the lane does not page for it afterwards."""
    fleet((WELL, broken("prefill", 0.9), WELL), (WELL, WELL, WELL))(scenario)

    scenario.records("pod:llm_slo:odd", 14)
    scenario.records("lane:llm_slo_miss:ratio_rate5m", 16, (WHO, 0))
    for minute in (17, 19, 21):
        scenario.pages(minute)


@SUITE.scenario(6, 4, 10)
def an_odd_pod_whose_sidecar_was_starved(scenario: Scenario) -> None:
    """Its page is muted until it is over: the page of the sidecar lasts longer."""
    bad = broken("sidecar", 0.9, queue=0.49)
    fleet((WELL, bad, WELL), *[(WELL,) * 3] * 2)(scenario)
    pod, sidecar = (
        f'ALERTS{{namespace="{scenario.name}",alertstate="firing",alertname="{name}"}}'
        for name in ("LLMPodBurn", "LLMSidecarStarved")
    )

    scenario.alerts(14, "LLMSidecarStarved page", "LLMPodBurn page unattributed")
    scenario.yields(
        f"max_over_time(timestamp({pod})[15m:15s]) > on (pod) max_over_time(timestamp({sidecar})[15m:15s])", 20
    )
    scenario.alerts(18.5)


for size, target in ((2, 0.8), (2, 0.95), (2, 0.99), (3, 0.99), (16, 0.99)):

    def alone(scenario: Scenario, size: int = size, target: float = target) -> None:
        fleet(misses(1.0), *[FINE] * (size - 1), target=target)(scenario)
        others = f'ALERTS{{namespace="{scenario.name}",alertstate="firing",alertname!="LLMPodBurn"}}'

        scenario.yields(f"count_over_time({others}[9m])", 11)
        scenario.pages(8, "LLMPodBurn", phase="prefill")

    alone.__name__ = f"only the pod of {size} at a target of {target:g}".replace(".", "")
    alone.__doc__ = "No lane pages for the odd pod, not even for one evaluation: it is odd before its lanes burn."
    SUITE.scenario(6, 5)(alone)
