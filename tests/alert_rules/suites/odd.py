"""One bad pod of many: it has a page of its own, and its lanes have none (alert_rules/roots.py)."""

from collections.abc import Sequence

from tests.alert_rules.promtool import LANE, MODEL, Scenario, Suite
from tests.alert_rules.world import WELL, Traffic, broken, causes, lane, undecided


SUITE = Suite("odd-pods")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


def fleet(scenario: Scenario, *pods: Sequence[Traffic], target: float = 0.95) -> None:
    """Each pod's traffic, span by span; a pod's roots are told by cause too."""
    for number, spans in enumerate(pods):
        lane(scenario, *spans, pod=f"engine-{number}", target=target)
        causes(scenario, *spans, pod=f"engine-{number}")


def odd(scenario: Scenario, minute: float, *pods: str) -> None:
    """Exactly these pods are odd."""
    scenario.records("pod:llm_slo:odd", minute, *(({"model": MODEL, "pod": pod}, 1.0) for pod in pods))


def misses(share: float, per_minute: float = 120) -> tuple[Traffic, Traffic]:
    """From the second span on."""
    return Traffic(per_minute=per_minute), broken("prefill", share, per_minute)


def one_of(size: int) -> None:
    """One bad pod among so many."""

    def tell(scenario: Scenario) -> None:
        fleet(scenario, misses(0.9), *[(WELL, WELL)] * (size - 1))

        scenario.pages(8, "LLMPodBurn", phase="prefill")
        scenario.records("lane:llm_slo_miss:ratio_rate2m", 8, (WHO, 0))

    tell.__name__, tell.__doc__ = (
        f"one-of-{size}",
        "Named within two minutes, with its root; the lane of the others does not page.",
    )
    SUITE.scenario(6, 2)(tell)


for many in (2, 3, 8, 16):
    one_of(many)


@SUITE.scenario(6, 4)
def half_of_eight(scenario: Scenario) -> None:
    """That is the fleet's page, and no pod's."""
    fleet(scenario, *[misses(1.0)] * 4, *[(WELL, WELL)] * 4)

    scenario.pages(10, "LLMPrefillBurn")


@SUITE.scenario(6, 4)
def all_of_four(scenario: Scenario) -> None:
    """So is this."""
    fleet(scenario, *[misses(0.9)] * 4)

    scenario.pages(10, "LLMPrefillBurn")


@SUITE.scenario(6, 2)
def three_times_the_others(scenario: Scenario) -> None:
    """It is odd."""
    fleet(scenario, misses(0.9), misses(0.29), misses(0.29))

    odd(scenario, 8, "engine-0")


@SUITE.scenario(6, 2)
def less_than_three_times_the_others(scenario: Scenario) -> None:
    """It is not."""
    fleet(scenario, misses(0.9), misses(0.31), misses(0.31))

    odd(scenario, 8)


@SUITE.scenario(6, 2)
def twenty_requests_each(scenario: Scenario) -> None:
    """They are enough to compare."""
    fleet(scenario, misses(0.9, 10.2), (Traffic(per_minute=10.2),) * 2)

    odd(scenario, 8, "engine-0")


@SUITE.scenario(6, 2)
def too_few_requests_on_the_odd_one(scenario: Scenario) -> None:
    """It is not compared."""
    fleet(scenario, misses(0.9, 9.8), (WELL, WELL), (WELL, WELL))

    odd(scenario, 8)


@SUITE.scenario(6, 2)
def too_few_requests_on_the_other(scenario: Scenario) -> None:
    """There is nothing to compare with."""
    fleet(scenario, misses(0.9), (Traffic(per_minute=9.8),) * 2)

    odd(scenario, 8)


@SUITE.scenario(6, 2)
def half_of_its_requests(scenario: Scenario) -> None:
    """It burns, whatever the target."""
    fleet(scenario, misses(0.51), (WELL, WELL), target=0.8)

    odd(scenario, 8, "engine-0")


@SUITE.scenario(6, 2)
def less_than_half_of_its_requests(scenario: Scenario) -> None:
    """It does not."""
    fleet(scenario, misses(0.49), (WELL, WELL), target=0.8)

    odd(scenario, 8)


