"""The truth table of verdicts: where the requests that missed say that they waited, and what the page then says.

No engine tells anything here and nothing has grown, so votes alone decide (alert_rules/verdict.py).
"""

from alert_rules.burn import FEWEST_MISSES
from alert_rules.verdict import FEWEST_VOTES, LEAD, SPLIT_ENOUGH
from tests.alert_rules.promtool import LANE, MODEL, Scenario, Suite
from tests.alert_rules.world import NOTHING, WELL, Traffic, broken, lane, voiceless


SUITE = Suite("votes")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


def verdict(scenario: Scenario, minute: float, *phases: str, **who: str) -> None:
    """Exactly these verdicts, of one lane: one, unless nothing missed."""
    told = {**WHO, **who}
    expected = [({**told, "phase": phase}, 1.0) for phase in phases]
    scenario.records("lane:llm_slo_verdict:phase", minute, *expected, **who)


# --- one phase gets the votes ----------------------------------------------------------------------------------------------


@SUITE.scenario(6, 6)
def votes_for_queue(scenario: Scenario) -> None:
    """One verdict, one page, one ticket: the queue's."""
    lane(scenario, WELL, broken("queue"))

    verdict(scenario, 6)
    verdict(scenario, 8, "queue")
    scenario.alerts(12, "LLMQueueBurn page", "LLMQueueBurn ticket")
    scenario.records("lane:llm_slo_verdict:decided", 12, (WHO, 1))
    scenario.records("lane:llm_slo_verdict:settled", 12, ({**WHO, "phase": "queue"}, 1))
    scenario.records("lane:llm_slo_verdict:cause", 12, ({**WHO, "cause": "slots"}, 1))


@SUITE.scenario(6, 6)
def votes_for_prefill(scenario: Scenario) -> None:
    """The prefill's."""
    lane(scenario, WELL, broken("prefill"))

    verdict(scenario, 8, "prefill")
    scenario.alerts(12, "LLMPrefillBurn page", "LLMPrefillBurn ticket")
    scenario.records("lane:llm_slo_verdict:cause", 12, ({**WHO, "cause": "none"}, 1))


@SUITE.scenario(6, 6)
def votes_for_first_token(scenario: Scenario) -> None:
    """The front end's."""
    lane(scenario, WELL, broken("first_token"))

    verdict(scenario, 8, "first_token")
    scenario.alerts(12, "LLMFirstTokenBurn page", "LLMFirstTokenBurn ticket")


@SUITE.scenario(6, 6)
def votes_for_stream(scenario: Scenario) -> None:
    """First tokens that something held back."""
    lane(scenario, WELL, broken("stream"))

    verdict(scenario, 8, "stream")
    scenario.alerts(12, "LLMStreamBurn page", "LLMStreamBurn ticket")


@SUITE.scenario(6, 6)
def votes_for_engine(scenario: Scenario) -> None:
    """Requests that it failed."""
    lane(scenario, WELL, broken("engine"))

    verdict(scenario, 8, "engine")
    scenario.alerts(12, "LLMEngineBurn page", "LLMEngineBurn ticket")


@SUITE.scenario(6, 6)
def votes_for_decode(scenario: Scenario) -> None:
    """Tokens that come too slowly."""
    lane(scenario, WELL, broken("decode"), objective="tpot")

    verdict(scenario, 8, "decode", objective="tpot")
    scenario.alerts(12, "LLMDecodeBurn page", "LLMDecodeBurn ticket", objective="tpot")


@SUITE.scenario(6, 6)
def votes_for_stream_by_slow_clients(scenario: Scenario) -> None:
    """Tokens that were there, and that clients read too slowly."""
    lane(scenario, WELL, broken("stream"), objective="tpot")

    scenario.alerts(12, "LLMStreamBurn page", "LLMStreamBurn ticket", objective="tpot")


@SUITE.scenario(6, 6)
def whole_answers_that_decode_slowly(scenario: Scenario) -> None:
    """Requests without a stream have one objective, for the whole, and a phase of their own."""
    lane(scenario, WELL, broken("decode"), objective="e2e")

    scenario.alerts(12, "LLMDecodeBurn page", "LLMDecodeBurn ticket", objective="e2e")


# --- several at once -------------------------------------------------------------------------------------------------------


@SUITE.scenario(6, 6)
def two_lanes_with_two_troubles(scenario: Scenario) -> None:
    """Each has its own verdict, and its own page."""
    lane(scenario, WELL, broken("queue"), lane="interactive")
    lane(scenario, WELL, broken("prefill"), lane="batch")

    verdict(scenario, 12, "queue", lane="interactive")
    verdict(scenario, 12, "prefill", lane="batch")
    pages = f'count by (alertname, lane) (ALERTS{{namespace="{scenario.namespace}",severity="page"}})'
    queue = {"alertname": "LLMQueueBurn", "lane": "interactive"}
    prefill = {"alertname": "LLMPrefillBurn", "lane": "batch"}
    scenario.yields(pages, 12, ("", queue, 1), ("", prefill, 1))


