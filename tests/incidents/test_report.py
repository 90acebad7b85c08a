"""The tables of a made-up bench say what was made up."""

from dataclasses import replace

from bench.incidents.grade import LANE_CALM, FalsePage
from bench.incidents.measures import Woken, share
from bench.incidents.report import by_kind, grouped, interval, scoreboard, summary, table
from bench.incidents.world import Mode
from tests.incidents.made_up_cases import case_of, fired, lane


RIGHT, WRONG, MISSED = case_of([fired(660.0, "queue")]), case_of([fired(660.0, "prefill")]), case_of([])
WELCOME = case_of([], lane(burns=True))
CASES = [replace(case, seed=seed) for seed, case in enumerate([RIGHT] * 8 + [WRONG, MISSED])]
FALSE = FalsePage("burst", "chunks-2048", 12, Mode.REPORTS, LANE_CALM, "LLMQueueBurn", "queue", None, 60.0)


def row(text: str, name: str) -> list[str]:
    """The cells of one row."""
    (found,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in found.strip("|").split("|")][1:]


def test_a_made_up_confusion_comes_out_as_it_was_made_up() -> None:
    """Eight right, one wrong, one missed: the table counts each in its cell."""
    text = table([*CASES, WELCOME], [FALSE], 10)

    assert "| queue | 8 | 1 |  |  |  |  |  |  | 1 |" in text
    assert "right 80.0%" in text
    assert "1 more lanes burned and did not have to page; 1 of them got no page." in text
    assert "False pages: 1: LLMQueueBurn this lane does not burn 1." in text
    assert (share(CASES, "right"), share(CASES, "missed")) == (0.8, 0.1)
    low, high = interval(CASES, "right")
    assert 0.4 <= low < 0.8 < high <= 1.0


def test_a_bench_in_which_no_lane_had_to_page_says_so() -> None:
    assert table([WELCOME], [], 3) == "3 runs, and no lane had to page.\n"


def test_the_scoreboard_has_a_column_for_each_mode_and_one_for_the_past() -> None:
    estimated = [replace(case, mode=Mode.ESTIMATOR) for case in CASES[:8]]
    woken = [Woken("burst", seed, Mode.REPORTS, False, 2, 5, 3, 0) for seed in range(10)]

    text = scoreboard([*CASES, *estimated, WELCOME], [FALSE], woken)

    assert row(text, "figure") == ["with reports", "estimator only", "in November 2026"]
    lenient, s2 = row(text, "right first page, lenient"), row(text, "right first page, S2")
    assert (lenient[0].split(" ")[0], lenient[0].endswith("of 10"), lenient[2]) == ("80.0%", True, "94.6 [91, 98]")
    assert (s2[0].split(" ")[0], s2[0].endswith("of 11")) == ("72.7%", True)
    assert s2[1] == "100.0% [100.0%, 100.0%] of 8"
    assert s2[2] == "78.4 [72, 85], 62.7 (estimator only)"
    assert row(text, "receivers woken per incident") == ["2.00 [2.00, 2.00] of 10", "-", "1.7"]
    assert row(text, "median seconds to page")[0] == "60 [60, 60]"
    assert row(text, "false pages: this lane does not burn") == ["1", "0", "-"]


def test_the_scoreboard_names_each_class_that_misses_its_bound() -> None:
    text = scoreboard([*CASES, WELCOME], [])

    assert "With reports:\n\n- " in text
    assert "\n- engine chunks-2048: S2 72.7% [" in text
    assert "kind burst" not in text
    blind = [replace(case, mode=Mode.BLIND) for case in CASES[:8]]
    assert "- every class and figure keeps its bound" in scoreboard(blind, [])


def test_the_scoreboard_states_no_confidence_as_long_as_no_page_does() -> None:
    """Nine pages are too few for a bound; six times as many keep it."""
    stated = [replace(case, confidence=0.95) for case in CASES]

    assert row(scoreboard(CASES, []), "confidence") == ["none stated", "none stated"]
    assert row(scoreboard(stated, []), "confidence")[0] == "too few pages"
    told = scoreboard(stated * 6, [])
    assert row(told, "confidence")[0] == "1 of 1 bands kept"
    assert "- stated confidence 95% to 100%, mean 95.0%: 88.9% [" in told


def test_the_page_has_a_column_for_each_mode_of_each_world_and_a_row_for_each_kind() -> None:
    hangs = [replace(case, kind="hang") for case in [*CASES[:3], CASES[8], WELCOME]]
    groups = [*grouped(CASES, [], [], "kind world,"), *grouped(hangs, [FALSE], [], "unkind worlds,")]

    text = summary(groups)
    assert row(text, "figure") == ["kind world, with reports", "unkind worlds, with reports"]
    assert [cell.split(" ")[0] for cell in row(text, "right first page, lenient")] == ["80.0%", "75.0%"]
    assert row(text, "false pages: this lane does not burn") == ["0", "1"]
    kinds = by_kind(groups)
    assert (row(kinds, "burst"), row(kinds, "hang")) == (["80.0% of 10", "-"], ["-", "75.0% of 4"])
