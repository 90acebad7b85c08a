"""Two scrapes give one table row per lane; a lane without requests in between has no row."""

import pytest

from sidecar.commands.demo.view import quantile, read_page, rows
from tests.commands.demo.pages import page


def test_a_row_is_what_happened_between_two_pages() -> None:
    """Ten requests of 2 s by the first page, thirty more of 4 s by the second: the row shows the thirty."""
    earlier, later = read_page(page(10, 2.0)), read_page(page(40, 3.5))

    row = rows(earlier, later)[0]

    assert (row.lane, row.requests, row.not_ok) == ("rag", 30, 0)
    assert row.phases == pytest.approx({"queue": 1.0, "decode": 3.0})
    assert row.ttft_p50 == pytest.approx(0.15)
    assert row.inter_token_p50 is None


def test_a_lane_in_which_nothing_ended_has_no_row() -> None:
    sums = read_page(page(10, 2.0))

    assert rows(sums, sums) == []


@pytest.mark.parametrize(
    ("q", "expected"),
    [(0.5, 0.2), (0.25, 0.15), (0.95, 0.4), (0.0, 0.1)],
    ids=["median", "inside a bucket", "beyond the last edge", "nothing below the first sample's bucket"],
)
def test_quantiles_are_those_of_histogram_quantile(q: float, expected: float) -> None:
    buckets = {0.1: 0.0, 0.2: 10.0, 0.4: 15.0, float("inf"): 20.0}

    assert quantile(buckets, q) == pytest.approx(expected)


def test_empty_buckets_still_bound_the_one_that_is_not() -> None:
    """Lines of empty buckets are not parsed, but their edges count: all samples lie above 0.1 s, also the lowest
    quantile."""
    sums = read_page(page(8, 4.0))

    assert sums["llm_time_to_first_token_seconds_bucket", "rag", "0.1"] == 0.0
    lowest = rows({}, sums)[0].ttft_p50
    assert lowest is not None
    assert lowest > 0.1


def test_no_samples_no_quantile() -> None:
    assert quantile({}, 0.5) is None
    assert quantile({0.1: 0.0, float("inf"): 0.0}, 0.5) is None
