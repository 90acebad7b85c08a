"""The quick passage of a fleet counts for a healthy pod what the product counts."""

from bench.incidents.engines import CHUNKS_2048
from bench.incidents.request import Request
from bench.incidents.world import Mode
from bench.roots.growth import by
from bench.roots.passage import ALLOWED, MISSES, REQUESTS, scraped
from tests.incidents.made_up_runs import answered, run_of


SCRAPES = 9
"""A run of two minutes has so many."""


def late(number: int, at: float, seconds: float) -> Request:
    """A request of the second pod, whose answer comes so much later than usual."""
    request = answered(number, at, pod=1)
    request.reads = [each + seconds for each in request.reads]
    request.ended_at, request.flushed_at = (at + seconds + 1.0 for _ in range(2))
    return request


def test_a_pod_that_is_not_at_fault_counts_the_same_without_the_product() -> None:
    requests = [answered(number, 2.0 * number) for number in range(40)]
    requests += [late(40 + number, 2.0 * number, 20.0 if number % 3 == 0 else 0.0) for number in range(40)]
    run = run_of(requests, pods=2)

    slow, quick = (scraped(CHUNKS_2048, run, Mode.BLIND, quick=each).pods for each in (False, True))
    assert quick[0] == slow[0]
    for name in (REQUESTS, MISSES, ALLOWED):
        told = [
            {
                key: [growth.over(at, SCRAPES) for at in range(SCRAPES)]
                for key, growth in by(pod, name, "lane", "objective").items()
            }
            for pod in (slow[1], quick[1])
        ]
        busy = [{key: [round(each, 9) for each in grown] for key, grown in each.items() if any(grown)} for each in told]
        assert busy[0] == busy[1]
        assert "code" in {lane for lane, _ in busy[0]}
