"""The lateness of the loop is asked for any time of the last ten minutes, and stands for the looks around it."""

import pytest

from sidecar.pod.lateness import KEPT_LOOKS, LATE_AT, LATE_FROM, Lags, Late, Lateness, explained_by


def late(*each_second: float, timers: int = 1) -> Lateness:
    """A look each second from 0 on; so many seconds of lateness of so many timers come to light at each."""
    found, total = Lateness(), 0.0
    for at, seconds in enumerate(each_second):
        total += seconds
        found.add(float(at), Lags(total, timers * (at + 1)))
    return found


def test_the_ratio_is_that_of_the_asked_time_alone() -> None:
    found = late(0.0, 0.0, 0.5, 0.5, 0.0, 0.0)

    assert found.late(1.0, 3.0).ratio == 0.5
    assert found.late(0.0, 5.0).ratio == 0.2
    assert (found.late(0.0, 1.0).ratio, found.late(3.0, 5.0).ratio) == (0.0, 0.0)


def test_a_time_between_two_looks_has_the_ratio_between_them() -> None:
    assert late(0.0, 0.0, 0.6, 0.0).late(1.4, 1.6).ratio == 0.6


@pytest.mark.parametrize("looks", [(), (3.0,)])
def test_before_two_looks_nothing_is_known_to_be_late(looks: tuple[float, ...]) -> None:
    """The sum may have begun to grow long ago."""
    assert late(*looks).late(-9.0, 9.0).ratio == 0.0


def test_a_time_that_began_before_what_is_kept_or_has_not_ended_has_the_ratio_of_what_is_known() -> None:
    found = late(*[1.0] * 9, *[0.25] * KEPT_LOOKS)

    assert found.late(0.0, float("inf")).ratio == pytest.approx(0.25)


def test_a_look_that_is_not_kept_ends_a_time_that_goes_on_after_the_last_one() -> None:
    found = late(0.0, 0.5, 0.0)

    assert found.late(2.1, 2.4, (3.0, Lags(0.9, 4))).ratio == pytest.approx(0.4)
    assert found.late(0.0, 1.0, (3.0, Lags(9.9, 4))).ratio == 0.5
    assert found.late(2.1, 2.4).ratio == 0.0


@pytest.mark.parametrize(
    ("began_at", "ended_at", "now", "chance"),
    [
        (4.0, 4.9, (5.0, Lags(1.0, 6)), 0.0),
        (2.5, 2.9, (5.0, Lags(1.0, 6)), 1.0),
        (4.0, 4.9, (5.0, Lags(1.5, 6)), 1.0),
        (3.0, 4.9, (5.0, Lags(1.06, 6)), 0.0),
        (1.0, 2.0, (5.0, Lags(1.0, 6)), 0.0),
    ],
    ids=["since it was late", "while it was late", "late since the last look", "a little late", "before it was late"],
)
def test_lateness_explains_what_was_measured_meanwhile_and_no_more(
    began_at: float, ended_at: float, now: tuple[float, Lags], chance: float
) -> None:
    """The loop was late for the whole third second, and in no other."""
    found = late(0.0, 0.0, 0.0, 1.0, 0.0)

    assert found.explains(began_at, ended_at, now) == chance


@pytest.mark.parametrize(("stop_seconds", "share"), [(0.03, 0.0), (0.1, 0.0), (0.5, 0.4), (2.0, 0.4)])
def test_stops_that_are_short_beside_the_measured_time_explain_nothing_however_many(
    stop_seconds: float, share: float
) -> None:
    assert Late(0.4, stop_seconds).within(3.0) == share


def test_many_short_stops_explain_a_short_time_and_no_long_one() -> None:
    """The loop stands still for 50 ms four times a second, as with a CPU quota of less than a core."""
    found = late(*[0.2] * 20, timers=4)

    assert found.late(2.0, 12.0) == pytest.approx((0.2, 0.05))
    assert found.explains(2.0, 2.3, (20.0, Lags(4.0, 80))) == pytest.approx(1.0)
    assert found.explains(2.0, 12.0, (20.0, Lags(4.0, 80))) == 0.0


def test_a_long_stop_is_not_hidden_by_the_looks_around_it() -> None:
    assert late(0.0, 0.0, 0.9, 0.0, 0.0).late(0.0, 4.0).stop_seconds == pytest.approx(0.9)


def test_two_looks_of_one_instant_are_one() -> None:
    found = late(0.0, 0.5)
    found.add(1.0, Lags(0.5, 2))

    assert found.late(1.0, 1.0) == Late()


def test_before_the_first_look_lateness_explains_nothing() -> None:
    assert Lateness().explains(0.0, 1.0, (1.0, Lags(0.9, 1))) == 0.0


def test_little_lateness_explains_no_miss_and_much_explains_them() -> None:
    assert [explained_by(each) for each in (0.0, LATE_FROM, LATE_AT, 1.0)] == [0.0, 0.0, 1.0, 1.0]
    assert 0.0 < explained_by((LATE_FROM + LATE_AT) / 2) < 1.0
