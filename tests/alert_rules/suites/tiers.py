"""Burn tiers: each row of the table on both sides of what it compares with (alert_rules/burn.py). Long windows are in hours.py.

Lanes are well for six minutes, so that every window is full, and then miss.
"""

from tests.alert_rules.promtool import JOB, LANE, MODEL, RECORDING, Scenario, Suite
from tests.alert_rules.world import NOTHING, Traffic, lane


SUITE = Suite("tiers", rules=(RECORDING,))
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}
Span = tuple[float, float, float]
"""Minutes, share of the requests that miss, requests a minute."""


def burns(
    suite: Suite, name: str, promise: str, target: float, spans: tuple[Span, ...], *tiers: str, before: float = 6
) -> None:
    """A lane that is well for some minutes, and then misses; at the end exactly these tiers burn (in this suite: of those that page)."""

    def tell(scenario: Scenario) -> None:
        first = spans[0][2]
        lane(
            scenario,
            Traffic(per_minute=first),
            *(Traffic(share, per_minute=rate) for _, share, rate in spans),
            target=target,
        )
        end = before + sum(minutes for minutes, _, _ in spans)
        samples = [("", {"namespace": scenario.name, "job": JOB, **WHO, "tier": tier}, 1.0) for tier in tiers]
        paging = ',tier!="slow"' if suite is SUITE else ""
        scenario.yields(f'lane:llm_slo_burn:tier{{namespace="{scenario.name}"{paging}}} + 0', end, *samples)

    tell.__name__, tell.__doc__ = name, promise
    suite.scenario(before, *(minutes for minutes, _, _ in spans))(tell)


LOOSE, MIDDLE, USUAL, STRICT = 0.8, 0.9, 0.95, 0.99
"""Targets. At the first no burn rate reaches 6, so that only shares of requests count."""

