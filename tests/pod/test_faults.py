"""Faults of the engine: down, restart and silence, each with its beginning and its end."""

from math import inf

from sidecar.pod.causes import Cause
from sidecar.pod.faults import COLD_SECONDS, KEPT_FAULTS, STILL_COLD_SECONDS, Faults
from sidecar.pod.reading import READING_SECONDS, Reading
from sidecar.pod.signs import Fault


class Engine:
    """Readings every `READING_SECONDS`, from instant 0."""

    def __init__(self) -> None:
        self.faults = Faults()
        self._last = Reading(0.0, engine_up=True)

    def reads(
        self,
        count: int = 1,
        *,
        up: bool | None = True,
        restarts: float = 0.0,
        silent: float = 0.0,
        stalled: float = 0.0,
        dearer: bool = False,
    ) -> "Engine":
        """`restarts`: so many more; `stalled`: so many more seconds."""
        for _ in range(count):
            now = Reading(
                self._last.at + READING_SECONDS,
                engine_up=up,
                restarts=self._last.restarts + restarts,
                silent_seconds=silent,
                stalled_seconds=self._last.stalled_seconds + stalled,
            )
            self.faults.note(self._last, now, dearer=dearer)
            self._last = now
        return self

    @property
    def all(self) -> list[Fault]:
        return list(self.faults.since(-inf))


def test_a_healthy_engine_has_no_fault() -> None:
    assert Engine().reads(100).all == []


def test_an_engine_is_down_since_it_was_last_seen_up_and_up_again_it_is_cold_for_a_minute() -> None:
    engine = Engine().reads(2).reads(3, up=False)
    assert engine.all == [Fault(Cause.DOWN, 10.0, inf)]

    engine.reads()
    assert engine.all == [Fault(Cause.DOWN, 10.0, 30.0), Fault(Cause.RESTART, 25.0, 30.0 + COLD_SECONDS)]


def test_an_engine_that_is_down_and_silent_is_down_once_and_not_for_ever() -> None:
    """Streams hang while the port is closed: a silence is noted between two readings that find the engine down."""
    engine = Engine().reads(1, up=False).reads(1, up=False, silent=9.0, stalled=1.0).reads(3, up=False)
    assert [fault.cause for fault in engine.all] == [Cause.DOWN, Cause.SILENCE]

    engine.reads()
    assert [fault for fault in engine.all if fault.ended_at == inf] == []


def test_a_restart_that_only_the_engines_counters_show_is_one_too() -> None:
    assert Engine().reads(2).reads(1, restarts=1.0).reads(10).all == [Fault(Cause.RESTART, 10.0, 15.0 + COLD_SECONDS)]


def test_a_restart_lasts_while_work_is_dearer_without_a_break() -> None:
    engine = Engine().reads(1, restarts=1.0).reads(20, dearer=True)
    assert engine.all[0].ended_at == 105.0 + STILL_COLD_SECONDS

    engine.reads(4).reads(10, dearer=True)
    assert engine.all[0].ended_at == 105.0 + STILL_COLD_SECONDS


def test_an_unknown_state_is_neither_down_nor_up() -> None:
    assert Engine().reads(5, up=None).all == []
    assert Engine().reads(1, up=False).reads(5, up=None).all == [Fault(Cause.DOWN, 0.0, inf)]


def test_a_silence_begins_when_output_stopped_and_ends_with_output() -> None:
    """It counts as a stall from its eighth second on; the fault is as old as the silence."""
    engine = Engine().reads(2, silent=1.0).reads(1, silent=9.0, stalled=1.0).reads(3, silent=20.0, stalled=5.0)
    assert engine.all == [Fault(Cause.SILENCE, 6.0, inf)]

    engine.reads(1, silent=0.5)
    assert engine.all == [Fault(Cause.SILENCE, 6.0, 35.0)]


def test_a_second_silence_is_a_fault_of_its_own() -> None:
    engine = Engine().reads(1, silent=9.0, stalled=1.0).reads().reads(1, silent=9.0, stalled=1.0)

    assert [fault.ended_at for fault in engine.all] == [10.0, inf]


def test_faults_that_ended_before_an_instant_are_left_out_and_the_oldest_are_forgotten() -> None:
    engine = Engine()
    for _ in range(2 * KEPT_FAULTS):
        engine.reads(1, restarts=1.0)
    kept = engine.all

    assert len(kept) == KEPT_FAULTS
    assert engine.faults.since(kept[-1].ended_at) == ()
    assert engine.faults.since(kept[-2].ended_at) == (kept[-1],)
