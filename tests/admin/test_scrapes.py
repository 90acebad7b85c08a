"""A silence of Prometheus is said once, after a minute or two and a half intervals, and taken back by the next scrape."""

import structlog
from structlog.testing import capture_logs

from sidecar.admin.scrapes import Scrapes
from sidecar.metrics.vocabulary import DOCTOR_AGENT
from tests.support.admin import Visit, visit
from tests.support.promtool import samples


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_silence_is_logged_once_and_ends_with_a_scrape() -> None:
    clock = Clock()
    events: list[tuple[int, str]] = []
    scrapes = Scrapes(clock)
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logged:
        for second in range(0, 400, 5):
            clock.now = 100.0 + second
            if second in (10, 25, 250):
                scrapes.answered("Prometheus/2.42.0")
            if second == 200:
                scrapes.answered(DOCTOR_AGENT)
            scrapes.look()
            events += [(second, entry["event"]) for entry in logged[len(events) :]]

    assert events == [(85, "not_scraped"), (250, "scraped_again")]
    assert scrapes.age_seconds == 145.0


def test_a_scrape_every_minute_is_no_silence() -> None:
    clock = Clock()
    scrapes = Scrapes(clock)
    silent = []
    for second in range(601):
        clock.now = 100.0 + second
        if second % 60 == 30:
            scrapes.answered("Prometheus/2.42.0")
        silent.append(scrapes.missing)

    assert set(silent) == {None}


def test_before_the_first_scrape_the_age_is_unknown_and_the_silence_counts_from_the_start() -> None:
    clock = Clock()
    scrapes = Scrapes(clock)
    clock.now += 61

    assert scrapes.age_seconds is None
    assert str(scrapes.missing).startswith("/metrics was not scraped for 61 s since this process began; ")


def test_the_page_states_the_age_of_the_last_scrape_but_not_of_the_doctors() -> None:
    async def scenario(visit: Visit) -> None:
        found = []
        for agent in (DOCTOR_AGENT, "Prometheus/2.42.0", DOCTOR_AGENT):
            _, _, body = await visit.ask("/metrics", User_Agent=agent)
            found.append("llm_sidecar_last_scrape_age_seconds" in {name for name, _ in samples(body)})

        assert found == [False, False, True]

    visit(scenario)
