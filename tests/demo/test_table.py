"""The live table: the lengths of its bars, and values that are unknown."""

import pytest

from sidecar.demo.table import BAR, bar_widths, milliseconds, plain
from sidecar.demo.view import read_page, rows
from tests.demo.pages import page


@pytest.mark.parametrize(
    "parts", [{"queue": 1.0, "decode": 2.0}, {"queue": 0.001, "prefill": 1.0, "stream": 0.3}, {"decode": 5.0}]
)
def test_a_bar_is_as_long_as_a_bar(parts: dict[str, float]) -> None:
    assert sum(bar_widths(parts).values()) == BAR


def test_no_time_no_bar() -> None:
    assert sum(bar_widths({}).values()) == 0


def test_an_unknown_is_a_dash_and_a_zero_is_a_zero() -> None:
    assert (milliseconds(None), milliseconds(0.0), milliseconds(0.0071), milliseconds(2.5)) == (
        "-",
        "0.0",
        "7.1",
        "2,500",
    )


def test_a_plain_row_says_it_all_in_one_line() -> None:
    line = plain(rows({}, read_page(page(8, 4.0)))[0])

    assert "rag" in line
    assert "8 requests" in line
    assert "TTFT 150/195 ms" in line
    assert "inter-token -/- ms" in line
    assert "queue 1,000  decode 3,000" in line
