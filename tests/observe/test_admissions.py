"""The wait for a place at a decode worker: told where the worker was full and others were moved as usual, and nowhere else."""

import pytest

from sidecar.ledger.account import Estimate
from sidecar.ledger.phase_parts import Part, StatedPart
from sidecar.ledger.report import EngineReport
from sidecar.observe.admissions import FEWEST_USUAL, RECENT_MOVES, Admissions, may_hold_a_wait


USUAL_MOVE = 0.2


def moved(seconds: float | None) -> EngineReport:
    """Dynamo's word on a request whose queue and prefill took 0.1 s."""
    return EngineReport(merged=True, merged_seconds=0.1, kv_transfer_seconds=seconds)


def estimate(*, met_full: bool = True, basis: str = "step", behind: float = USUAL_MOVE) -> Estimate:
    return Estimate(0.1, 0.05, 0.2, basis, behind, met_full)


def known() -> Admissions:
    """Some moves as usual were seen."""
    admissions = Admissions()
    for _ in range(FEWEST_USUAL):
        assert admissions.seconds(moved(USUAL_MOVE), estimate(met_full=False), USUAL_MOVE) == 0.0
    return admissions


def test_the_wait_is_what_a_move_took_beyond_the_usual_one() -> None:
    assert known().seconds(moved(0.5), estimate(), 0.5) == pytest.approx(0.3)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(estimate(met_full=False), id="there was a place"),
        pytest.param(estimate(basis="told"), id="it did not queue"),
        pytest.param(estimate(behind=0.0), id="no usual move is known"),
    ],
)
def test_a_slow_move_is_no_wait(found: Estimate) -> None:
    assert known().seconds(moved(0.5), found, 0.5) == 0.0


@pytest.mark.parametrize("move", [USUAL_MOVE, None, 0.1])
def test_a_late_front_end_or_hop_is_no_wait(move: float | None) -> None:
    """The first token came 0.7 s after the prefill, and the move is not stated as longer than usual."""
    assert known().seconds(moved(move), estimate(), 0.7) == 0.0


def test_where_no_move_is_as_usual_any_more_nothing_tells_a_wait_from_a_slow_link() -> None:
    """And once moves are as usual again, waits are told again."""
    admissions = known()
    told = [admissions.seconds(moved(1.0), estimate(), 1.0) for _ in range(RECENT_MOVES)]
    assert told[0] == pytest.approx(0.8)
    assert told[-1] == 0.0

    for _ in range(FEWEST_USUAL):
        admissions.seconds(moved(USUAL_MOVE), estimate(), USUAL_MOVE)

    assert admissions.seconds(moved(0.5), estimate(), 0.5) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("found", "moved", "may"),
    [
        (estimate(), True, True),
        (estimate(), False, False),
        (estimate(met_full=False), True, False),
        (estimate(behind=0.0), True, False),
        (None, True, False),
    ],
)
def test_who_may_have_waited_for_a_decode_worker_tells_no_usual_move(
    found: Estimate | None, moved: bool, may: bool
) -> None:
    """An engine of one worker has no such wait: what its front end takes under load is learned."""
    assert may_hold_a_wait(found, moved=moved) is may


def test_the_wait_is_a_part_of_the_queue_and_leaves_the_stated_move_as_it_is() -> None:
    report = EngineReport(
        merged=True, kv_transfer_seconds=0.5, parts=(StatedPart(Part.ROUTER, 0.01), StatedPart(Part.KV_TRANSFER, 0.5))
    )

    found = report.admitted_after(0.3)

    assert {part.part: part.seconds for part in found.parts} == {
        Part.ROUTER: 0.01,
        Part.KV_TRANSFER: pytest.approx(0.2),
        Part.DECODE_ADMISSION: 0.3,
    }
    assert found.kv_transfer_seconds == 0.5
    assert report.admitted_after(0.0) is report
