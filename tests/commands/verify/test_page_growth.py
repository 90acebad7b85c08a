"""By how much an engine's histograms grew around one probe; of more than one request nothing is said."""

import pytest

from sidecar.commands.verify.page_growth import Growth, growth, sums_on
from sidecar.engines.kinds import KINDS
from sidecar.engines.probe.state_names import PageTime


NAMES = {PageTime.WHOLE: "e:whole", PageTime.FIRST_TOKEN: "e:first", PageTime.QUEUE: "e:queue"}
PAGE = b"""\
# HELP e:whole Whole.
e:whole_bucket{le="1"} 7
e:whole_sum{model="a} b",rank="0"} 1.5
e:whole_sum{model="a",rank="1"} 2e-1
e:whole_count{model="a} b",rank="0"} 3
e:whole_count{model="a",rank="1"} 1
e:first_sum 0.25
e:first_count 4
e:first_summary_sum 9
e:queue_sum NaN
e:queue_count 4
"""


def test_the_sums_of_all_series_are_added_and_what_is_no_number_is_left_out() -> None:
    assert sums_on(PAGE, NAMES) == {PageTime.WHOLE: (pytest.approx(1.7), 4.0), PageTime.FIRST_TOKEN: (0.25, 4.0)}
    assert sums_on(b"<html>", NAMES) == {}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param((2.0, 5.0), Growth(1, {PageTime.WHOLE: 0.5}), id="the probe alone"),
        pytest.param((1.5, 4.0), Growth(0, {}), id="not counted yet"),
        pytest.param((3.0, 7.0), Growth(3, {}), id="others too"),
        pytest.param((0.1, 1.0), Growth(0, {}), id="a restart"),
    ],
)
def test_only_one_request_has_times(after: tuple[float, float], expected: Growth) -> None:
    assert growth({PageTime.WHOLE: (1.5, 4.0)}, {PageTime.WHOLE: after, PageTime.FIRST_TOKEN: (1.0, 1.0)}) == expected


def test_a_request_that_has_only_begun_meanwhile_is_another_one_too() -> None:
    """It was scheduled and is not over: the mean of the queue is not the probe's, nor is it where each rank counts."""
    before = dict.fromkeys((PageTime.WHOLE, PageTime.FIRST_TOKEN, PageTime.QUEUE), (0.0, 0.0))
    after = {PageTime.WHOLE: (1.0, 1.0), PageTime.FIRST_TOKEN: (0.5, 1.0), PageTime.QUEUE: (0.4, 2.0)}

    assert growth(before, after) == Growth(2, {})
    assert growth(before, {**after, PageTime.QUEUE: (0.2, 1.0)}).times == {
        PageTime.WHOLE: 1.0,
        PageTime.FIRST_TOKEN: 0.5,
        PageTime.QUEUE: 0.2,
    }


def test_a_queue_that_is_counted_before_the_end_is_no_answer_yet() -> None:
    """The page is read again until the end is counted."""
    before = dict.fromkeys((PageTime.WHOLE, PageTime.QUEUE), (0.0, 0.0))

    assert growth(before, {PageTime.WHOLE: (0.0, 0.0), PageTime.QUEUE: (0.4, 1.0)}) == Growth(0, {})


def test_engines_that_have_such_histograms_name_a_whole_request_or_a_first_token() -> None:
    """Else it could not be told whether the growth is the probe's."""
    named = {name: kind.state.times for name, kind in KINDS.items() if kind.state is not None and kind.state.times}

    assert {"vllm", "sglang", "lmdeploy"} <= named.keys()
    assert [name for name, times in named.items() if not {PageTime.WHOLE, PageTime.FIRST_TOKEN} & times.keys()] == []
