"""The table of the real engines allows what chance makes of a rate and no more, and the page is what its writer writes."""

import pytest

from tests.real.mixed_table import HEAD, PAGE, Verdicts, page, row_of


@pytest.mark.parametrize(
    ("asked", "right", "holds"), [(10, 9, True), (7, 6, True), (7, 5, False), (30, 26, False), (0, 0, True)]
)
def test_one_wrong_answer_of_few_is_borne(asked: int, right: int, holds: bool) -> None:
    assert Verdicts(asked, right).holds(0.9) is holds


@pytest.mark.parametrize(
    ("asked", "right", "allowed"),
    [(75, 75, True), (75, 69, True), (75, 66, True), (75, 65, False), (300, 274, False), (0, 0, True)],
)
def test_what_chance_alone_makes_of_a_rate_is_allowed(asked: int, right: int, allowed: bool) -> None:
    """At a rate of 0.95, at most 66 of 75 are right in 1 of 80 samples, and at most 65 in 1 of 240."""
    assert Verdicts(asked, right).allows(0.95) is allowed


def test_the_page_is_of_its_writer() -> None:
    """Its prose and its columns; its rows are those of a run."""
    text = PAGE.read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]

    assert text.startswith(page([row_of("x", "X", [], {})]).partition("|X|")[0])
    assert {len(cells) for cells in rows} == {len(HEAD)}
    assert {cells[0].split(" ")[0] for cells in rows} >= {"vLLM", "llama.cpp", "Triton"}
