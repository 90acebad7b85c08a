"""The slowdown of service with load is estimated from a load test or a watched replica, or refused for lack of data."""

from random import Random

import pytest

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.service import Exposure, fit_observed, fit_points


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


def chain_life(seconds: int, seed: int, *, slots: int) -> list[Exposure]:
    """A simulated birth-death chain, seen twice a second: S(n) = 0.5 + 0.3 n, two arrivals per second."""
    rng, inside, at = Random(seed), 0, 0.0
    exposures, left, began, tick = [], 0, 0, 0.5
    while tick <= seconds:
        running = min(inside, slots)
        leaving = running / (0.5 + 0.3 * running) if running else 0.0
        step = rng.expovariate(2.0 + leaving)
        while at + step > tick and tick <= seconds:
            exposures.append(Exposure(began, 0.5, left))
            step, at, left, began, tick = step - (tick - at), tick, 0, inside, tick + 0.5
        at += step
        if rng.random() < 2.0 / (2.0 + leaving):
            inside += 1
        else:
            inside, left = inside - 1, left + 1
    return exposures


def test_a_watched_chain_gives_back_its_rates_within_the_stated_error() -> None:
    """In each of twenty runs of ten minutes, the rate with twelve inside is within three standard errors."""
    truth = 12 / (0.5 + 0.3 * 12)
    found = [fit_observed(chain_life(600, seed, slots=12), 12) for seed in range(20)]

    assert [service for service in found if abs(service.leaving(12) / truth - 1) > 3 * max(service.error, 0.02)] == []
    assert max(service.error for service in found) < 0.1


def test_few_departures_are_refused() -> None:
    with pytest.raises(RefusedError, match=r"only \d+ requests ended while it was watched"):
        fit_observed(chain_life(30, 1, slots=12), 12)


def test_an_idle_replica_has_no_rate() -> None:
    with pytest.raises(RefusedError, match="only 0 requests ended"):
        fit_observed([Exposure(0.0, 1.0, 0)] * 60, 12)