for told in (
    ("all-of-three-quarters-of-a-minute", "An outage, where traffic is enough.", LOOSE, ((0.75, 1.0, 120),), "outage"),
    (
        "half-of-a-minute",
        "An outage, if a third of two minutes misses.",
        LOOSE,
        ((1, 0.2, 120), (1, 0.51, 120)),
        "outage",
    ),
    ("less-than-half-of-a-minute", "None.", LOOSE, ((1, 0.2, 120), (1, 0.49, 120))),
    ("half-of-a-minute-alone", "Less than a third of two minutes: none.", LOOSE, ((1, 0.14, 120), (1, 0.51, 120))),
    ("twenty-misses-in-a-minute", "They are enough.", LOOSE, ((1, 0.2, 40), (1, 0.51, 40)), "outage"),
    ("nineteen-misses-in-a-minute", "They are too few for one minute.", LOOSE, ((1, 0.2, 38), (1, 0.51, 38))),
    ("half-of-two-minutes", "Ten misses in two minutes are an outage.", LOOSE, ((2, 0.51, 10),), "outage"),
    ("less-than-half-of-two-minutes", "None.", LOOSE, ((2, 0.49, 11),)),
    ("nine-misses-in-two-minutes", "They are too few.", LOOSE, ((2, 0.51, 9),)),
    ("a-third-of-two-minutes", "Thirty misses and a burn of two are an outage.", MIDDLE, ((2, 0.34, 120),), "outage"),
    ("less-than-a-third-of-two-minutes", "None.", MIDDLE, ((2, 0.32, 120),)),
    ("thirty-misses-of-a-third", "They are enough.", MIDDLE, ((2, 0.4, 30.5 / 2 / 0.4),), "outage"),
    ("twenty-nine-misses-of-a-third", "They are too few.", MIDDLE, ((2, 0.4, 29.5 / 2 / 0.4),)),
    ("two-fifths-where-a-fifth-is-allowed", "Twice what is allowed is enough.", LOOSE, ((2, 0.41, 120),), "outage"),
    ("less-than-two-fifths-where-a-fifth-is-allowed", "It is not.", LOOSE, ((2, 0.39, 120),)),
    ("half-of-five-minutes", "Little traffic takes longer.", LOOSE, ((5, 0.51, 4),), "outage"),
    ("less-than-half-of-five-minutes", "None.", LOOSE, ((5, 0.49, 4.5),)),
    ("nine-misses-in-five-minutes", "They are too few.", LOOSE, ((5, 0.51, 3.7),)),
    ("five-minutes-that-go-on", "A quarter still misses.", LOOSE, ((4, 0.9, 4), (2, 0.26, 4)), "outage"),
    ("five-minutes-that-are-over", "Less than a quarter does.", LOOSE, ((4, 0.9, 4), (2, 0.24, 4))),
    ("one-request-a-minute", "All are missed: an outage within six minutes.", LOOSE, ((5, 1.0, 1),), "outage"),
    ("one-request-a-minute-mostly-missed", "Nine in ten are enough.", LOOSE, ((5, 0.91, 1),), "outage"),
    ("one-request-a-minute-often-met", "Less may be chance.", LOOSE, ((5, 0.89, 1),)),
    ("four-misses-of-four", "They are enough.", LOOSE, ((5, 1.0, 0.82),), "outage"),
    ("fewer-than-four-misses", "They are too few, even where all are missed.", LOOSE, ((5, 1.0, 0.78),)),
    (
        "four-misses-in-ten-minutes",
        "They keep the page of a lane that is quieter still.",
        LOOSE,
        ((10, 1.0, 0.41),),
        "outage",
    ),
    ("fewer-than-four-misses-in-ten-minutes", "They do not.", LOOSE, ((10, 1.0, 0.39),)),
    ("ten-minutes-mostly-missed", "Nine in ten are enough.", LOOSE, ((10, 0.91, 0.46),), "outage"),
    ("ten-minutes-often-met", "Less may be chance.", LOOSE, ((10, 0.89, 0.46),)),
    (
        "ten-minutes-of-a-quiet-lane",
        "Forty requests in half an hour.",
        LOOSE,
        ((20, 0, 1.8), (10, 1.0, 0.45)),
        "outage",
    ),
    ("ten-minutes-of-a-busy-lane", "Seventy.", LOOSE, ((20, 0, 3.3), (10, 1.0, 0.45))),
    ("ten-minutes-that-are-over", "None has come for five minutes.", LOOSE, ((4.5, 1.0, 1.5), (5.25, 0, 0))),
    ("two-healthy-minutes-at-high-load", "A quarter misses: none.", USUAL, ((2, 0.25, 41),)),
    (
        "few-requests-of-a-quiet-lane",
        "Forty in half an hour are little traffic.",
        LOOSE,
        ((20, 0, 1.2), (5.5, 1.0, 1.2)),
        "outage",
    ),
    ("few-requests-of-a-busy-lane", "Its other requests are not decided yet.", LOOSE, ((20, 0, 3), (5, 1.0, 1))),
    ("misses-before-no-request-came", "A lane without requests does not burn.", LOOSE, ((2.75, 1.0, 2), (2.25, 0, 0))),
    ("ten-times-the-budget", "Fast, over five minutes and still.", STRICT, ((5, 0.102, 120),), "fast"),
    ("less-than-ten-times-the-budget", "None.", STRICT, ((5, 0.098, 120),)),
    (
        "one-stream-of-ten-that-stands-still",
        "It pages before half an hour is over, and sooner if a few more happen to be among five minutes'.",
        STRICT,
        ((20, 0.099, 60),),
        "steady",
    ),
    ("ten-times-with-ten-misses", "They are enough.", STRICT, ((5, 0.2, 10.2),), "fast"),
    ("ten-times-with-nine-misses", "They are too few.", STRICT, ((5, 0.2, 9.8),)),
    ("ten-times-that-goes-on", "The last two minutes burn as fast.", STRICT, ((3, 0.13, 120), (2, 0.102, 120)), "fast"),
    ("ten-times-that-is-over", "The last two minutes burn less.", STRICT, ((3, 0.13, 120), (2, 0.098, 120))),
    ("ten-times-in-two-minutes-alone", "Five minutes burn less: none.", STRICT, ((2.25, 0.15, 60),)),
):
    burns(SUITE, *told)


@SUITE.scenario(10)
def a_lane_without_use(scenario: Scenario) -> None:
    """It divides nothing by nothing, and burns nothing."""
    lane(scenario, NOTHING)

    scenario.records("lane:llm_slo_burn:tier", 10)


@SUITE.scenario(6, 6, 3)
def two_pods_of_a_lane(scenario: Scenario) -> None:
    """They are one lane, and their numbers are sums."""
    for pod in ("engine-0", "engine-1"):
        lane(scenario, Traffic(0.01), Traffic(0.2), Traffic(0.01), pod=pod)

    scenario.records("lane:llm_slo_misses:increase2m", 8, (WHO, 96))
    scenario.records("lane:llm_slo_burn:ratio_rate2m", 8, (WHO, 4))
    scenario.records("lane:llm_slo_miss:ratio_rate5m", 12, (WHO, 0.2))
    scenario.records("lane:llm_slo_burn:ratio_rate5m", 12, (WHO, 4))
    scenario.records("lane:llm_slo_burn:ratio_rate2m", 15, (WHO, 0.2))
    mine = f'{{namespace="{scenario.name}"}}'
    longer = f"lane:llm_slo_burn:ratio_rate5m{mine} > bool lane:llm_slo_burn:ratio_rate2m{mine}"
    scenario.yields(longer, 15, ("", {"namespace": scenario.name, "job": JOB, **WHO}, 1))
