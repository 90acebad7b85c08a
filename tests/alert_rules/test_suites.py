"""Every scenario of every suite, as promtool judges it: what the series do, which alerts come of it, and which do not."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.alert_rules import promtool
from tests.alert_rules.promtool import RULES, Scenario, Suite, complaints, run
from tests.alert_rules.suites import SUITES
from tests.support.tools import need_newer


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this test run, the same one in all processes of pytest-xdist, however it deals out the tests."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "promtool"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.long
@pytest.mark.parametrize(
    ("suite", "scenario"),
    [
        pytest.param(suite, scenario, id=f"{suite.name}-{scenario.name}")
        for suite in SUITES
        for scenario in suite.scenarios
    ],
)
def test_promtool_finds_what_the_scenario_tells(suite: Suite, scenario: Scenario, answers: Path) -> None:
    found = "".join(complaints(suite, scenario, answers))

    assert found == "", f"{scenario.promise}\n{found}"


ALSO_ON_PROMETHEUS_3 = "turned-away"
"""The suite of the fewest scenarios. `make thorough` plays all of them on both versions, which is ten minutes of CPU."""


COUNTED_ON_PROMETHEUS_3 = {"558 of 3720 requests in 30 min": "540 of 3600 requests in 30 min"}
"""Numbers in words that include the sample at the beginning of a window of sums, to the same without it."""


@pytest.mark.parametrize(
    "suite",
    [
        pytest.param(suite, id=suite.name, marks=() if suite.name == ALSO_ON_PROMETHEUS_3 else pytest.mark.thorough)
        for suite in SUITES
    ],
)
def test_prometheus_3_finds_the_same(suite: Suite, tmp_path: Path) -> None:
    """Since 3.0 a window no longer holds the sample at its very beginning."""
    test_file = tmp_path / suite.file_name
    text = suite.text()
    for before, now in COUNTED_ON_PROMETHEUS_3.items():
        text = text.replace(before, now)
    test_file.write_text(text)

    assert run(test_file, need_newer("promtool")) == ""


@pytest.mark.long
def test_the_suites_are_written_for_promtool(tmp_path: Path) -> None:
    """One file per suite, by a command, and promtool takes it where it lies: here the suite of the fewest scenarios."""
    folder = tmp_path / "suites"
    command = [sys.executable, "-m", "tests.alert_rules.suites", str(folder)]
    subprocess.run(command, check=True, timeout=60, cwd=RULES.parent)
    written = {path.name: path.read_text() for path in folder.iterdir()}

    assert written == {suite.file_name: suite.text() for suite in SUITES}
    assert run(folder / "llm-turned-away_test.yml") == ""


# --- how promtool is asked --------------------------------------------------------------------------------------------------


SAID = """
  FAILED:
    name: toy,
    expr: "up{namespace=\\"first\\"}", time: 1m,
        exp: nil
        got: {namespace="first"} 1E+00
    rule: a, time: 0s, err: found duplicate series for the match group {namespace="first"}
"""


def toy() -> Suite:
    """Two scenarios of one series each."""
    suite = Suite("toy")

    @suite.scenario(1)
    def first(scenario: Scenario) -> None:
        """A series that is there."""
        scenario.yields("up", 1)

    suite.scenarios.append(suite.scenarios[0].again("second"))
    return suite


def test_promtool_is_asked_once_about_a_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whichever process is first; the others wait for its answer."""
    asked: list[Path] = []

    def slow(test_file: Path) -> str:
        asked.append(test_file)
        time.sleep(0.05)
        return ""

    monkeypatch.setattr(promtool, "run", slow)
    suite = toy()
    with ThreadPoolExecutor(2) as workers:
        found = list(workers.map(lambda scenario: complaints(suite, scenario, tmp_path), suite.scenarios))

    assert (found, asked) == ([[], []], [tmp_path / "llm-toy_test.yml"])


def test_a_scenario_hears_what_is_said_of_it_and_what_is_said_of_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample has the namespace of its scenario. After a rule that cannot be evaluated, nothing was judged."""
    monkeypatch.setattr(promtool, "run", lambda _: SAID)
    suite = toy()
    heard = [
        [text.split(maxsplit=1)[0] for text in complaints(suite, scenario, tmp_path)] for scenario in suite.scenarios
    ]

    assert heard == [["expr:", "rule:"], ["rule:"]]
