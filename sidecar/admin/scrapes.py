"""Whether this process's page of metrics is scraped: when it last was, and what to say once no scrape comes.

Knows instants and the User-Agent of `sidecar doctor`, whose look is no scrape. It refuses to know which Prometheus asks: the
doctor asks Prometheus itself. Said once for each silence, so that a short gap, a reload of Prometheus or a scrape interval of a
minute says nothing.
"""

from collections.abc import Callable

import structlog

from sidecar.metrics.vocabulary import DOCTOR_AGENT, LONGEST_SCRAPE_INTERVAL_SECONDS


MISSED_SCRAPES = 2.5
"""A silence is at least so many intervals long: one lost scrape is none."""
HOW_TO_BE_SCRAPED = "without it no alert can fire: `sidecar doctor --prometheus.url=URL` says what is missing"

log = structlog.get_logger()


class Scrapes:
    """The scrapes of one process. `clock`: monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began_at = clock()
        self._last_at: float | None = None
        self._gap_seconds = 0.0
        """Between the last two scrapes."""
        self._said = False

    def answered(self, agent: str) -> None:
        """The whole page was sent. `agent`: the User-Agent."""
        if agent.startswith(DOCTOR_AGENT):
            return
        now = self._clock()
        if self._last_at is not None:
            self._gap_seconds = now - self._last_at
        self._last_at = now
        if self._said:
            self._said = False
            log.info("scraped_again")

    @property
    def age_seconds(self) -> float | None:
        """Seconds since the last scrape; None before the first."""
        return None if self._last_at is None else self._clock() - self._last_at

    @property
    def missing(self) -> str | None:
        """The sentence on a silence; None while there is none."""
        since = self._began_at if self._last_at is None else self._last_at
        silent, usual = self._clock() - since, min(self._gap_seconds, LONGEST_SCRAPE_INTERVAL_SECONDS)
        if silent < max(LONGEST_SCRAPE_INTERVAL_SECONDS, MISSED_SCRAPES * usual):
            return None
        began = " since this process began" if self._last_at is None else ""
        return f"/metrics was not scraped for {silent:.0f} s{began}; {HOW_TO_BE_SCRAPED}"

    def look(self) -> None:
        """Log a silence, once. Call it every few seconds."""
        if not self._said and (said := self.missing) is not None:
            self._said = True
            log.warning("not_scraped", why=said)
