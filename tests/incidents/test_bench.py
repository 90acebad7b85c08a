"""The incident bench plays a run from its seed to its page, and fails where a page comes while nothing is broken."""

import sys
from collections import Counter

import pytest

from bench.incidents import __main__ as bench
from bench.incidents.__main__ import PROFILES, SAMPLE
from bench.incidents.growth import Growth, failures, growth
from bench.incidents.healthy import (
    HealthyDay,
    rolling_restart,
)
from bench.incidents.job import Job, engine_for
from bench.incidents.prometheus import Firing
from bench.incidents.report import line
from bench.incidents.run import done
from bench.incidents.world import Mode
from tests.support.tools import need_tool


@pytest.mark.bench
def test_one_run_from_its_seed_to_its_line() -> None:
    """A crash must page with the shipped rules: one run from its seed to its printed line. A lean pod pages the same."""
    need_tool("promtool")

    engine = engine_for("crash", SAMPLE["crash"])
    finished = done(Job("crash", engine, SAMPLE["crash"], (Mode.REPORTS,), unkind=False, profiles=PROFILES["both"]))

    pages = [case for case in finished.cases if case.severity == "page"]
    assert {case.key for case in pages} >= {("interactive", "ttft"), ("code", "ttft")}
    assert {case.root for case in pages} == {("engine",)}
    assert finished.differing == []
    assert line(finished, 3).startswith("   3 left  crash chunks-2048")


PAGE = Firing(60.0, {"alertname": "LLMQueueBurn", "severity": "page", "lane": "code", "objective": "ttft"})
TICKET = Firing(90.0, {"alertname": "LLMAttributionLow", "severity": "ticket"})
CALM = HealthyDay(0, "unchunked", 1_234, [], [TICKET], "drain of one pod of 2")
GROWN = Growth(0, "unchunked", 78_000, 48.0, None, (), ())


def test_without_arguments_the_sample_is_played_and_nothing_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench"])
    arguments = bench._arguments()

    assert {job.kind: job.seed for job in bench._todo(arguments)} == SAMPLE
    assert bench.pieces(arguments) == []


def test_make_thorough_plays_these_stretches_and_no_incident_the_longest_ones_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--health"])
    arguments = bench._arguments()
    played = [play.__name__ for play, _ in bench.pieces(arguments)]

    assert bench._todo(arguments) == []
    assert Counter(played) == {
        "fleet_day": 1,
        "growth": 1,
        "healthy_day": 7,
        "rolling_restart": 20,
        "drain": 10,
        "busy_machine": 5,
    }
    assert played[:3] == ["fleet_day", "growth", "healthy_day"]


@pytest.mark.parametrize(
    ("found", "status"),
    [
        pytest.param([CALM], 0, id="tickets alone"),
        pytest.param([CALM, HealthyDay(1, "unchunked", 7, [PAGE], [], "healthy day")], 1, id="a page"),
        pytest.param(
            [[CALM, HealthyDay(1, "unchunked", 7, [PAGE], [], "quiet day")]], 1, id="a page among several days"
        ),
        pytest.param([CALM, GROWN], 1, id="a growth in which nothing burned"),
    ],
)
def test_a_page_while_nothing_is_broken_is_told_and_makes_the_run_fail(
    found: list[HealthyDay | list[HealthyDay] | Growth],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each stretch has a line, all of them a table, and the last line is the result."""
    monkeypatch.setattr(sys, "argv", ["bench", "--health", "--jobs", "1"])
    monkeypatch.setattr("shutil.which", lambda _: "promtool")
    monkeypatch.setattr(bench, "frozen", lambda: None)
    monkeypatch.setattr(
        bench, "pieces", lambda _: [(lambda number: found[number], number) for number in range(len(found))]
    )

    assert bench.main() == status

    told = capsys.readouterr()
    assert ("NOT KEPT" in told.err) is bool(status)
    assert told.out.splitlines()[0].startswith(
        "drain of one pod of 2 1 on unchunked (reports): 1,234 requests, pages: 0;"
    )
    assert "| drain of one pod of 2 | 1 | 1,234 | 0 | 1, LLMAttributionLow 1 |" in told.out
    assert " healthy stretches, 1,2" in told.out.splitlines()[-1]


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
