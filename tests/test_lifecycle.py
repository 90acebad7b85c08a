"""Readiness, once reached, is lost only through shutdown, or through several failed checks together with silence."""

import pytest

from sidecar.lifecycle import FAILED_CHECKS, SILENCE_SECONDS, Life, Readiness


def test_not_ready_before_the_engine_has_answered() -> None:
    """A pod must not get traffic while its model is still loading, even if the sidecar itself is ready."""
    readiness = Readiness()
    readiness.failed()

    assert readiness.ready(at=5) == (False, "the engine has not answered yet")
    readiness.answered(at=6)
    assert readiness.ready(at=6) == (True, "ready")


def test_a_slow_health_check_under_overload_does_not_take_the_pod_out() -> None:
    """Checks fail one after the other, but bytes keep coming: the engine is busy and not down."""
    readiness = Readiness()
    readiness.answered(at=0)
    for second in range(100):
        readiness.failed()
        readiness.heard(at=second)

    assert readiness.ready(at=100) == (True, "ready")


def test_an_idle_pod_stays_ready_through_one_failed_check() -> None:
    """Neither silence nor one failed check alone is a failure."""
    readiness = Readiness()
    readiness.answered(at=0)
    readiness.failed()

    assert readiness.ready(at=1000) == (True, "ready")


def test_several_failed_checks_and_silence_together_are_an_engine_that_is_down() -> None:
    """The pod is not ready any more, and one good answer makes it ready again."""
    readiness = Readiness()
    readiness.answered(at=0)
    for _ in range(FAILED_CHECKS):
        readiness.failed()

    assert readiness.ready(at=SILENCE_SECONDS)[0]
    assert not readiness.ready(at=SILENCE_SECONDS + 1)[0]
    readiness.answered(at=40)
    assert readiness.ready(at=40)[0]


@pytest.mark.parametrize("life", [Life.LAME_DUCK, Life.DRAINING])
def test_shutting_down_is_not_ready_at_once(life: Life) -> None:
    """The pod is not ready during shutdown, even if the engine answers."""
    readiness = Readiness()
    readiness.answered(at=0)
    readiness.life = life

    assert (False, f"shutting down ({life.value})") == readiness.ready(at=0)


def test_a_stalled_engine_takes_its_pod_out_with_the_reason() -> None:
    readiness = Readiness()
    readiness.answered(at=0)
    readiness.stalled = "the engine has stopped"

    assert readiness.ready(at=1) == (False, "the engine has stopped")
    readiness.stalled = None
    assert readiness.ready(at=2) == (True, "ready")


def test_where_no_traffic_passes_no_engine_that_is_down_takes_the_pod_out() -> None:
    """Traffic goes by another way, on which the engine's own probe decides. Only the end of this process is told."""
    readiness = Readiness(carries_traffic=False)
    for _ in range(FAILED_CHECKS):
        readiness.failed()
    before = readiness.ready(at=1000.0)
    readiness.life = Life.LAME_DUCK

    assert before == (True, "ready: no traffic passes here, spans are taken")
    assert readiness.ready(at=1000.0) == (False, "shutting down (lame_duck)")
