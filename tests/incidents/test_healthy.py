"""A deploy as planned sends no page."""

import pytest

from bench.incidents.healthy import (
    rolling_restart,
)
from tests.support.tools import need_tool


@pytest.mark.bench
@pytest.mark.parametrize(
    ("number", "stretch"),
    [(0, "rolling restart of 2 pods"), (4, "rolling deploy of 2 pods"), (8, "scale-out to 2 pods")],
)
def test_a_deploy_as_planned_sends_no_page(number: int, stretch: str) -> None:
    need_tool("promtool")

    found = rolling_restart(number)

    assert found.stretch == stretch
    assert found.requests > 1000
    assert found.pages == []
