"""Each objective is decided once: at its deadline, when met, or when the engine fails, never by an end without fault."""

from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.ledger.account import Account
from sidecar.ledger.request_labels import RequestLabels
from sidecar.objectives.judge import DEADLINES_AT_ONCE, FEW_DUE, Case, pace_seconds
from sidecar.objectives.objective import NO_AIMS, Aim, Aims, Objective
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from tests.objectives.judging import AIMS, E2E, TPOT, TTFT, JudgeHarness


# --- the time that an objective measures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "first_token_at", "timed"),
    [
        (TTFT, None, (1.0, 9.0)),
        (TTFT, 3.0, (1.0, 3.0)),
        (TPOT, 3.0, (3.0, 9.0)),
        (TPOT, None, (1.0, 9.0)),
        (E2E, None, (1.0, 9.0)),
        (E2E, 3.0, (1.0, 9.0)),
    ],
)
def test_each_objective_measures_a_time_of_its_own(
    objective: Objective, first_token_at: float | None, timed: tuple[float, float]
) -> None:
    """A request that came at 1 s and is looked at 9 s; one without a first token may have missed TPOT by an error."""
    case = Case(RequestLabels("llama", "chat", "0-512"), AIMS, 1.0, streaming=None, first_token_at=first_token_at)

    assert case.timed(objective, 9.0) == timed


# --- the first token -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "missed"), [(0.5, False), (1.0, False), (1.0001, True), (60.0, True)])
def test_a_first_token_is_in_time_up_to_its_threshold(at: float, missed: bool) -> None:
    """A first token exactly at the threshold meets the objective."""
    harness = JudgeHarness()
    harness.received("a")

    harness.output("a", at)

    assert harness.decided == [("a", TTFT, missed)]


def test_a_miss_is_counted_at_its_deadline_and_not_when_the_request_ends() -> None:
    """The request waits for a minute: after one second it is a miss, and it is overdue until its first token."""
    harness = JudgeHarness()
    harness.received("a")

    harness.tick(1.0)
    assert (harness.decided, len(harness.judge.overdue)) == ([], 0)
    harness.tick(1.1)
    assert (harness.decided, len(harness.judge.overdue)) == ([("a", TTFT, True)], 1)
    harness.output("a", 60.0)
    assert len(harness.judge.overdue) == 0
    harness.ended("a", 61.0, tokens=(60.0, 61.0, 5))

    assert harness.decided == [("a", TTFT, True), ("a", TPOT, False)]


def test_deadlines_are_kept_in_their_own_order() -> None:
    """A request that came later may be due sooner."""
    harness = JudgeHarness()
    harness.received("slow", aims=Aims(ttft=Aim(30.0, 0.9)))
    harness.received("quick", at=5.0)

    harness.tick(6.5)
    assert harness.decided == [("quick", TTFT, True)]
    harness.tick(30.5)
    assert harness.decided == [("quick", TTFT, True), ("slow", TTFT, True)]


def test_a_storm_of_misses_is_decided_in_turns_and_a_request_that_ends_need_not_wait_for_its_turn() -> None:
    """300 requests hang, each is a miss of its deadline; the last of them ends before the turn that would decide it."""
    harness = JudgeHarness()
    for number in range(300):
        harness.received(f"hung-{number}")

    assert harness.tick(2.0) is True
    assert len(harness.decided) == DEADLINES_AT_ONCE
    harness.ended("hung-299", 2.1, Outcome.CLIENT_CANCELLED)
    assert ("hung-299", TTFT, True) in harness.decided
    while harness.tick(2.1):
        pass

    assert sorted(harness.decided) == sorted((f"hung-{number}", TTFT, True) for number in range(300))


def test_a_request_without_promises_is_not_remembered() -> None:
    harness = JudgeHarness()
    harness.received("a", aims=NO_AIMS)

    harness.tick(1000.0)
    harness.output("a", 1001.0)

    assert (harness.ended("a", 1002.0), harness.decided, len(harness.judge)) == (None, [], 0)


# --- TPOT ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "missed"), [(2.0, False), (2.01, True)])
def test_a_pace_is_judged_at_the_end(last: float, missed: bool) -> None:
    """Five tokens: four gaps, 0.25 s each on average."""
    harness = JudgeHarness()
    harness.received("a")
    harness.output("a", 1.0)

    harness.ended("a", last, tokens=(1.0, last, 5))

    assert harness.decided == [("a", TTFT, False), ("a", TPOT, missed)]