@SUITE.scenario(6, 6)
def two_models_with_two_troubles(scenario: Scenario) -> None:
    """The same lane of another model is somebody else."""
    lane(scenario, WELL, broken("queue"))
    lane(scenario, WELL, broken("first_token"), model="large")

    verdict(scenario, 12, "queue", model=MODEL)
    verdict(scenario, 12, "first_token", model="large")


@SUITE.scenario(6, 6)
def both_objectives_of_a_lane(scenario: Scenario) -> None:
    """Time to first token and time per token have a verdict each; both bad is no engine fault."""
    lane(scenario, WELL, broken("queue"))
    lane(scenario, WELL, broken("decode"), objective="tpot", received=False)

    verdict(scenario, 12, "queue", objective="ttft")
    verdict(scenario, 12, "decode", objective="tpot")


@SUITE.scenario(6, 6)
def two_pods_of_a_lane(scenario: Scenario) -> None:
    """Their votes are added up: the page is the lane's, and no pod's."""
    lane(scenario, WELL, broken("queue", per_minute=60))
    lane(scenario, WELL, broken("prefill"), pod="engine-1")

    verdict(scenario, 12, "prefill")
    waited = [({**WHO, "phase": "queue"}, 0.333), ({**WHO, "phase": "prefill"}, 0.667)]
    none = [({**WHO, "phase": phase}, 0) for phase in ("first_token", "stream", "engine")]
    scenario.records("lane:llm_slo_waited_in:ratio", 12, *waited, *none)


@SUITE.scenario(6, 6)
def votes_nearly_tied(scenario: Scenario) -> None:
    """Still one verdict."""
    lane(scenario, WELL, broken("queue", first_token=0.499))

    verdict(scenario, 12, "queue")


# --- hysteresis ------------------------------------------------------------------------------------------------------------


@SUITE.scenario(6, 6, 8)
def a_new_leader_by_six_points(scenario: Scenario) -> None:
    """It does not take the verdict over: a page does not flap between two phases that are level."""
    ahead = LEAD * 0.6
    lane(scenario, WELL, broken("queue"), broken("queue", first_token=0.5 + ahead / 2))

    verdict(scenario, 12, "queue")
    verdict(scenario, 20, "queue")


@SUITE.scenario(6, 6, 8)
def a_new_leader_by_fifteen_points(scenario: Scenario) -> None:
    """It takes it over."""
    ahead = LEAD * 1.5
    lane(scenario, WELL, broken("queue"), broken("queue", first_token=0.5 + ahead / 2))

    verdict(scenario, 20, "first_token")
    scenario.pages(20, "LLMFirstTokenBurn")


@SUITE.scenario(6, 6, 8)
def a_phase_that_led_and_comes_back(scenario: Scenario) -> None:
    """The ten points are for who is the verdict now, and not for who was."""
    ahead = LEAD * 1.5
    lane(scenario, WELL, broken("first_token"), broken("queue", first_token=0.5 - ahead / 2))

    verdict(scenario, 12, "first_token")
    verdict(scenario, 20, "queue")


# --- a verdict that has settled --------------------------------------------------------------------------------------------


@SUITE.scenario(6, 6, 8)
def a_new_leader_while_it_is_paged(scenario: Scenario) -> None:
    """A verdict that has been paged for two minutes stays until another has led for two: nobody else is woken for a moment."""
    lane(scenario, WELL, broken("queue"), broken("first_token"))

    scenario.pages(15.75, "LLMQueueBurn")
    scenario.pages(17.75, "LLMFirstTokenBurn")


@SUITE.scenario(6, 6, 8)
def a_new_leader_while_nothing_is_paged(scenario: Scenario) -> None:
    """It is the verdict at once: nobody has been woken yet."""
    lane(scenario, WELL, broken("queue", 0.4), broken("first_token", 0.4), target=0.75)

    verdict(scenario, 12, "queue")
    verdict(scenario, 15.75, "first_token")


@SUITE.scenario(6, 6, 1.5, 6)
def a_lane_that_has_just_begun_to_page(scenario: Scenario) -> None:
    """Its verdict has not settled: what leads now is what is paged."""
    some, more = Traffic(0.4, {"queue": 1}), Traffic(0.9, {"first_token": 0.7, "queue": 0.3}, 600)
    lane(scenario, WELL, some, more, more, target=0.75)

    scenario.pages(12.75, "LLMQueueBurn")
    scenario.pages(13.75, "LLMFirstTokenBurn")


