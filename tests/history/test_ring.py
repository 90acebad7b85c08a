"""The last half hour of one process: many whole snapshots for the shown window, few and small ones before it."""

import pytest

from sidecar.history.ring import MINUTE_SECONDS, PERIOD_SECONDS, History
from sidecar.history.series import LONG_SECONDS, NOW_SECONDS, PEAK_GAUGES, SHOWN_SECONDS
from sidecar.history.slices import run_now
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics


class Life:
    """One process in which a request ends every period."""

    def __init__(self) -> None:
        self.metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"], models=["llama"])
        self.at = 1000.0
        self.history = History(self.metrics, at=self.at)

    def lives(self, seconds: float) -> None:
        for _ in range(round(seconds / PERIOD_SECONDS)):
            self.at += PERIOD_SECONDS
            self.metrics.counter(c.REQUESTS_RECEIVED_TOTAL).child("llama", "chat").inc(10)
            self.metrics.counter(c.SLO_MISSES_TOTAL).child("llama", "chat", "0-512", "ttft").inc(10)
            self.metrics.histogram(c.INTER_TOKEN_SECONDS).child("llama", "chat").observe(0.02)
            run_now(self.history.tick(self.at))

    def grown(self) -> list[float | None]:
        """Growth over the three windows, each of a counter that is read in it."""
        windows = run_now(self.history.windows(run_now(self.history.now(self.at))))
        received = [
            windows.growth[seconds].counted(c.REQUESTS_RECEIVED_TOTAL, "llama", "chat")
            for seconds in (NOW_SECONDS, SHOWN_SECONDS)
        ]
        return [*received, windows.growth[LONG_SECONDS].counted(c.SLO_MISSES_TOTAL, "llama", "chat", "ttft")]


def test_each_window_grows_until_it_is_full() -> None:
    life = Life()
    life.lives(60)
    young = life.grown()
    life.lives(540)
    shown = life.grown()
    life.lives(3000)

    assert (young, shown) == ([120, 120, 120], [240, 600, 1200])
    assert life.grown() == [240, 600, pytest.approx(3600, abs=120)]


def test_two_hours_of_snapshots_stay_small() -> None:
    """61 whole snapshots five seconds apart, and before them one per minute with counters and the gauges that have a peak."""
    life = Life()
    life.lives(7200)

    whole, old = life.history._whole, life.history._old

    assert len(whole) == SHOWN_SECONDS / PERIOD_SECONDS + 1
    assert len(old) <= (LONG_SECONDS - SHOWN_SECONDS) / MINUTE_SECONDS + 1
    assert whole[-1].at - old[0].at >= LONG_SECONDS
    assert {(len(one.histograms), len(one.gauges)) for one in old} == {(0, len(PEAK_GAUGES))}
    assert all(one.histograms["llm_inter_token_seconds"] for one in whole)


def test_a_reader_that_takes_long_reads_the_window_that_it_began_with() -> None:
    """Ticks during the drawing of a page neither end its window nor remove the window's beginning."""
    life = Life()
    life.lives(600)
    now = run_now(life.history.now(life.at))
    life.lives(60)

    then = life.history.before(now, SHOWN_SECONDS)

    assert now.at - SHOWN_SECONDS <= then.at <= now.at
    assert run_now(life.history.windows(now)).growth[SHOWN_SECONDS].observed(c.INTER_TOKEN_SECONDS, "llama", "chat")


def test_a_window_in_which_nothing_was_remembered_begins_with_the_last_snapshot() -> None:
    """After a process was stopped for an hour, the window states its true length."""
    life = Life()
    life.lives(60)
    life.at += 3600.0

    windows = run_now(life.history.windows(run_now(life.history.now(life.at))))

    assert windows.growth[NOW_SECONDS].seconds == 3600.0


def test_a_gauge_stands_as_it_is_or_as_the_mean_of_a_minute() -> None:
    life = Life()
    waiting, up = life.metrics.gauge(c.ENGINE_REQUESTS_WAITING).child(), life.metrics.gauge(c.ENGINE_UP).child()
    waiting.set(0)
    up.set(1)
    life.lives(120)
    waiting.set(13)
    up.set(0)

    windows = run_now(life.history.windows(run_now(life.history.now(life.at + 1.0))))

    assert (windows.gauge(c.ENGINE_REQUESTS_WAITING), windows.gauge(c.ENGINE_UP)) == (1.0, 0)
    assert windows.gauge(c.ENGINE_KV_CACHE_USAGE_RATIO) is None


def test_the_highest_value_of_the_last_half_hour_is_known() -> None:
    """Nine requests ran at once a quarter of an hour ago; three run now."""
    life = Life()
    running = life.metrics.gauge(c.ENGINE_REQUESTS_RUNNING).child()
    unknown = run_now(life.history.windows(run_now(life.history.now(life.at)))).peaks
    peaks = []
    for value, seconds in ((9, 600), (3, 900), (3, 1500)):
        running.set(value)
        life.lives(seconds)
        peaks.append(run_now(life.history.windows(run_now(life.history.now(life.at)))).peaks)

    assert unknown == {}
    assert [one[c.ENGINE_REQUESTS_RUNNING.name] for one in peaks] == [9, 9, 3]


def test_a_restart_within_the_half_hour_is_known_to_a_minute() -> None:
    life = Life()
    restarts = life.metrics.counter(c.ENGINE_RESTARTS_TOTAL).child()
    life.lives(600)
    never = life.history.grew_at(run_now(life.history.now(life.at)), c.ENGINE_RESTARTS_TOTAL)
    restarts.inc()
    restarted_at = life.at
    seen = []
    for seconds in (0, 60, 900, 1800):
        life.lives(seconds)
        grew_at = life.history.grew_at(run_now(life.history.now(life.at)), c.ENGINE_RESTARTS_TOTAL)
        seen.append(None if grew_at is None else grew_at - restarted_at)

    assert never is None
    assert seen == [0, pytest.approx(0, abs=PERIOD_SECONDS), pytest.approx(0, abs=MINUTE_SECONDS), None]