@SUITE.scenario(6, 2)
def ten_times_its_budget(scenario: Scenario) -> None:
    """It burns."""
    fleet(scenario, misses(0.102), (WELL, WELL), target=0.99)

    odd(scenario, 8, "engine-0")


@SUITE.scenario(6, 2)
def less_than_ten_times_its_budget(scenario: Scenario) -> None:
    """It does not."""
    fleet(scenario, misses(0.098), (WELL, WELL), target=0.99)

    odd(scenario, 8)


@SUITE.scenario(6, 2)
def ten_misses_of_its_own(scenario: Scenario) -> None:
    """They are enough."""
    fleet(scenario, misses(0.34, 15), (WELL, WELL), target=0.99)

    odd(scenario, 8, "engine-0")


@SUITE.scenario(6, 2)
def nine_misses_of_its_own(scenario: Scenario) -> None:
    """They are too few."""
    fleet(scenario, misses(0.32, 15), (WELL, WELL), target=0.99)

    odd(scenario, 8)


@SUITE.scenario(6, 6, 9)
def a_pod_that_was_odd(scenario: Scenario) -> None:
    """Its misses stay out of the lane for five minutes, so that the lane does not page for it afterwards."""
    fleet(scenario, (WELL, broken("prefill", 0.9), WELL), (WELL, WELL, WELL))

    odd(scenario, 14)
    scenario.records("lane:llm_slo_miss:ratio_rate5m", 16, (WHO, 0))
    for minute in (17, 19, 21):
        scenario.pages(minute)


@SUITE.scenario(6, 4)
def an_odd_pod_whose_roots_are_split(scenario: Scenario) -> None:
    """No root leads: unattributed, when that has lasted for a minute."""
    fleet(scenario, (WELL, broken("prefill", 0.9, queue=0.41)), (WELL, WELL))

    scenario.pages(7.25)
    scenario.pages(8.5, "LLMPodBurn", phase="unattributed")


@SUITE.scenario(6, 4)
def an_odd_pod_whose_roots_lead(scenario: Scenario) -> None:
    """Six of ten are enough."""
    fleet(scenario, (WELL, broken("prefill", 0.9, queue=0.39)), (WELL, WELL))

    scenario.pages(8, "LLMPodBurn", phase="prefill")


@SUITE.scenario(6, 2)
def an_odd_pod_with_three_decided_misses(scenario: Scenario) -> None:
    """They are enough."""
    fleet(scenario, (WELL, Traffic(0.9, {"decode": 3.1 / 2 / 108})), (WELL, WELL))

    scenario.pages(8, "LLMPodBurn", phase="decode")


@SUITE.scenario(6, 3)
def an_odd_pod_with_two_decided_misses(scenario: Scenario) -> None:
    """They are too few."""
    fleet(scenario, (WELL, Traffic(0.9, {"decode": 2.8 / 2 / 108})), (WELL, WELL))

    scenario.pages(9, "LLMPodBurn", phase="unattributed")


@SUITE.scenario(6, 3)
def an_odd_pod_that_decides_nothing(scenario: Scenario) -> None:
    """Its page says so."""
    fleet(scenario, (WELL, undecided()), (WELL, WELL))

    scenario.pages(9, "LLMPodBurn", phase="unattributed")


@SUITE.scenario(6, 3)
def a_pod_of_another_model(scenario: Scenario) -> None:
    """Pods are compared with those of their own model."""
    lane(scenario, WELL, broken("prefill"))
    lane(scenario, WELL, WELL, pod="engine-1", model="large")

    scenario.pages(9, "LLMPrefillBurn")


# --- a sidecar without CPU -------------------------------------------------------------------------------------------------


@SUITE.scenario(6, 2)
def a_pod_whose_sidecar_is_starved(scenario: Scenario) -> None:
    """Half of its decided misses are the sidecar's own: a page that says so."""
    fleet(scenario, (WELL, broken("sidecar", 0.9, queue=0.49)))

    scenario.pages(8, "LLMSidecarStarved", "LLMUnattributedBurn")


@SUITE.scenario(6, 2)
def a_pod_whose_sidecar_was_late_now_and_then(scenario: Scenario) -> None:
    """Less than half: none."""
    fleet(scenario, (WELL, broken("queue", 0.9, sidecar=0.35)))

    scenario.pages(8, "LLMQueueBurn")
