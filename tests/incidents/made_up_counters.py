"""Made-up counters of pods, as scrapes every 15 s, from which tests ask the emulated rules for pages."""

from bench.incidents.samples import Labels
from bench.roots.passage import ALLOWED, MISSES, REQUESTS, ROOTS, Columns, Scraped


CODE: Labels = (("model", "llama"), ("lane", "code"), ("objective", "ttft"))
FAULT = 20
"""Scrape after which misses begin."""
SCRAPES = 60


def pod(
    misses: float,
    requests: float,
    roots: dict[str, float],
    *,
    allowed: float = 0.02,
    until: int = SCRAPES,
    undecided_for: int = 0,
) -> Columns:
    """A pod whose lane decides so many requests between two scrapes, and misses so many after the scrape `FAULT`.

    `allowed`: share of misses that the target allows. `until`: last scrape before which anything misses. `roots`: share of the misses by phase. `undecided_for`: number
    of scrapes after which a miss is decided.
    """
    every = (*CODE, ("prompt_bucket", "<=1k"))

    def missed(scrape: int) -> float:
        return misses * min(max(0, scrape - FAULT), until - FAULT)

    found: Columns = {
        (REQUESTS, every): [requests * scrape for scrape in range(SCRAPES)],
        (ALLOWED, every): [allowed * requests * scrape for scrape in range(SCRAPES)],
        (MISSES, every): [missed(scrape) for scrape in range(SCRAPES)],
    }
    for phase, share in roots.items():
        column = [share * missed(scrape - undecided_for) for scrape in range(SCRAPES)]
        found[ROOTS, (*CODE, ("phase", phase))] = list(column)
    return found


def scraped(*pods: Columns) -> Scraped:
    return Scraped(tuple(pods), SCRAPES)
