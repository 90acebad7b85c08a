"""The incident bench itself: the runs that it does, the lines that it prints, and no page in a healthy hour."""

import sys
from collections import Counter

import pytest

from bench.incidents import __main__ as bench
from bench.incidents.__main__ import PROFILES, REPORTED, SAMPLE, TUNING, whole
from bench.incidents.drawn import drawn
from bench.incidents.engines import ENGINES
from bench.incidents.growth import Growth
from bench.incidents.healthy import HealthyDay, curve, healthy_day
from bench.incidents.job import Job, engine_for, engine_of, jobs
from bench.incidents.kinds import BY_NAME, KINDS
from bench.incidents.page import page
from bench.incidents.prometheus import Firing
from bench.incidents.report import line
from bench.incidents.run import done
from bench.incidents.world import Mode
from sidecar.objectives.attribution import Blame
from tests.support.tools import need_tool


def test_every_kind_meets_every_engine_within_five_seeds_and_tuning_never_meets_what_is_reported() -> None:
    names = {engine.name for engine in ENGINES}

    for kind in KINDS:
        assert {engine_for(kind.name, seed) for seed in range(5)} == names
    assert not set(TUNING) & set(REPORTED)
    assert len(REPORTED) >= 20


def test_runs_can_be_chosen_by_kind_engine_and_seed() -> None:
    """Without the held-out engine, the others take its runs."""
    kinds, tuned = [kind.name for kind in KINDS], [engine.name for engine in ENGINES if not engine.held_out]

    chosen = jobs(kinds, tuned, list(TUNING))

    assert len(chosen) == len(KINDS) * len(TUNING)
    assert {job.engine for job in chosen} == set(tuned)
    assert jobs(["hang"], ["unchunked"], [12]) == [Job("hang", "unchunked", 12)]


def test_a_kind_that_needs_another_engine_is_not_played_in_the_kind_world() -> None:
    assert jobs(["kv-transfer", "hang"], ["unchunked"], [12], unkind=False) == [
        Job("hang", "unchunked", 12, unkind=False)
    ]


def test_an_engine_is_found_by_its_name_drawn_or_not() -> None:
    assert engine_of("unchunked").name == "unchunked"
    assert engine_of("drawn-0a1b2c-7") == drawn("0a1b2c", 7)
    with pytest.raises(KeyError):
        engine_of("another")


def test_the_sample_has_a_reported_seed_of_kinds_of_every_phase() -> None:
    """`make thorough` has five minutes for it; the phase `sidecar` has no page yet that could be right."""
    phases = {phase for name in SAMPLE for phase in BY_NAME[name].phases}

    assert phases == {phase.value for phase in Blame if phase is not Blame.UNATTRIBUTED}
    assert set(SAMPLE.values()) <= set(REPORTED)


def test_a_whole_run_has_300_runs_with_reports_on_seeds_that_the_commit_draws() -> None:
    """Two commits play different seeds, no run is played twice, and none has a seed that was looked at."""
    found = whole("8f94c88f98ca", ["unchunked", "drawn-8f94c88f98ca-0"])

    assert sum(Mode.REPORTS in job.modes for job in found) >= 300
    assert {mode for job in found for mode in job.modes} == set(Mode)
    assert len({(job.kind, job.seed, job.unkind) for job in found}) == len(found)
    assert {job.engine for job in found} == {"unchunked", "drawn-8f94c88f98ca-0"}
    seeds = {job.seed for job in found}
    assert not seeds & {*TUNING, *REPORTED, *SAMPLE.values()}
    assert not seeds & {job.seed for job in whole("647d7bc", ["unchunked"])}


@pytest.mark.bench
def test_one_run_from_its_seed_to_its_line_and_its_page() -> None:
    """A crash must page with the shipped rules: one run from its seed to its printed line and its page. A lean pod pages the same."""
    need_tool("promtool")

    engine = engine_for("crash", SAMPLE["crash"])
    finished = done(Job("crash", engine, SAMPLE["crash"], (Mode.REPORTS,), unkind=False, profiles=PROFILES["both"]))

    pages = [case for case in finished.cases if case.severity == "page"]
    assert {case.key for case in pages} >= {("interactive", "ttft"), ("code", "ttft")}
    assert {case.root for case in pages} == {("engine",)}
    assert finished.differing == []
    assert line(finished, 3).startswith("   3 left  crash chunks-2048")
    written = page([finished], [], {}, ["with reports: something"], "1 minute")
    assert "| crash | the engine dies and comes back | engine | engine | engine |" in written
    assert "- with reports: something" in written


def test_a_day_is_quiet_at_night_and_busy_in_the_afternoon() -> None:
    day = curve()

    loads = [day.at(hour * 3600.0) for hour in range(24)]
    assert loads.index(min(loads)) in (2, 3, 4)
    assert 12 <= loads.index(max(loads)) <= 16
    assert (0.05 < min(loads) < 0.15, 0.9 < max(loads) <= 1.0) == (True, True)


@pytest.mark.bench
def test_quiet_hours_send_no_page() -> None:
    """A healthy run causes no page from its first minute on, when there is no baseline yet."""
    need_tool("promtool")

    found = healthy_day(0, 5400.0)

    assert found.requests > 300
    assert found.pages == []


# --- --health -----------------------------------------------------------------------------------------------------------------


PAGE = Firing(60.0, {"alertname": "LLMQueueBurn", "severity": "page", "lane": "code", "objective": "ttft"})
TICKET = Firing(90.0, {"alertname": "LLMAttributionLow", "severity": "ticket"})
CALM = HealthyDay(0, "unchunked", 1_234, [], [TICKET], "drain of one pod of 2")
GROWN = Growth(0, "unchunked", 78_000, 48.0, None, (), ())


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