def test_two_tokens_have_a_pace() -> None:
    """Two tokens have one gap, and its length is the pace."""
    harness = JudgeHarness()
    harness.received("a")
    harness.output("a", 0.5)

    harness.ended("a", 1.0, tokens=(0.5, 1.0, 2))

    assert harness.decided == [("a", TTFT, False), ("a", TPOT, True)]


@pytest.mark.parametrize(("completion", "choices"), [(1, 1), (5, 2), (0, 1)])
def test_an_undefined_pace_is_no_verdict(completion: int, choices: int) -> None:
    """One token has no gap, and two choices have no pace of their own."""
    harness = JudgeHarness()
    harness.received("a")
    harness.output("a", 0.5)

    harness.ended("a", 99.0, tokens=(0.5, 99.0, completion), choices=choices)

    assert harness.decided == [("a", TTFT, False)]


def test_a_pace_needs_the_engines_count() -> None:
    marks = Marks(accepted_at=0.0, received_at=0.0, first_token_at=1.0, last_token_at=2.0, choices=1)

    assert pace_seconds(Account(RequestLabels("m", "a", "0-512"), True, Outcome.OK, marks, None)) is None


# --- answers that are not streamed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "missed"), [(8.0, False), (8.01, True)])
def test_a_whole_answer_is_judged_by_its_last_byte(at: float, missed: bool) -> None:
    harness = JudgeHarness()
    harness.received("a", streaming=False)

    harness.ended("a", at, streaming=False)

    assert harness.decided == [("a", E2E, missed)]


def test_a_whole_answer_that_does_not_come_misses_at_its_deadline() -> None:
    """It is not overdue: that gauge counts streams only."""
    harness = JudgeHarness()
    harness.received("a", streaming=False)

    harness.tick(8.1)

    assert (harness.decided, len(harness.judge.overdue)) == ([("a", E2E, True)], 0)


# --- what the answer's head shows ----------------------------------------------------------------------------------------


def test_who_did_not_say_is_held_to_what_the_answer_shows() -> None:
    """Nothing can be missed before the head: until then it is not known which objective applies."""
    harness = JudgeHarness()
    harness.received("stream", streaming=None)
    harness.received("whole", streaming=None)

    harness.tick(20.0)
    assert harness.decided == []
    harness.answering("stream", 20.0, streaming=True)
    harness.answering("whole", 20.0, streaming=False)
    harness.tick(20.1)

    assert harness.decided == [("stream", TTFT, True), ("whole", E2E, True)]


def test_a_stream_that_was_not_asked_for_has_no_promise_as_a_whole() -> None:
    """Its TTFT counts, whether its head or its first token showed that it streams."""
    harness = JudgeHarness()
    for key in ("head", "token", "late"):
        harness.received(key, streaming=False)

    harness.answering("head", 0.5, streaming=True)
    harness.answering("late", 0.5, streaming=True)
    harness.output("head", 0.9)
    harness.output("token", 0.9)
    harness.tick(9.0)

    assert harness.decided == [("head", TTFT, False), ("token", TTFT, False), ("late", TTFT, True)]
    cases = [harness.ended(key, 10.0) for key in ("head", "token", "late")]
    assert [case.missed for case in cases if case is not None] == [(), (), (TTFT,)]


def test_a_whole_answer_to_who_asked_for_a_stream_is_held_to_the_whole() -> None:
    harness = JudgeHarness()
    harness.received("a")

    harness.answering("a", 0.5, streaming=False)
    harness.tick(2.0)
    harness.ended("a", 3.0, streaming=False)

    assert harness.decided == [("a", E2E, False)]


def test_an_answer_that_cannot_be_read_misses_nothing() -> None:
    """A compressed stream's tokens have no known instants: neither met nor missed, nor in the sum of requests."""
    harness = JudgeHarness()
    harness.received("a")

    harness.answering("a", 0.5, streaming=None)
    harness.tick(50.0)
    case = harness.ended("a", 60.0)

    assert (harness.decided, len(harness.judge.overdue)) == ([], 0)
    assert case is not None
    assert case.missed == ()


def test_a_head_that_comes_too_late_takes_no_miss_back() -> None:
    """Its first token was late, since the head is no later. It is not overdue, as its tokens cannot be seen."""
    harness = JudgeHarness()
    harness.received("a")

    harness.answering("a", 1.5, streaming=None)

    assert (harness.decided, len(harness.judge.overdue)) == ([("a", TTFT, True)], 0)


# --- token deadlines -----------------------------------------------------------------------------------------------------


