"""The root of a stream that stood still: the engine's silence, unless the stream, its pod or pending prompts show another reason."""

from dataclasses import replace

import pytest

from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import Cause, root_of
from sidecar.pod.life import Facts, Failed
from sidecar.pod.signs import Signs
from sidecar.pod.weigh import weigh
from tests.pod.weighing import leader, sharp


STOOD = Facts(tpot=True, stalled=True)
"""No stream of the pod had output meanwhile."""
ALONE = STOOD._replace(alone=True)
CALM = Signs(grown={Cause.DECODE_COST: sharp(1.0), Cause.PREFILL_COST: sharp(1.0), Cause.LOAD: sharp(1.0)})


@pytest.mark.parametrize("facts", [STOOD, ALONE])
@pytest.mark.parametrize("signs", [CALM, Signs(young=True), replace(CALM, limited=True, engine_waiting=9.0)])
def test_a_stream_that_stands_still_is_the_engines_silence(facts: Facts, signs: Signs) -> None:
    """On a young pod too, and while requests wait for a slot: neither holds up a stream that has begun."""
    assert leader(facts, signs) == root_of(Cause.SILENCE)
    assert weigh(facts, signs).weights[root_of(Cause.SILENCE)] > 0.85


def test_a_step_that_is_a_little_dearer_stops_no_stream_for_seconds() -> None:
    assert leader(ALONE, Signs(grown={Cause.DECODE_COST: sharp(2.0)})) == root_of(Cause.SILENCE)


def test_a_slow_pace_is_judged_as_a_pace() -> None:
    """Its longest gap is like its others: what has grown on the pod explains it."""
    slow = STOOD._replace(stalled=False)

    assert leader(slow, Signs(grown={Cause.DECODE_COST: sharp(14.0)})) == root_of(Cause.DECODE_COST)


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        (ALONE._replace(waited_in=Blame.STREAM, paused=True), Cause.CLIENT),
        (ALONE._replace(waited_in=Blame.STREAM), Cause.HOP),
        (ALONE._replace(transferred=True), Cause.KV_TRANSFER),
        (STOOD._replace(fault=Cause.RESTART), Cause.RESTART),
        (STOOD._replace(fault=Cause.DOWN), Cause.DOWN),
        (STOOD._replace(failed=Failed.ERROR), Cause.ERRORS),
        (STOOD._replace(late_ratio=0.5), Cause.SIDECAR_LATE),
    ],
)
def test_what_the_stream_or_a_fault_shows_comes_first(facts: Facts, cause: Cause) -> None:
    assert leader(facts, CALM) == root_of(cause)


def test_a_stream_that_was_preempted_stands_still_while_others_go_on() -> None:
    """If all stand still, that one lost its blocks explains nothing."""
    preempted = replace(CALM, preempted=True)

    assert leader(ALONE, preempted) == root_of(Cause.PREEMPTION)
    assert leader(STOOD, preempted) == root_of(Cause.SILENCE)


@pytest.mark.parametrize("facts", [STOOD._replace(explained=True), STOOD._replace(behind_long_prompt=True)])
def test_streams_that_stand_still_for_a_prompt_are_no_silence(facts: Facts) -> None:
    """An engine that computes a prompt in one step gives no stream a token meanwhile. It explains no stream that stood still alone."""
    dear = replace(CALM, grown={Cause.PREFILL_COST: sharp(6.0)})

    assert root_of(Cause.SILENCE) not in weigh(facts, dear).weights
    assert leader(facts, dear).phase == Blame.PREFILL
    assert leader(facts._replace(alone=True), dear) == root_of(Cause.SILENCE)
