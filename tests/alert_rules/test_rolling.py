"""A rolling restart pages nothing in whatever order groups are evaluated: each has an interval of its own, and sees others late."""

from itertools import permutations
from pathlib import Path

import pytest
import yaml

from tests.alert_rules.promtool import RULES, run
from tests.alert_rules.suites.rolling import SUITE


ORDERED = ("llm-phase-sums", "llm-phase-tiers", "llm-phase-pages")
OTHERS = [name for name in SUITE.groups if name not in ORDERED]


@pytest.mark.long
@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, marks=() if order == ORDERED[::-1] else pytest.mark.thorough)
        for order in permutations(ORDERED)
    ],
    ids=lambda order: "-".join(name[10:] for name in order),
)
def test_a_planned_rolling_restart_pages_nothing_in_any_order(order: tuple[str, ...], tmp_path: Path) -> None:
    """A group before another one sees what that one recorded 15 s ago: in the reverse order each does. The shipped order is played with
    all scenarios (test_suites.py).
    """
    planned = [one for one in SUITE.scenarios if "minutes-apart" in one.name]
    test_file = tmp_path / SUITE.file_name
    document = SUITE.document([str(RULES / name) for name in SUITE.rules], [*order, *OTHERS], planned)
    test_file.write_text(yaml.safe_dump(document, sort_keys=False, width=10_000))

    assert len(planned) == 15
    assert run(test_file) == ""