def test_the_first_token_is_due_at_its_threshold_and_the_next_a_pace_later() -> None:
    """The first is due after 1 s, each further one 0.25 s later: the one at 1.6 s misses its deadline of 1.25 s."""
    harness = JudgeHarness()
    harness.received("a")
    for at in (1.0, 1.6, 1.8):
        harness.output("a", at)

    case = harness.ended("a", 2.0, tokens=(1.0, 1.8, 3))

    assert case is not None
    assert case.tokens is not None
    assert (case.tokens.deadlines, case.tokens.misses) == (3, 1)


@pytest.mark.parametrize("aims", [Aims(ttft=AIMS.ttft), Aims(tpot=AIMS.tpot)])
def test_tokens_have_deadlines_only_where_both_are_promised(aims: Aims) -> None:
    harness = JudgeHarness()
    harness.received("a", aims=aims)
    harness.output("a", 0.5)

    case = harness.ended("a", 1.0, tokens=(0.5, 1.0, 2))

    assert case is not None
    assert case.tokens is None


# --- memory --------------------------------------------------------------------------------------------------------------


def test_deadlines_of_requests_that_are_over_do_not_pile_up() -> None:
    """A batch lane's TTFT is one hour: a thousand requests that took a second each leave no thousand deadlines."""
    harness = JudgeHarness()
    for number in range(1000):
        harness.received(f"{number}", aims=Aims(ttft=Aim(3600.0, 0.9)), at=number)
        harness.output(f"{number}", number + 0.9)
        harness.ended(f"{number}", number + 1.0, tokens=(number, number + 0.9, 2))

    assert len(harness.judge._due) <= FEW_DUE + 2
    assert len(harness.decided) == 1000


def test_a_sweep_loses_no_deadline_of_who_still_waits() -> None:
    """A hundred requests wait, each with its own deadline, among many that come and go: each is missed in its second."""
    harness, thresholds = JudgeHarness(), [float(number) for number in range(100, 200)]
    Random(3).shuffle(thresholds)
    for threshold in thresholds:
        harness.received(f"{threshold}", aims=Aims(ttft=Aim(threshold, 0.9)))
        for gone in range(20):
            harness.received("gone", aims=Aims(ttft=Aim(2 * threshold + gone, 0.9)))
            harness.ended("gone", 0.0, Outcome.CLIENT_CANCELLED)

    for threshold in sorted(thresholds):
        harness.tick(threshold + 0.5)
        assert harness.decided[-1] == (f"{threshold}", TTFT, True)
    assert len(harness.decided) == 100


_VERBS = ("received", "output", "answering", "tick", "ended")
_OUTCOMES = st.sampled_from(list(Outcome))
_STREAMING = st.sampled_from([True, False, None])


@given(
    st.lists(
        st.tuples(st.sampled_from(_VERBS), st.integers(0, 3), st.floats(0, 5), _STREAMING, _OUTCOMES), max_size=60
    ),
    st.sampled_from([AIMS, Aims(ttft=AIMS.ttft), Aims(tpot=AIMS.tpot, e2e=AIMS.e2e)]),
)
def test_each_promise_is_decided_once_whatever_happens_in_whatever_order(
    told: list[tuple[str, int, float, bool | None, Outcome]], aims: Aims
) -> None:
    """After all requests have ended, no request is left in the judge's memory."""
    harness, now, lives = JudgeHarness(), 0.0, count()
    inside: dict[int, str] = {}

    for verb, who, later, streaming, outcome in told:
        now += later
        if verb == "received" and who not in inside:
            inside[who] = f"{who}.{next(lives)}"
            harness.received(inside[who], streaming=streaming, aims=aims, at=now)
        key = inside.get(who, "unknown")
        if verb == "output":
            harness.output(key, now, 2)
        elif verb == "answering":
            harness.answering(key, now, streaming=streaming)
        elif verb == "tick":
            harness.tick(now)
        elif verb == "ended":
            harness.ended(key, now, outcome, streaming=streaming is True, tokens=(now - later, now, 5))
            inside.pop(who, None)
        assert len(harness.judge) == len(inside)
        assert len(harness.judge.overdue) <= len(inside)
    for key in inside.values():
        harness.ended(key, now, Outcome.CLIENT_CANCELLED)
    harness.tick(now + 3600.0)

    verdicts = [(key, objective) for key, objective, _ in harness.decided]
    assert len(verdicts) == len(set(verdicts))
    assert (len(harness.judge), len(harness.judge._due), len(harness.judge.overdue)) == (0, 0, 0)
