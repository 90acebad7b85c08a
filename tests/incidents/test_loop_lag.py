"""The timer of the event loop fires late where the sidecar stands still, and nowhere else."""

import pytest

from bench.incidents.loop_lag import LoopLag
from bench.incidents.world import Throttle
from sidecar.health.health import LAG_SECONDS


@pytest.mark.parametrize(("run_seconds", "least"), [(0.02, 0.04), (0.005, 0.045)])
def test_a_process_with_a_quota_lags_by_its_pauses(run_seconds: float, least: float) -> None:
    seen: list[float] = []
    lag = LoopLag(seen.append, Throttle(run_seconds), (100.0, 200.0), 0.0)

    lag.advance(100.0)
    healthy = len(seen)
    lag.advance(200.0)

    assert max(seen[:healthy]) < 0.01
    assert healthy == pytest.approx(100.0 / LAG_SECONDS, rel=0.01)
    during = sorted(seen[healthy:])
    assert during[len(during) // 2] > least
    assert during[-1] < 0.1


def test_after_the_quota_the_timer_is_on_time_again() -> None:
    seen: list[float] = []
    lag = LoopLag(seen.append, Throttle(0.02), (100.0, 200.0), 0.0)
    lag.advance(201.0)
    seen.clear()

    lag.advance(300.0)

    assert max(seen) < 0.01
