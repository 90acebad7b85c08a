"""The emulated rules page as those of Prometheus do, by their tiers and by the phase that enough roots agree on."""

from bench.roots.passage import Scraped
from bench.roots.rules import Page, Rules, Subject
from bench.roots.verdicts import beginnings
from tests.incidents.made_up_counters import FAULT, pod, scraped


LANE = Subject(("code", "ttft"), None)


def pages(scrape: Scraped, *, minute: bool = False) -> list[tuple[float, Page]]:
    """Every page that begins, with the seconds since the fault."""
    found = beginnings(Rules(scrape, minute=minute).looks(), 15.0)
    return [(each.at - 15.0 * FAULT, each.page) for each in found]


def said(scrape: Scraped, *, minute: bool = False) -> list[tuple[float, Subject, str]]:
    return [(at, page.subject, page.phase) for at, page in pages(scrape, minute=minute)]


def test_a_lane_pages_at_the_scrape_at_which_half_of_two_minutes_missed() -> None:
    """All of 8 requests in 15 s miss, and the target is low: four of eight scrapes make half of two minutes."""
    assert said(scraped(pod(8, 8, {"prefill": 1.0}, allowed=0.2))) == [(60.0, LANE, "prefill")]


def test_below_six_tenths_of_the_roots_the_page_says_unattributed_and_waits_for_a_minute() -> None:
    clear, unclear = (pod(8, 8, {"queue": share, "prefill": 1.0 - share}) for share in (0.6, 0.59))

    began = said(scraped(clear))[0][0]
    assert said(scraped(clear)) == [(began, LANE, "queue")]
    assert said(scraped(unclear)) == [(began + 60.0, LANE, "unattributed")]
