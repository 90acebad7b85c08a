"""Half an hour of means per phase, from sums alone: a gap where no request ended, and never a zero for it."""

import pytest

from sidecar.history.phase_points import POINT_SECONDS, LaneCurve, curves, phase_point
from sidecar.history.ring import PERIOD_SECONDS, History
from sidecar.history.series import LONG_SECONDS
from sidecar.history.slices import run_now
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics


class Life:
    """One process in which requests end as a scenario demands."""

    def __init__(self) -> None:
        self.metrics = Metrics(lanes=["chat", "batch"], prompt_buckets=["0-512", "512-4k"], models=["llama"])
        self.at = 1000.0
        self.history = History(self.metrics, at=self.at)

    def ends(self, queue_seconds: float, lane: str = "chat", bucket: str = "0-512", streaming: str = "true") -> None:
        who = ("llama", lane, bucket, streaming)
        self.metrics.histogram(c.REQUEST_SECONDS).child(*who).observe(queue_seconds + 1.0)
        self.metrics.histogram(c.REQUEST_PHASE_SECONDS).child(*who, "queue", "engine").observe(queue_seconds)
        self.metrics.histogram(c.REQUEST_PHASE_SECONDS).child(*who, "decode", "wire").observe(1.0)

    def passes(self, seconds: float) -> None:
        for _ in range(round(seconds / PERIOD_SECONDS)):
            self.at += PERIOD_SECONDS
            run_now(self.history.tick(self.at))

    def curves(self) -> list[LaneCurve]:
        return run_now(curves(run_now(self.history.points(run_now(self.history.now(self.at))))))


def test_a_point_is_the_mean_of_all_its_requests_whatever_their_length() -> None:
    """Prompt lengths and sources are added up; a request that is not streamed is in no curve."""
    life = Life()
    for queue_seconds, bucket in ((0.1, "0-512"), (0.3, "512-4k")):
        life.ends(queue_seconds, bucket=bucket)
    life.ends(9.0, streaming="false")
    life.passes(POINT_SECONDS)
    life.ends(4.0)
    life.passes(POINT_SECONDS)

    (curve,) = life.curves()

    assert (curve.model, curve.lane, curve.requests) == ("llama", "chat", 3)
    assert curve.edges == (1000.0, 1030.0, 1060.0)
    assert curve.means == {"queue": (pytest.approx(0.2), pytest.approx(4.0)), "decode": (1.0, 1.0)}


def test_where_no_request_ended_there_is_a_gap() -> None:
    life = Life()
    life.ends(0.5)
    life.passes(POINT_SECONDS)
    life.passes(POINT_SECONDS)
    life.ends(0.5)
    life.passes(POINT_SECONDS)

    (curve,) = life.curves()

    assert curve.means["queue"] == (0.5, None, 0.5)


def test_a_phase_without_a_sample_is_no_zero() -> None:
    """Requests without a report have no queue and no prefill: the curve has a gap there, although requests ended."""
    life = Life()
    life.ends(0.5)
    life.passes(POINT_SECONDS)
    who = ("llama", "chat", "0-512", "true")
    life.metrics.histogram(c.REQUEST_SECONDS).child(*who).observe(1.5)
    life.metrics.histogram(c.REQUEST_PHASE_SECONDS).child(*who, "unattributed", "wire").observe(0.5)
    life.passes(POINT_SECONDS)

    (curve,) = life.curves()

    assert curve.means["queue"] == (0.5, None)
    assert curve.means["unattributed"] == (None, 0.5)


def test_the_busiest_lane_comes_first_and_an_idle_one_not_at_all() -> None:
    """Requests that ended before the first point are in no curve."""
    life = Life()
    life.ends(0.1, "chat")
    life.ends(0.1, "chat")
    life.ends(0.1, "batch")
    life.passes(POINT_SECONDS)
    busy = [curve.lane for curve in life.curves()]
    life.passes(LONG_SECONDS)
    life.ends(0.1, "batch")
    life.passes(POINT_SECONDS)

    assert (busy, [curve.lane for curve in life.curves()]) == (["chat", "batch"], ["batch"])


def test_two_hours_of_points_are_those_of_the_last_half_hour() -> None:
    """The latest point is that of the page, so that a curve ends now."""
    life = Life()
    for _ in range(240):
        life.ends(0.2)
        life.passes(POINT_SECONDS)
    life.at += 2.0
    (curve,) = life.curves()

    assert curve.edges[-1] == life.at
    assert POINT_SECONDS <= curve.edges[-1] - curve.edges[-2] < 2 * POINT_SECONDS
    assert LONG_SECONDS - POINT_SECONDS <= curve.edges[-1] - curve.edges[0] <= LONG_SECONDS
    assert len(life.history._points) <= LONG_SECONDS / POINT_SECONDS + 2


def test_points_share_what_has_not_changed() -> None:
    life = Life()
    life.ends(0.2)
    before = run_now(phase_point(run_now(life.history.now(life.at))))

    after = run_now(phase_point(run_now(life.history.now(life.at)), before))

    assert after.seconds is before.seconds
    assert after.requests is before.requests
    assert after.samples is before.samples


def test_many_children_are_added_in_slices() -> None:
    """A registry of ten thousand series must not hold the loop."""
    lanes = [f"lane{number}" for number in range(90)]
    metrics = Metrics(lanes=lanes, prompt_buckets=["0-512", "512-4k"], models=["llama"])
    for lane in lanes:
        for bucket in ("0-512", "512-4k"):
            metrics.histogram(c.REQUEST_SECONDS).child("llama", lane, bucket, "true").observe(1.0)
    history = History(metrics, at=0.0)

    slices = 1 + sum(1 for _ in phase_point(run_now(history.now(5.0))))

    assert slices >= 2
