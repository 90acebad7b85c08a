"""Tiers of long windows, which are sums of recorded sums, and traffic against three hours before.

Sums are asked between two of their summands: a window that begins at one holds it before Prometheus 3.0, and not since.
"""

from typing import Any

from tests.alert_rules.promtool import ALERTS, LANE, MODEL, RECORDING, Happens, Scenario, Suite, counter, gauge, of
from tests.alert_rules.suites.tiers import STRICT, USUAL, WHO, burns
from tests.alert_rules.world import HEALTHY_PER_MINUTE, Traffic, broken, lane


SUITE = Suite("half-hours", rules=(RECORDING,), step_seconds=30, evaluation_seconds=30)
SIX = Suite("six-hours", rules=(RECORDING,), step_seconds=60, evaluation_seconds=60)
BEFORE = 70.0
"""Minutes: a burst of half an hour is less than the budget of what came before."""

told: tuple[Any, ...]
for told in (
    ("six-times-the-budget", "Steady for half an hour: a page.", USUAL, ((36, 0.306, 120),), "steady", "slow"),
    ("less-than-six-times-the-budget", "A ticket.", USUAL, ((36, 0.294, 120),), "slow"),
    ("six-times-with-ten-misses", "They are enough.", USUAL, ((36, 0.45, 10.2 / 30 / 0.45),), "steady", "slow"),
    ("six-times-with-nine-misses", "Too few for half an hour.", USUAL, ((36, 0.45, 9.5 / 30 / 0.45),), "slow"),
    (
        "six-times-that-goes-on",
        "The last five minutes too.",
        USUAL,
        ((30, 0.45, 120), (6, 0.306, 120)),
        "steady",
        "slow",
    ),
    ("six-times-that-is-over", "The last five minutes burn less.", USUAL, ((30, 0.45, 120), (6, 0.294, 120)), "slow"),
):
    burns(SUITE, *told, before=BEFORE)

for told in (
    ("twice-the-budget", "Slow for half an hour.", STRICT, ((36, 0.0204, 1200),), "slow"),
    ("less-than-twice-the-budget", "None.", STRICT, ((36, 0.0196, 1200),)),
    (
        "twice-that-goes-on",
        "The last five minutes burn all of it.",
        STRICT,
        ((30, 0.03, 1200), (6, 0.0102, 1200)),
        "slow",
    ),
    ("twice-that-is-over", "They do not.", STRICT, ((30, 0.03, 1200), (6, 0.0098, 1200))),
):
    burns(SUITE, *told, before=BEFORE)

for told in (
    ("all-of-the-budget-for-six-hours", "Slow.", USUAL, ((370, 0.051, 120),), "slow"),
    ("nearly-all-of-the-budget-for-six-hours", "That is what it is there for.", USUAL, ((370, 0.049, 120),)),
    ("ten-misses-in-six-hours", "They are enough.", USUAL, ((370, 0.06, 10.2 / 360 / 0.06),), "slow"),
    ("nine-misses-in-six-hours", "They are too few.", USUAL, ((370, 0.06, 9.8 / 360 / 0.06),)),
    ("six-hours-that-go-on", "The last half hour too.", USUAL, ((350, 0.08, 120), (36, 0.051, 120)), "slow"),
    ("six-hours-that-are-over", "The last half hour burns less.", USUAL, ((350, 0.08, 120), (36, 0.049, 120))),
):
    burns(SIX, *told, before=5.0)


@SUITE.scenario(70, 36.5)
def ten_misses_in_half_an_hour(scenario: Scenario) -> None:
    """They are enough for a ticket, after hours with many requests."""
    lane(scenario, Traffic(per_minute=10), Traffic(0.2, per_minute=10.2 / 30 / 0.2))

    scenario.records("lane:llm_slo_burn:tier", 106.5, ({**WHO, "tier": "slow"}, 1))
    scenario.records("lane:llm_slo_misses:increase30m", 106.5, (WHO, 10.2))
    scenario.records("lane:llm_slo_burn:ratio_rate30m", 106.5, (WHO, 4))


@SUITE.scenario(70, 36)
def nine_misses_in_half_an_hour(scenario: Scenario) -> None:
    """They are too few."""
    lane(scenario, Traffic(per_minute=10), Traffic(0.2, per_minute=9.5 / 30 / 0.2))

    scenario.records("lane:llm_slo_burn:tier", 106)


@SIX.scenario(376)
def six_even_hours(scenario: Scenario) -> None:
    """Sums of recorded sums are the sums."""
    lane(scenario, broken("queue", 0.02))

    scenario.records("lane:llm_slo_burn:ratio_rate6h", 376, (WHO, 0.4))


# --- before and after ------------------------------------------------------------------------------------------------------


SINCE = Suite("since", rules=(ALERTS,), step_seconds=60, evaluation_seconds=120)
"""Alerts that compare with three hours before."""


def cached(before: float, after: float, queries: float = 60_000) -> Happens:
    hits = counter("llm_engine_prefix_cache_hits_total", 60_000 * before, queries * after)
    return of(hits, counter("llm_engine_prefix_cache_queries_total", 60_000, queries))


