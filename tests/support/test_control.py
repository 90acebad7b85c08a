"""The control says that it was late where a machine stood still or was full, and nothing of single hiccups."""

import time

import pytest

from tests.support.control import MEAN_LATE_SECONDS, SLEEP_SECONDS, STANDSTILL_SECONDS, Beat, Control, why_late


def beats(*late: float, began_at: float = 100.0) -> list[Beat]:
    """One beat after the other, each so many seconds late."""
    found, now = [], began_at
    for seconds in late:
        now += SLEEP_SECONDS + seconds
        found.append(Beat(now, seconds))
    return found


@pytest.mark.parametrize(
    ("late", "found"),
    [
        pytest.param([MEAN_LATE_SECONDS] * 100, "", id="each a little late: in time"),
        pytest.param([0.0] * 96 + [0.1] * 4, "", id="hiccups"),
        pytest.param([0.0] * 90 + [0.1] * 10, "10 ms late in the mean of 100 times, and 100 ms at most", id="full"),
        pytest.param(
            [0.0] * 99 + [STANDSTILL_SECONDS],
            "2 ms late in the mean of 100 times, and 250 ms at most",
            id="a standstill",
        ),
    ],
)
def test_a_control_is_late_in_the_mean_or_by_one_standstill(late: list[float], found: str) -> None:
    told = beats(*late)

    assert why_late(told, 100.0, told[-1].ended_at).partition("was ")[2] == found


def test_only_the_beats_of_the_seconds_in_question_count() -> None:
    """A beat that had begun before counts, because it was late within them."""
    told = beats(*[0.0] * 10, 1.0, *[0.0] * 10)
    standstill = told[10]

    assert why_late(told, 100.0, standstill.ended_at - 1.05) == ""
    assert why_late(told, standstill.ended_at + 0.001, told[-1].ended_at) == ""
    assert why_late(told, standstill.ended_at - 0.5, standstill.ended_at - 0.4) != ""


def test_a_beat_that_is_still_missing_is_late_already() -> None:
    told = beats(0.0, 0.0)

    assert why_late(told, 100.0, told[-1].ended_at + SLEEP_SECONDS) == ""
    assert "895 ms at most" in why_late(told, 100.0, told[-1].ended_at + 1.0)
    assert "395 ms at most" in why_late(told, told[-1].ended_at + 0.5, told[-1].ended_at + 1.0)


def test_a_process_beats_by_the_clock_of_this_one() -> None:
    """A beat of the process ended between two readings of this clock."""
    began_at = time.monotonic()
    with Control() as control:
        found = control.beats()

    assert began_at < found[0].ended_at < time.monotonic()


def test_a_control_that_is_gone_is_no_late_one() -> None:
    with Control() as control:
        control._process.kill()
        control._process.wait()

        with pytest.raises(RuntimeError, match="the control has ended with -9"):
            control.why_late(0.0, time.monotonic())
