"""The slowdown of service with load is estimated from a load test, or refused for lack of data."""

import pytest

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.service import fit_points


def test_points_on_a_line_give_back_the_line() -> None:
    service = fit_points([(1, 3.1), (8, 3.8), (64, 9.4)])

    assert (service.alone_seconds, service.each_seconds) == pytest.approx((3.0, 0.1))
    assert [service.known, service.error] == pytest.approx([64, 0.0], abs=1e-9)
    assert service.leaving(64) == pytest.approx(64 / 9.4)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([(8, 3.0)], "one point does not show"),
        ([(8, 3.0), (8, 3.5)], "one point does not show"),
        ([(1, 5.0), (64, 4.0)], "less time among more"),
        ([(10, 1.0), (20, 3.0)], "alone would take no time"),
        ([(1, 1.0), (8, 4.0), (16, 2.0)], "off a straight line"),
    ],
)
def test_points_that_do_not_carry_a_line_are_refused(points: list[tuple[int, float]], words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        fit_points(points)