# --- who knows -------------------------------------------------------------------------------------------------------------


@SUITE.scenario(6, 8)
def few_of_the_votes_know(scenario: Scenario) -> None:
    """Where fewer than a fifth carry a split, the page says that nobody knows, and which share it is."""
    lane(scenario, WELL, broken("unattributed", queue=SPLIT_ENOUGH * 0.9))

    verdict(scenario, 13, "unattributed")
    scenario.alerts(13, "LLMUnattributedBurn page", "LLMUnattributedBurn ticket")


@SUITE.scenario(6, 8)
def enough_of_the_votes_know(scenario: Scenario) -> None:
    """A fifth of them speaks for all: those that are given up never get a report."""
    lane(scenario, WELL, broken("unattributed", queue=SPLIT_ENOUGH * 1.1))

    verdict(scenario, 13, "queue")
    scenario.alerts(13, "LLMQueueBurn page", "LLMQueueBurn ticket")
    scenario.records("lane:llm_slo_waited_in:ratio", 13, ({**WHO, "phase": "queue"}, 1), phase="queue")


@SUITE.scenario(6, 8)
def four_votes(scenario: Scenario) -> None:
    """They are too few to say anything."""
    lane(scenario, WELL, Traffic(0.8, {"queue": FEWEST_VOTES * 0.96 / 5 / 96}))

    verdict(scenario, 13, "unattributed")


@SUITE.scenario(6, 8)
def five_votes(scenario: Scenario) -> None:
    """They are enough."""
    lane(scenario, WELL, Traffic(0.8, {"queue": FEWEST_VOTES * 1.04 / 5 / 96}))

    verdict(scenario, 13, "queue")


@SUITE.scenario(6, 6)
def nobody_votes(scenario: Scenario) -> None:
    """Nothing is known, neither by ledgers nor by the engine: that is what the page says, never nothing and never a phase."""
    lane(scenario, WELL, voiceless())

    verdict(scenario, 7, "unattributed")
    scenario.records("lane:llm_slo_verdict:share", 7, ({**WHO, "phase": "unattributed"}, 1))
    scenario.pages(10, "LLMUnattributedBurn")


@SUITE.scenario(6, 0.75, 6)
def nobody_knows_for_less_than_a_minute(scenario: Scenario) -> None:
    """A page that says so waits until that has lasted; by then ledgers have closed."""
    lane(scenario, WELL, voiceless(1, 600), broken("queue", 1, 600))

    for minute in (6.25, 6.5, 6.75, 7, 7.25):
        scenario.yields(
            f'ALERTS{{namespace="{scenario.namespace}",alertstate="firing",alertname="LLMUnattributedBurn"}}', minute
        )
    scenario.pages(8, "LLMQueueBurn")


@SUITE.scenario(6, 6)
def the_blame_series_are_missing(scenario: Scenario) -> None:
    """An old sidecar, or one whose votes are not scraped: the page still comes, and says that nobody knows."""
    who = {**WHO, "prompt_bucket": "512-4k"}
    scenario.counts("llm_slo_requests_total", 120.0, **who)
    scenario.counts("llm_slo_misses_total", 0.0, 96.0, **who)
    scenario.counts("llm_slo_allowed_misses_total", 6.0, **who)

    verdict(scenario, 12, "unattributed")
    scenario.pages(12, "LLMUnattributedBurn")


# --- the window ------------------------------------------------------------------------------------------------------------


@SUITE.scenario(6, 12, 6)
def what_missed_lately_where_five_minutes_hold_enough(scenario: Scenario) -> None:
    """The verdict is about the last five minutes, and not about what was before."""
    many = FEWEST_MISSES * 1.05 / 5
    lane(scenario, NOTHING, broken("queue", 1, many), broken("first_token", 1, many))

    verdict(scenario, 18, "queue")
    verdict(scenario, 24, "first_token")


@SUITE.scenario(6, 12, 6)
def what_missed_lately_where_five_minutes_hold_too_few(scenario: Scenario) -> None:
    """A lane that misses seldom is judged by half an hour."""
    few = FEWEST_MISSES * 0.95 / 5
    lane(scenario, NOTHING, broken("queue", 1, few), broken("first_token", 1, few))

    verdict(scenario, 24, "queue")
    shares = [({**WHO, "phase": "queue"}, 0.667), ({**WHO, "phase": "first_token"}, 0.333)]
    none = [({**WHO, "phase": phase}, 0) for phase in ("prefill", "stream", "engine")]
    scenario.records("lane:llm_slo_waited_in:ratio", 24, *shares, *none)
