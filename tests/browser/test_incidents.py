"""During an incident of each phase, the status page names the right phase first and is well laid out."""

import asyncio
from collections.abc import Mapping

import pytest

from tests.browser.visits import LOOKS, Visit, visits
from tests.browser.worlds import INCIDENTS
from tests.support.tools import need_tool


pytestmark = [
    pytest.mark.live,
    pytest.mark.timed,
    pytest.mark.timeout(300),
]  # the first one waits for all six incidents, which run at the same time


@pytest.fixture(scope="module")
def seen() -> Mapping[str, Visit]:
    return asyncio.run(visits(need_tool("chromium")))


@pytest.mark.parametrize("truth", INCIDENTS)
def test_the_first_phase_is_the_truth(seen: Mapping[str, Visit], truth: str) -> None:
    """The headline, the verdict, the tab's title and the diagnosis of the same lane all name the phase at fault.

    An engine that is down comes before every lane: the title says so.
    """
    told = seen[truth].told

    assert (told["phase"], told["verdict"], told["chip"]) == (truth, truth, truth.replace("_", " "))
    title = "engine down" if truth == "engine" else f"{truth.replace('_', ' ')}, interactive"
    assert told["title"].startswith(title)
    # The worst comes first: requests of a crashed engine may stand under the model `other` as well.
    worst = next(one for one in seen[truth].diagnosis if one["lane"] == "interactive")
    assert worst["phase"] == truth


@pytest.mark.parametrize("truth", INCIDENTS)
def test_the_lines_below_the_headline_are_all_answered(seen: Mapping[str, Visit], truth: str) -> None:
    """With real processes too, also where the misses are too few to open an incident."""
    lines = seen[truth].told["lines"]

    assert [*lines] == ["Lane", "Objective", "Since", "Burn", "Root", "Changed", "Do first", "Runbook"]
    assert [name for name, told in lines.items() if not told or "not known" in told] == []
    assert " UTC, " in lines["Since"]


@pytest.mark.parametrize("truth", INCIDENTS)
def test_the_page_is_well_laid_out_under_every_incident(seen: Mapping[str, Visit], truth: str) -> None:
    """The layout check finds no complaint, on a page that has text in each of its parts."""
    visit = seen[truth]

    assert visit.complaints == {width: [] for width, _, _ in LOOKS}
    assert visit.console == []
    assert visit.told["rows"] >= 10
    assert visit.told["bars"] >= 2
