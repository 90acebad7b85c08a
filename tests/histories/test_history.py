"""A seed's history is one text: what is written depends on nothing but the requests. And it holds all that it is drawn from."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.histories.history import Told


pytestmark = pytest.mark.long


CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("seed", "requests"), [("3", 120), *(pytest.param(seed, 500, marks=pytest.mark.thorough) for seed in ("4", "5"))]
)
def test_no_order_of_a_set_decides_what_is_written(seed: str, requests: int) -> None:
    """Python draws the order of sets anew in each process."""
    command = [sys.executable, "-m", "tests.histories.history", seed, str(requests)]
    written = [
        subprocess.run(
            command, cwd=CHECKOUT, env=os.environ | {"PYTHONHASHSEED": drawn}, capture_output=True, check=True
        ).stdout
        for drawn in ("1", "2")
    ]

    assert len(written[0]) > 2_000 * requests
    assert len(set(written)) == 1


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
