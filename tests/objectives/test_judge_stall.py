"""A stream that stands still for longer than its threshold is a miss, at that moment and once, without the pauses of its client."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.objectives.judge import FEW_DUE, Stood, TokenDeadlines
from sidecar.objectives.objective import Aim, Aims
from sidecar.timeline.outcome import Outcome
from tests.objectives.judging import AIMS, STALL, START, TPOT, TTFT, JudgeHarness


STALLS = Aims(stall=Aim(2.0, 0.99))
BOTH = Aims(AIMS.ttft, AIMS.tpot, AIMS.e2e, stall=STALLS.stall)


def begun(aims: Aims = STALLS) -> JudgeHarness:
    """A stream whose first output came at 0.5 s."""
    harness = JudgeHarness()
    harness.received("a", aims=aims)
    harness.output("a", 0.5)
    return harness


def finished(harness: JudgeHarness, at: float) -> None:
    """The client has the end mark."""
    gaps = harness.cases["a"].gaps
    assert gaps is not None
    gaps.finished(START + at)


def well(harness: JudgeHarness, at: float) -> None:
    """The answer ends well."""
    finished(harness, at)
    harness.ended("a", at, tokens=(0.5, at, 5))


# --- the deadline -----------------------------------------------------------------------------------------------------------


def test_a_stream_that_stands_still_is_a_miss_while_it_does_and_only_once() -> None:
    """It waits for its next output for a minute. What comes later, and another such gap, is decided already."""
    harness = begun()

    harness.tick(2.5)
    assert harness.decided == []
    harness.tick(2.6)
    assert harness.decided == [("a", STALL, True)]
    harness.output("a", 60.0)
    harness.tick(63.0)
    well(harness, 64.0)

    assert harness.decided == [("a", STALL, True)]


@pytest.mark.parametrize(("at", "missed"), [(2.4, False), (2.5, False), (2.5001, True), (60.0, True)])
def test_a_gap_is_in_time_up_to_its_threshold(at: float, missed: bool) -> None:
    """No tick comes before the next output: the output itself keeps the gap."""
    harness = begun()

    harness.output("a", at)
    well(harness, at + 0.1)

    assert harness.decided == [("a", STALL, missed)]


def test_a_gap_that_began_and_ended_between_two_looks_is_found_at_the_next_one() -> None:
    """The entry of the stream falls due in the middle of its life, and finds a gap that is over."""
    harness = begun()
    for at in (1.0, 1.4, 3.5, 3.6):
        harness.output("a", at)

    harness.tick(3.7)

    assert harness.decided == [("a", STALL, True)]


def test_an_output_moves_the_deadline_and_not_the_heap() -> None:
    """A stream that speaks has one entry for as long as it lives, which falls due again and again."""
    harness = begun()
    for tenth in range(6, 3000):
        harness.output("a", tenth / 10.0)
        if tenth % 10 == 0:
            assert harness.tick(tenth / 10.0) is False
            assert len(harness.judge._due) == 1
    assert harness.decided == []

    harness.tick(299.9 + 2.1)

    assert harness.decided == [("a", STALL, True)]


@pytest.mark.parametrize(("ends", "missed"), [(2.4, False), (2.6, True)])
def test_the_time_from_the_last_output_to_the_end_is_a_gap(ends: float, missed: bool) -> None:
    """A client that waits for the end stands still as well. Behind the end mark the engine may hold the message open."""
    harness = begun()

    finished(harness, ends)
    harness.tick(30.0)
    harness.ended("a", 31.0, tokens=(0.5, 0.5, 1))

    assert harness.decided == [("a", STALL, missed)]


@pytest.mark.parametrize("left", [2.4, 2.6])
def test_a_client_that_leaves_in_a_gap_decides_nothing_that_its_threshold_has_not(left: float) -> None:
    harness = begun()

    harness.ended("a", left, Outcome.CLIENT_CANCELLED)

    assert harness.decided == [("a", STALL, True)] * (left > 2.5)


@pytest.mark.parametrize("aims", [STALLS, BOTH])
def test_a_stream_that_the_engine_breaks_off_misses_one_objective(aims: Aims) -> None:
    """That of the pace, as before; a stall only if the lane has no other one that is open."""
    harness = begun(aims)

    harness.ended("a", 1.0, Outcome.ENGINE_TRUNCATED)

    assert harness.decided == ([("a", STALL, True)] if aims is STALLS else [("a", TTFT, False), ("a", TPOT, True)])


def test_a_rejected_request_and_one_without_output_have_no_gap() -> None:
    harness = JudgeHarness()
    for key in ("rejected", "silent", "whole"):
        harness.received(key, aims=STALLS, streaming=key != "whole")

    harness.ended("rejected", 1.0, Outcome.REJECTED)
    harness.ended("silent", 30.0)
    harness.ended("whole", 30.0, streaming=False)

    assert harness.decided == []


def test_a_stream_whose_output_is_not_seen_any_more_stands_still_no_more() -> None:
    """Its observer failed. What had passed by then is a miss."""
    harness = JudgeHarness()
    for key in ("in time", "late"):
        harness.received(key, aims=STALLS)
        harness.output(key, 0.5)

    harness.answering("in time", 1.0, streaming=None)
    harness.answering("late", 3.0, streaming=None)
    harness.tick(60.0)
    harness.ended("in time", 61.0)

    assert harness.decided == [("late", STALL, True)]


def test_an_answer_that_was_held_back_shows_no_gap() -> None:
    """Its hundred tokens came at one instant: in what time they were made is not known."""
    harness = begun()
    finished(harness, 0.6)

    harness.ended("a", 0.6, tokens=(0.5, 0.5, 100))

    assert harness.decided == []


# --- an engine that sends seldom --------------------------------------------------------------------------------------------


def test_a_gap_in_which_the_other_streams_had_as_little_is_no_stall() -> None:
    """Each event holds ten tokens, and steps are long for a while. It is looked at in each tick, and at its end."""
    harness = begun()
    harness.stood["a"] = Stood.WENT_ON

    harness.tick(2.6)
    harness.tick(3.0)
    harness.output("a", 3.5)
    harness.output("a", 6.0)
    well(harness, 8.5)

    assert harness.decided == [("a", STALL, False)]


@pytest.mark.parametrize("ends", ["output", "tick", "leaves"])
def test_a_stream_that_stands_still_behind_such_a_gap_is_a_miss(ends: str) -> None:
    """In the next one the others go on, and so they do for the rest of one that was such a gap."""
    harness = begun()
    harness.stood["a"] = Stood.WENT_ON
    harness.output("a", 3.0)
    harness.tick(5.5)

    harness.stood["a"] = Stood.ALONE
    if ends == "output":
        harness.output("a", 5.6)
        harness.tick(5.7)
    elif ends == "tick":
        harness.tick(5.7)
    else:
        harness.ended("a", 5.7, Outcome.CLIENT_CANCELLED)

    assert harness.decided == [("a", STALL, True)]


@pytest.mark.parametrize("stood", [Stood.ALONE, Stood.ALL])
def test_a_stall_keeps_whether_other_streams_went_on(stood: Stood) -> None:
    harness = begun()
    tokens = harness.cases["a"].gaps
    harness.stood["a"] = stood
    harness.output("a", 3.0)
    harness.stood["a"] = Stood.WENT_ON
    harness.output("a", 9.0)

    assert tokens is not None
    assert (tokens.alone, tokens.longest_seconds) == (stood is Stood.ALONE, 2.5)


# --- the pauses of the client -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "missed"), [(12.4, False), (12.6, True)])
def test_the_pauses_of_the_client_are_taken_off(at: float, missed: bool) -> None:
    """Ten seconds in two pauses, with ticks within and between."""
    harness = begun()
    harness.cases["a"].paused(START + 1.0)
    harness.tick(4.0)
    harness.cases["a"].resumed(START + 5.0)
    harness.tick(5.1)
    harness.paused("a", 5.2, 11.2)
    harness.tick(11.3)

    harness.output("a", at)
    well(harness, at + 0.1)

    assert harness.decided == [("a", STALL, missed)]


def test_a_stream_whose_client_does_not_read_is_looked_at_without_end_and_never_missed() -> None:
    harness = begun()
    harness.cases["a"].paused(START + 2.4)
    for second in range(3, 600):
        assert harness.tick(second) is False
    assert (harness.decided, len(harness.judge._due)) == ([], 1)

    harness.cases["a"].resumed(START + 600.0)
    harness.tick(600.05)
    assert harness.decided == []
    harness.tick(600.2)

    assert harness.decided == [("a", STALL, True)]


def test_output_that_was_read_before_a_pause_may_be_told_after_its_beginning() -> None:
    """The first write to the client fills its buffer: the pause is told before the output that began it, twice."""
    harness = JudgeHarness()
    harness.received("a", aims=STALLS)
    harness.cases["a"].paused(START + 0.5)
    harness.output("a", 0.5)
    harness.cases["a"].resumed(START + 30.0)
    harness.cases["a"].paused(START + 31.0)
    harness.output("a", 31.0)
    harness.cases["a"].resumed(START + 60.0)

    harness.output("a", 61.5)
    well(harness, 61.6)

    assert harness.decided == [("a", STALL, False)]


def test_a_pause_before_the_first_output_that_is_over_is_forgotten() -> None:
    harness = JudgeHarness()
    harness.received("a", aims=STALLS)
    harness.paused("a", 0.1, 0.3)
    harness.output("a", 0.5)

    harness.tick(2.6)

    assert harness.decided == [("a", STALL, True)]


# --- beside the other objectives --------------------------------------------------------------------------------------------


def test_a_stall_is_decided_beside_the_pace_and_hides_no_token_deadline() -> None:
    """One gap of three seconds in twenty outputs: those before it came so early that no token is late, and the pace is met."""
    harness = begun(BOTH)
    for number in range(1, 20):
        harness.output("a", 0.5 + 0.01 * number + (3.0 if number > 10 else 0.0))
    case = harness.cases["a"]
    well(harness, 3.8)

    assert case.tokens is not None
    assert (case.tokens.deadlines, case.tokens.misses) == (20, 0)
    assert harness.decided == [("a", TTFT, False), ("a", STALL, True), ("a", TPOT, True)]


def test_what_streams_leave_in_the_heap_is_swept() -> None:
    harness = JudgeHarness()
    for number in range(10 * FEW_DUE):
        harness.received(f"{number}", aims=Aims(stall=Aim(3600.0, 0.99)))
        harness.output(f"{number}", 0.5)
        harness.ended(f"{number}", 1.0, tokens=(0.5, 1.0, 3))

    assert len(harness.judge._due) <= FEW_DUE + 1


# --- any stream -------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.floats(0.0, 4.0), st.sampled_from(["output", "pause", "resume", "tick"])), max_size=40),
    st.integers(0, 9),
)
def test_the_longest_gap_is_what_the_instants_say(steps: list[tuple[float, str]], seed: int) -> None:
    """In any order of events, the judge decides as one who reads all instants at the end, and ticks change nothing."""
    harness, at, paused_at = begun(), 0.5, None
    stands, longest = 0.0, 0.0
    ticks = Random(seed)
    for seconds, what in steps:
        at += seconds
        if paused_at is None:
            stands += seconds
            longest = max(longest, stands)
        if what == "output" and paused_at is None:  # while a client is paused, nothing is read
            harness.output("a", at)
            stands = 0.0
        elif what == "pause" and paused_at is None:
            paused_at = at
            harness.cases["a"].paused(START + at)
        elif what == "resume" and paused_at is not None:
            paused_at = None
            harness.cases["a"].resumed(START + at)
        if what == "tick" or ticks.random() < 0.3:
            harness.tick(at)
    tokens = harness.cases["a"].tokens
    assert tokens is not None
    found = max(tokens.longest_seconds, tokens.gap_seconds(START + at))
    well(harness, at)

    assert found == pytest.approx(longest, abs=1e-9)
    if abs(longest - 2.0) > 1e-6:
        assert harness.decided == [("a", STALL, longest > 2.0)]


def test_without_a_pace_no_output_is_late() -> None:
    tokens = TokenDeadlines()
    for at in (1.0, 5.0, 500.0):
        tokens.output(at, 3)

    assert (tokens.deadlines, tokens.misses, tokens.longest_seconds) == (9, 0, 495.0)
