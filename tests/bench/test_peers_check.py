"""The check of `make bench` in `make thorough`: what counts as far above a bound, on figures that are written here."""

from pathlib import Path
from typing import cast

import pytest

from bench.peers import __main__ as command
from bench.peers import check
from bench.peers.__main__ import main
from bench.peers.bench import Bench
from bench.peers.check import CHECKED, MARGINS, broken, judged
from bench.peers.measure import Generator
from bench.peers.parts import Plan
from bench.peers.rows import chosen, rows
from bench.peers.table import Results
from bench.peers.verdicts import ROUTER


def run(**times: float) -> Results:
    """A measurement in which each figure is so many times its limit: `event` with usage silent, `cut` with usage cut, `request`."""
    results = Results()
    for bound, share in zip(CHECKED, (times["event"], times["cut"], times["request"]), strict=True):
        results.add(ROUTER, bound.column, 0, 100.0)
        results.add(bound.row, bound.column, 0, 100.0 * bound.most * MARGINS[bound.column] * share)
    return results


def verdict(*runs: Results) -> tuple[int, int]:
    """How many limits are broken, and how many of these measurements were made."""
    left = list(runs)
    found = broken(lambda: left.pop(0))
    return len(found), len(runs) - len(left)


WELL = {"event": 0.7, "cut": 0.7, "request": 0.8}


def test_cpu_of_an_event_and_of_a_request_is_checked_and_no_figure_that_is_no_ratio() -> None:
    assert [(bound.row, bound.column, bound.base) for bound in CHECKED] == [
        ("sidecar-silent", "event-300", ROUTER),
        ("sidecar", "event-300", ROUTER),
        ("sidecar", "request", ROUTER),
    ]
    assert [row.key for row in chosen(rows(None, full=False), check.ROWS)] == [ROUTER, "sidecar-silent", "sidecar"]


def test_a_run_at_its_limits_is_measured_once() -> None:
    assert verdict(run(event=1.0, cut=1.0, request=1.0), run(**WELL)) == (0, 1)


def test_a_miss_is_measured_once_more_and_counts_if_it_is_missed_again() -> None:
    missed = run(**WELL | {"request": 1.01})
    assert verdict(missed, run(**WELL)) == (0, 2)
    assert verdict(missed, missed) == (1, 2)


def test_another_miss_of_the_second_measurement_does_not_count() -> None:
    assert verdict(run(**WELL | {"request": 1.2}), run(**WELL | {"event": 1.2})) == (0, 2)


def test_a_figure_that_is_missing_is_broken_with_its_reason() -> None:
    """A proxy that cannot be installed does not make the check pass."""
    results = Results()
    results.fail(ROUTER, "requirements.txt cannot be installed: no network")
    assert verdict(results, results) == (3, 2)
    assert judged(results)[CHECKED[2]] == (
        False,
        "request of sidecar to vllm-router was not measured: requirements.txt cannot be installed: no network",
    )


def test_a_figure_stands_beside_what_is_allowed() -> None:
    kept, words = judged(run(event=0.5, cut=0.5, request=0.5))[CHECKED[0]]
    most = CHECKED[0].most * MARGINS[CHECKED[0].column]
    assert (kept, words) == (
        True,
        f"event-300 of sidecar-silent to vllm-router is {most / 2:.2f}, and {most:.2f} at most is allowed",
    )


@pytest.mark.parametrize(("times", "code"), [(1.4, 0), (1.6, 1)])
def test_an_event_that_costs_half_more_than_its_bound_ends_the_command_with_one(
    times: float, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bound is what the router takes."""

    def played(bench: Bench, _parts: object, _plan: object) -> None:
        for bound in CHECKED:
            bench.results.add(ROUTER, bound.column, 0, 10.0)
            bench.results.add(bound.row, bound.column, 0, 10.0 * times)

    monkeypatch.setattr(command, "played", played)
    bench = Bench(cast("Generator", None), Results(), Path())

    assert command.checked(bench, (), Plan(1, 1.0, ())) == code


def test_the_check_takes_no_choice_of_rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A check of nothing but the router would always pass."""
    monkeypatch.setattr("sys.argv", ["peers", "--check", "--only", "vllm-router"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, "--check says itself what it measures" in capsys.readouterr().err) == (2, True)
