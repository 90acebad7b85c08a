"""The page of the fairness bench has, of each writer, the number of connections that came nearest to its bound."""

from bench.fairness.__main__ import Row, report
from bench.fairness.answers import ANSWERS
from bench.fairness.clients import CLIENTS
from bench.fairness.victims import Delays


CALM = Delays(0.1, 0.2, 0.5, 0)
CLIENT, ENGINE = next(iter(CLIENTS)), next(iter(ANSWERS))
WRITERS = {"client": CLIENT, "engine": ENGINE}


def row(side: str, count: int, p99: float, nginx: float, *, lost: int = 0) -> Row:
    writer = WRITERS[side]
    return Row(side, writer, count, CALM, Delays(0.3, p99, p99 + 1, lost), Delays(0.1, nginx, nginx, 0))


def test_the_row_that_came_nearest_to_its_bound_stands_for_its_writer() -> None:
    """With 4 connections p99 is lower than with 40, and so is what nginx grants."""
    page = report([row("client", 4, 4.0, 1.0), row("client", 40, 9.0, 20.0)], "2 of 2 rows pass")

    assert f"| {CLIENT} | 4 | 0.20 | 4.00 | 5.0 | 1.00 | 6.0 |" in page
    assert (f"| {CLIENT} | 40 |" in page, "2 of 2 rows pass." in page, "Hostile engines" in page) == (
        False,
        True,
        False,
    )


def test_a_miss_is_shown_before_a_nearer_row_that_passes() -> None:
    """A stream was cut with one connection; with four, p99 is nearly what it may be."""
    page = report([row("engine", 4, 5.9, 1.0), row("engine", 1, 0.3, 1.0, lost=1)], "1 of 2 rows pass")

    assert f"| {ENGINE} | 1 | 0.20 | 0.30 | 1.3 | 1.00 | 6.0, **missed** |" in page
    assert page.index("## Hostile engines") > 0
