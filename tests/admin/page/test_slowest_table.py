"""The slowest one percent on the status page: each latency of a lane by itself, and words where there are too few requests."""

from sidecar.accounts.slowest import Slowest, SlowestRequests
from sidecar.admin.page.slowest_table import slowest_section
from sidecar.ledger.account import Phase
from sidecar.objectives.objective import Objective
from tests.support.page_reader import Reader


def test_each_latency_is_a_row_with_a_bar_of_its_phases() -> None:
    """The span in time stands in the heading; a lane with too few requests has no bar."""
    slow = Slowest(
        lane="chat<",
        objective=Objective.TTFT,
        requests=1180,
        slowest=12,
        least_seconds=2.25,
        mean_seconds=4.0,
        phases={Phase.QUEUE: 3.0, Phase.PREFILL: 1.0},
        missed=9,
    )
    few = Slowest("batch", Objective.TPOT, 40)

    page = Reader(slowest_section(SlowestRequests(span_seconds=2520.0, requests=12_345, of=(slow, few))))

    assert page.open == []
    assert "The slowest 1 % the last 42 min: 12,345 requests" in page.text
    assert (
        "chat< time to first token 12 of 1,180 took 2.25 s or more, 4 s on average 9 missed the objective" in page.text
    )
    assert "queue 3 s (75 %), prefill 1 s (25 %)" in page.text
    assert "batch time between tokens 40 requests so far, 100 are needed" in page.text
    assert page.tags.count("svg") == 1


def test_before_the_first_request_there_is_no_section() -> None:
    assert slowest_section(SlowestRequests(span_seconds=5.0, requests=0, of=())) == ""
