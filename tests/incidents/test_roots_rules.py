"""The emulated rules page as the planned ones will: tiers, odd pods, and phases that enough roots agree on."""

import pytest

from bench.roots.growth import Growth
from bench.roots.passage import BLAMED, ROOTS, Scraped
from bench.roots.rules import Page, Rules, Subject, leading
from bench.roots.verdicts import beginnings
from tests.incidents.made_up_counters import CODE, FAULT, pod, scraped


LANE = Subject(("code", "ttft"), None)


def pages(scrape: Scraped, *, minute: bool = False) -> list[tuple[float, Page]]:
    """Every page that begins, with the seconds since the fault."""
    found = beginnings(Rules(scrape, minute=minute).looks(), 15.0)
    return [(each.at - 15.0 * FAULT, each.page) for each in found]


def said(scrape: Scraped, *, minute: bool = False) -> list[tuple[float, Subject, str]]:
    return [(at, page.subject, page.phase) for at, page in pages(scrape, minute=minute)]


def test_growth_is_that_of_a_counter_which_may_restart_and_miss_scrapes() -> None:
    growth = Growth.of([None, 5, 7, None, 2, 2])

    assert [growth.over(scrape, 1) for scrape in range(6)] == [0, 0, 2, 0, 2, 0]
    assert growth.over(5, 20) == 4


def test_a_lane_without_misses_never_pages() -> None:
    assert said(scraped(pod(0, 8, {}))) == []


def test_a_lane_pages_at_the_scrape_at_which_half_of_two_minutes_missed() -> None:
    """All of 8 requests in 15 s miss, and the target is low: four of eight scrapes make half of two minutes."""
    assert said(scraped(pod(8, 8, {"prefill": 1.0}, allowed=0.2))) == [(60.0, LANE, "prefill")]


def test_a_burn_of_ten_times_the_budget_pages_below_half_of_the_requests() -> None:
    """A quarter of the requests misses; the target allows 2 %, so that 20 % of two minutes are enough: seven scrapes."""
    assert said(scraped(pod(2, 8, {"queue": 1.0}))) == [(105.0, LANE, "queue")]


def test_few_misses_page_once_five_minutes_hold_ten_of_them() -> None:
    assert said(scraped(pod(1, 1, {"engine": 1.0}))) == [(150.0, LANE, "engine")]


def test_a_burn_that_is_over_stops_paging_within_two_minutes() -> None:
    looks = list(Rules(scraped(pod(8, 8, {"prefill": 1.0}, until=FAULT + 12))).looks())

    last = max(scrape for scrape, fires in enumerate(looks) if fires)
    assert FAULT + 12 < last <= FAULT + 12 + 8


def test_an_outage_pages_by_one_minute_only_if_that_tier_is_asked_for() -> None:
    """Half of a minute is two scrapes, with 40 misses; with 8 misses a scrape, 20 take three."""
    for misses, at in ((20, 30.0), (8, 45.0)):
        quick = scraped(pod(misses, misses, {"decode": 1.0}, allowed=0.2))

        assert said(quick) == [(60.0, LANE, "decode")]
        assert said(quick, minute=True) == [(at, LANE, "decode")]


def test_below_six_tenths_of_the_roots_the_page_says_unattributed_and_waits_for_a_minute() -> None:
    clear, unclear = (pod(8, 8, {"queue": share, "prefill": 1.0 - share}) for share in (0.6, 0.59))

    began = said(scraped(clear))[0][0]
    assert said(scraped(clear)) == [(began, LANE, "queue")]
    assert said(scraped(unclear)) == [(began + 60.0, LANE, "unattributed")]


def test_roots_that_come_late_name_the_page_before_it_would_say_unattributed() -> None:
    """Misses are decided half a minute after they were counted: the page waits for three roots."""
    assert said(scraped(pod(8, 8, {"decode": 1.0}, undecided_for=3))) == [(60.0, LANE, "decode")]


def test_a_page_says_its_share_and_the_roots_of_its_window() -> None:
    ((_, page),) = pages(scraped(pod(8, 8, {"queue": 0.75, "prefill": 0.25})))

    assert page.share == pytest.approx(0.75)
    assert page.roots == pytest.approx({"queue": 12.0, "prefill": 4.0})
    assert page.seconds == 120.0


def test_an_odd_pod_pages_by_itself_and_leaves_its_lane_calm() -> None:
    healthy = [pod(0, 8, {}) for _ in range(2)]

    told = said(scraped(pod(8, 8, {"decode": 1.0}), *healthy))
    assert told == [(30.0, Subject(None, 0), "decode")]


def test_pods_that_miss_alike_page_as_a_lane() -> None:
    assert said(scraped(*[pod(8, 8, {"queue": 1.0})] * 3)) == [(30.0, LANE, "queue")]


def test_the_lane_pages_beside_its_odd_pod_if_the_others_burn_too() -> None:
    """Each of the other pods misses a quarter: the odd one is at four times that, and they burn without it."""
    others = [pod(2, 8, {"queue": 1.0})] * 2

    told = said(scraped(pod(8, 8, {"engine": 1.0}), *others))
    assert {(subject, phase) for _, subject, phase in told} >= {(Subject(None, 0), "engine"), (LANE, "queue")}


def test_a_pod_with_few_requests_is_not_odd() -> None:
    """It decides 16 requests in two minutes: too few to compare it with the other one."""
    told = said(scraped(pod(2, 2, {"decode": 1.0}), pod(0, 2, {})))

    assert {subject for _, subject, _ in told} == {LANE}


@pytest.mark.parametrize(
    ("roots", "phase"),
    [
        ({}, "unattributed"),
        ({"queue": 2.9}, "unattributed"),
        ({"queue": 3.0}, "queue"),
        ({"queue": 6.0, "prefill": 4.0}, "queue"),
        ({"queue": 5.9, "prefill": 4.1}, "unattributed"),
        ({"unattributed": 9.0, "prefill": 1.0}, "unattributed"),
    ],
)
def test_a_phase_leads_with_six_tenths_of_three_roots(roots: dict[str, float], phase: str) -> None:
    assert leading(roots)[0] == phase


def test_the_metric_of_the_votes_can_be_another() -> None:
    scrape = scraped(pod(8, 8, {"queue": 1.0}))
    columns = scrape.pods[0]
    columns[BLAMED, (*CODE, ("phase", "stream"))] = columns[ROOTS, (*CODE, ("phase", "queue"))]

    (began,) = beginnings(Rules(scrape, votes=BLAMED).looks(), 15.0)
    assert began.page.phase == "stream"