def giving_up(*shares: float, per_minute: float = HEALTHY_PER_MINUTE) -> Happens:
    """Share of the clients that leave while they wait. Half of the others stop reading an answer, which does not count."""
    who = {"model": MODEL, "lane": LANE}
    return of(
        counter("llm_requests_received_total", per_minute, **who),
        counter("llm_client_cancels_total", *(per_minute * share for share in shares), **who, stage="waiting"),
        counter("llm_client_cancels_total", per_minute / 2, **who, stage="streaming"),
    )


COLLAPSED, LEAVING = "LLMPrefixCacheCollapsed ticket", "LLMClientsGiveUp ticket"
SINCE.cases(
    (240, 28),
    ("a prefix cache that hits half as often", "A ticket.", cached(0.6, 0.29), {240: "", 268: COLLAPSED}),
    ("a prefix cache that hits a little less often", "None.", cached(0.6, 0.31), {268: ""}),
    ("a prefix cache that hit one token in five", "It was worth something.", cached(0.205, 0.05), {268: COLLAPSED}),
    ("a prefix cache that never hit much", "It had nothing to lose.", cached(0.195, 0.05), {268: ""}),
    ("a prefix cache that is not asked", "An idle engine hits nothing, of nothing.", cached(0.5, 0, 0), {268: ""}),
    ("one client in twenty gives up", "And none did before: a ticket.", giving_up(0, 0.051), {268: LEAVING}),
    ("fewer than one client in twenty give up", "None.", giving_up(0, 0.049), {268: ""}),
    ("three times as many clients give up", "More than before: a ticket.", giving_up(0.1, 0.31), {268: LEAVING}),
    ("twice as many clients give up", "Some clients always do.", giving_up(0.1, 0.29), {268: ""}),
    ("ten clients give up", "Of few: they are enough.", giving_up(0, 0.5, per_minute=10.2 / 15 / 0.5), {268: LEAVING}),
    ("nine clients give up", "They are too few.", giving_up(0, 0.5, per_minute=9.8 / 15 / 0.5), {268: ""}),
)


def burning(tier: str) -> Happens:
    """A lane is in this tier for 14 minutes."""
    return gauge("lane:llm_slo_burn:tier", None, 1, None, model=MODEL, lane=LANE, objective="ttft", tier=tier)


def standing_out(model: str) -> Happens:
    return gauge("pod:llm_slo:odd", None, 1, None, model=model)


LEAVES = giving_up(0, 0.2, 0.2)
SINCE.cases(
    (240, 14, 20),
    ("clients leave while no page stands", "A ticket within minutes.", LEAVES, {252: LEAVING, 274: LEAVING}),
    (
        "clients leave while their lane pages",
        "A consequence, until ten minutes later.",
        of(LEAVES, burning("outage")),
        {252: "LLMUnattributedBurn page", 267: "", 274: LEAVING},
    ),
    (
        "clients leave while a pod of their model stands out",
        "A consequence, until ten minutes later.",
        of(LEAVES, standing_out(MODEL)),
        {252: "", 267: "", 274: LEAVING},
    ),
    (
        "clients leave while a pod of another model stands out",
        "It serves none of them.",
        of(LEAVES, standing_out("other")),
        {252: LEAVING},
    ),
    (
        "clients leave while their lane burns slowly",
        "No page tells it.",
        of(LEAVES, burning("slow")),
        {252: f"{LEAVING}, LLMUnattributedBurn ticket"},
    ),
)


# --- weeks -----------------------------------------------------------------------------------------------------------------


WEEKS = Suite("weeks", rules=(ALERTS,), step_seconds=600, evaluation_seconds=1800)
"""Samples half an hour apart: prompts that grow, the silent cause of dear prompts."""
DAY = 24 * 60


def prompts(before: float | None, after: float, then: float = 10, now: float = 10) -> Happens:
    """Mean tokens of a prompt before and after, and how many come a minute."""
    who = {"model": MODEL, "lane": LANE}
    rates = (None, now) if before is None else (then, now)
    tokens = (None if before is None else before * then, after * now)
    return of(
        counter("llm_stated_prompt_tokens_total", *tokens, **who), counter("llm_stated_prompts_total", *rates, **who)
    )


GROWING = "LLMPromptsGrowing ticket"
WEEKS.cases(
    (7 * DAY, DAY),
    ("prompts that have grown by a third", "A ticket.", prompts(800, 800 * 1.31), {7 * DAY: "", 8 * DAY: GROWING}),
    ("prompts that have grown a little", "Less than 30 %: none.", prompts(800, 800 * 1.29), {8 * DAY: ""}),
    ("more of the same prompts", "They are not longer.", prompts(800, 800, 10, 100), {8 * DAY: ""}),
    ("a lane younger than a week", "It is compared with nothing.", prompts(None, 1000), {8 * DAY: ""}),
    ("a hundred prompts in half an hour", "They have a mean.", prompts(800, 2000, 3.4, 3.4), {8 * DAY: GROWING}),
    ("ninety eight prompts now", "Too few to judge by.", prompts(800, 2000, 10, 98 / 30), {8 * DAY: ""}),
    ("ninety eight prompts a week ago", "Too few to compare with.", prompts(800, 2000, 98 / 30, 10), {8 * DAY: ""}),
)
