"""A lane's usual cached share says how much of its next prompt has to be computed."""

import pytest

from sidecar.pod.costs.cached_share import CachedShares


def test_a_lane_that_nothing_is_known_of_has_everything_to_compute() -> None:
    assert CachedShares().uncached("chat", 1000.0) == 1000.0


def test_the_mean_share_of_a_lane_is_left_out_of_its_next_prompt_and_of_no_other_lanes() -> None:
    shares = CachedShares()
    for cached in (600, 800):
        shares.learn("chat", 1000, cached, 0.0)

    assert shares.uncached("chat", 2000.0) == pytest.approx(600.0)
    assert shares.uncached("batch", 2000.0) == 2000.0


def test_a_lost_cache_does_not_become_usual_within_a_minute_of_heavy_traffic() -> None:
    shares = CachedShares()
    for second in range(500):
        shares.learn("chat", 1000, 900, float(second))
    for number in range(6000):
        shares.learn("chat", 1000, 0, 500.0 + number / 100)

    assert shares.uncached("chat", 1000.0) < 250


def test_a_prompt_that_is_cached_whole_still_costs_a_token() -> None:
    shares = CachedShares()
    shares.learn("chat", 1000, 2000, 0.0)

    assert shares.uncached("chat", 1000.0) == 1.0
