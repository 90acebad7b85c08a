"""The evidence of a run is enough to decide its roots anew as the product did."""

import pytest

from bench.incidents.engines import CHUNKS_2048
from bench.incidents.request import Request, Run
from bench.incidents.world import Mode
from bench.roots.passage import ROOTS, Scraped, scraped
from bench.roots.record import recorded, replayed
from tests.incidents.made_up_runs import answered, run_of


def late(number: int, at: float, seconds: float) -> Request:
    """A request whose answer comes so much later than usual."""
    request = answered(number, at)
    request.reads = [each + seconds for each in request.reads]
    request.ended_at, request.flushed_at = (at + seconds + 1.0 for _ in range(2))
    return request


@pytest.fixture(scope="module")
def run() -> Run:
    return run_of([late(number, 2.0 * number, 20.0 if number % 3 == 0 else 0.0) for number in range(40)])


def phases(found: Scraped) -> dict[str, float]:
    """The misses of each phase at the last scrape, of those that have any."""
    counts: dict[str, float] = {}
    for key, column in found.pods[0].items():
        if key[0] == ROOTS:
            phase = dict(key[1])["phase"]
            counts[phase] = counts.get(phase, 0.0) + (column[-1] or 0.0)
    return {phase: count for phase, count in counts.items() if count}


def test_the_recorded_misses_are_those_of_the_product(run: Run) -> None:
    product = phases(scraped(CHUNKS_2048, run, Mode.BLIND))
    again = phases(replayed(recorded(CHUNKS_2048, run, Mode.BLIND)))

    assert sum(product.values()) > 10
    assert sum(again.values()) == pytest.approx(sum(product.values()), rel=0.05)
    assert max(again, key=again.__getitem__) == max(product, key=product.__getitem__)
