"""A slow growth of prompts is paged for its own phase."""

import pytest

from bench.incidents.growth import failures, growth
from bench.incidents.prometheus import Firing
from tests.support.tools import need_tool


FAULT_AT = 1200.0


def page(hours: float, phase: str, severity: str = "page") -> Firing:
    return Firing(FAULT_AT + 3600.0 * hours, {"alertname": "LLMBurn", "severity": severity, "phase": phase})


@pytest.mark.bench
def test_three_hours_of_growth_burn_and_no_page_names_another_phase() -> None:
    """The usual does not follow so fast."""
    need_tool("promtool")

    found = growth(0, 10_800.0)

    assert (found.burned, failures(found, limit="")) == (True, [])
    assert found.paged is not None
    assert found.paged[0] == "prefill"
