"""A seed's history is one text: what is written depends on nothing but the requests. And it holds all that it is drawn from."""

import pytest

from tests.histories.compare import CHECKOUT, differing, written
from tests.histories.history import Told


pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("seed", "requests"), [(3, 120), *(pytest.param(seed, 500, marks=pytest.mark.thorough) for seed in (4, 5))]
)
def test_no_order_of_a_set_decides_what_is_written(seed: int, requests: int) -> None:
    """Python draws the order of sets anew in each process."""
    one, other = (written([CHECKOUT], seed, requests, PYTHONHASHSEED=drawn)[0] for drawn in ("1", "2"))

    assert len(one) > 10 * requests
    assert differing(one, other) == []


def test_a_history_holds_every_kind_of_end_report_and_miss() -> None:
    told = Told(5)
    told.play(300)
    told.logs.close()

    outcomes = ("ok", "client_cancelled", "client_error", "rejected", "engine_error", "engine_truncated")
    assert [outcome for outcome in outcomes if not told.value("llm_requests_total", outcome=outcome)] == []
    reasons = ("in_band", "late_report", "no_report", "report_exceeds_wire", "report_incomplete", "no_token")
    assert [why for why in reasons if not told.value("llm_phase_attribution_total", reason=why)] == []
    objectives = ("ttft", "tpot", "e2e", "stall")
    assert [each for each in objectives if not told.value("llm_slo_misses_total", objective=each)] == []
    assert told.value("llm_slo_root_cause_misses_total") > 0


def test_what_differs_between_two_trees_is_told_but_for_the_lines_that_may() -> None:
    old = ["a", "up 1", "b", "c"]

    assert differing(old, ["a", "up 2", "b", "c"], but="^up ") == differing(old, old) == []
    assert differing(old, ["a", "up 1", "b"])[-2:] == [" b", "-c"]
    assert differing(old, ["a", "up 2", "b", "d"])[-5:] == ["-up 1", "+up 2", " b", "-c", "+d"]
