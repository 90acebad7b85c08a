"""The share of the engine's running requests that pass the sidecar, by numbers that may be old."""

import pytest

from sidecar.pod.costs.seen_share import SeenShare


def after(seconds: int, in_flight: int, running: float | None, share: SeenShare | None = None) -> SeenShare:
    share = share or SeenShare()
    for _ in range(seconds):
        share.tick(in_flight, running)
    return share


def test_clients_that_bypass_the_sidecar_show_within_a_minute() -> None:
    assert after(60, 8, 8.0).value == 1.0
    assert after(60, 8, 16.0).value == pytest.approx(0.5)
    assert after(60, 2, 16.0, after(60, 8, 8.0)).value < 0.25


def test_a_queue_in_the_engine_is_no_bypass() -> None:
    """It runs fewer than it was sent."""
    assert after(60, 20, 8.0).value == 1.0


def test_a_number_that_an_idle_engine_left_behind_says_nothing() -> None:
    """SGLang states the last one for half a minute after its last request."""
    share = SeenShare()
    for _ in range(10):
        after(20, 8, 8.0, share)
        after(40, 0, 8.0, share)

    assert share.value == 1.0


def test_a_request_that_runs_as_several_says_nothing() -> None:
    """Four choices are four sequences of the engine, and one request."""
    share = SeenShare()
    share.several += 1
    after(60, 1, 4.0, share)
    assert share.value == 1.0

    share.several -= 1
    assert after(60, 1, 4.0, share).value == pytest.approx(0.25)


def test_an_engine_that_states_no_number_is_no_longer_judged_by_its_last_ones() -> None:
    assert after(1, 8, None, after(60, 8, 16.0)).value == 1.0
