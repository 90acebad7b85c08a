"""Each objective is decided once: at its deadline, when met, or when the engine fails, never by an end without fault."""

from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.ledger.account import Account
from sidecar.ledger.request_labels import RequestLabels
from sidecar.slo.judge import FEW_DUE, pace_seconds
from sidecar.slo.objective import NOTHING, Aim, Aims
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from tests.slo.judging import AIMS, E2E, TPOT, TTFT, Court


# --- the first token -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "missed"), [(0.5, False), (1.0, False), (1.0001, True), (60.0, True)])
def test_a_first_token_is_in_time_up_to_its_threshold(at: float, missed: bool) -> None:
    """A first token exactly at the threshold meets the objective."""
    court = Court()
    court.received("a")

    court.output("a", at)

    assert court.decided == [("a", TTFT, missed)]


def test_a_miss_is_counted_at_its_deadline_and_not_when_the_request_ends() -> None:
    """The request waits for a minute: after one second it is a miss, and it is overdue until its first token."""
    court = Court()
    court.received("a")

    court.tick(1.0)
    assert (court.decided, len(court.judge.overdue)) == ([], 0)
    court.tick(1.1)
    assert (court.decided, len(court.judge.overdue)) == ([("a", TTFT, True)], 1)
    court.output("a", 60.0)
    assert len(court.judge.overdue) == 0
    court.ended("a", 61.0, tokens=(60.0, 61.0, 5))

    assert court.decided == [("a", TTFT, True), ("a", TPOT, False)]


def test_deadlines_are_kept_in_their_own_order() -> None:
    """A request that came later may be due sooner."""
    court = Court()
    court.received("slow", aims=Aims(ttft=Aim(30.0, 0.9)))
    court.received("quick", at=5.0)

    court.tick(6.5)
    assert court.decided == [("quick", TTFT, True)]
    court.tick(30.5)
    assert court.decided == [("quick", TTFT, True), ("slow", TTFT, True)]


def test_a_request_without_promises_is_not_remembered() -> None:
    court = Court()
    court.received("a", aims=NOTHING)

    court.tick(1000.0)
    court.output("a", 1001.0)

    assert (court.ended("a", 1002.0), court.decided, len(court.judge)) == (None, [], 0)


# --- TPOT ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "missed"), [(2.0, False), (2.01, True)])
def test_a_pace_is_judged_at_the_end(last: float, missed: bool) -> None:
    """Five tokens: four gaps, 0.25 s each on average."""
    court = Court()
    court.received("a")
    court.output("a", 1.0)

    court.ended("a", last, tokens=(1.0, last, 5))

    assert court.decided == [("a", TTFT, False), ("a", TPOT, missed)]


def test_two_tokens_have_a_pace() -> None:
    """Two tokens have one gap, and its length is the pace."""
    court = Court()
    court.received("a")
    court.output("a", 0.5)

    court.ended("a", 1.0, tokens=(0.5, 1.0, 2))

    assert court.decided == [("a", TTFT, False), ("a", TPOT, True)]


@pytest.mark.parametrize(("completion", "choices"), [(1, 1), (5, 2), (0, 1)])
def test_an_undefined_pace_is_no_verdict(completion: int, choices: int) -> None:
    """One token has no gap, and two choices have no pace of their own."""
    court = Court()
    court.received("a")
    court.output("a", 0.5)

    court.ended("a", 99.0, tokens=(0.5, 99.0, completion), choices=choices)

    assert court.decided == [("a", TTFT, False)]


def test_a_pace_needs_the_engines_count() -> None:
    marks = Marks(accepted_at=0.0, received_at=0.0, first_token_at=1.0, last_token_at=2.0, choices=1)

    assert pace_seconds(Account(RequestLabels("m", "a", "0-512"), True, Outcome.OK, marks, None)) is None


# --- answers that are not streamed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "missed"), [(8.0, False), (8.01, True)])
def test_a_whole_answer_is_judged_by_its_last_byte(at: float, missed: bool) -> None:
    court = Court()
    court.received("a", streaming=False)

    court.ended("a", at, streaming=False)

    assert court.decided == [("a", E2E, missed)]


def test_a_whole_answer_that_does_not_come_misses_at_its_deadline() -> None:
    """It is not overdue: that gauge counts streams only."""
    court = Court()
    court.received("a", streaming=False)

    court.tick(8.1)

    assert (court.decided, len(court.judge.overdue)) == ([("a", E2E, True)], 0)


# --- what the answer's head shows ----------------------------------------------------------------------------------------


def test_who_did_not_say_is_held_to_what_the_answer_shows() -> None:
    """Nothing can be missed before the head: until then it is not known which objective applies."""
    court = Court()
    court.received("stream", streaming=None)
    court.received("whole", streaming=None)

    court.tick(20.0)
    assert court.decided == []
    court.answering("stream", 20.0, streaming=True)
    court.answering("whole", 20.0, streaming=False)
    court.tick(20.1)

    assert court.decided == [("stream", TTFT, True), ("whole", E2E, True)]


def test_a_stream_that_was_not_asked_for_has_no_promise_as_a_whole() -> None:
    """Its TTFT counts, whether its head or its first token showed that it streams."""
    court = Court()
    for key in ("head", "token", "late"):
        court.received(key, streaming=False)

    court.answering("head", 0.5, streaming=True)
    court.answering("late", 0.5, streaming=True)
    court.output("head", 0.9)
    court.output("token", 0.9)
    court.tick(9.0)

    assert court.decided == [("head", TTFT, False), ("token", TTFT, False), ("late", TTFT, True)]
    cases = [court.ended(key, 10.0) for key in ("head", "token", "late")]
    assert [case.missed for case in cases if case is not None] == [(), (), (TTFT,)]


def test_a_whole_answer_to_who_asked_for_a_stream_is_held_to_the_whole() -> None:
    court = Court()
    court.received("a")

    court.answering("a", 0.5, streaming=False)
    court.tick(2.0)
    court.ended("a", 3.0, streaming=False)

    assert court.decided == [("a", E2E, False)]


def test_an_answer_that_nobody_reads_misses_nothing() -> None:
    """A compressed stream's tokens have no known instants: neither met nor missed, nor in the sum of requests."""
    court = Court()
    court.received("a")

    court.answering("a", 0.5, streaming=None)
    court.tick(50.0)
    case = court.ended("a", 60.0)

    assert (court.decided, len(court.judge.overdue)) == ([], 0)
    assert case is not None
    assert case.missed == ()


def test_a_head_that_comes_too_late_takes_no_miss_back() -> None:
    """Its first token was late, since the head is no later. It is not overdue, as its tokens cannot be seen."""
    court = Court()
    court.received("a")

    court.answering("a", 1.5, streaming=None)

    assert (court.decided, len(court.judge.overdue)) == ([("a", TTFT, True)], 0)


# --- token deadlines -----------------------------------------------------------------------------------------------------


def test_the_first_token_is_due_at_its_threshold_and_the_next_a_pace_later() -> None:
    """The first is due after 1 s, each further one 0.25 s later: the one at 1.6 s misses its deadline of 1.25 s."""
    court = Court()
    court.received("a")
    for at in (1.0, 1.6, 1.8):
        court.output("a", at)

    case = court.ended("a", 2.0, tokens=(1.0, 1.8, 3))

    assert case is not None
    assert case.tokens is not None
    assert (case.tokens.deadlines, case.tokens.misses) == (3, 1)


@pytest.mark.parametrize("aims", [Aims(ttft=AIMS.ttft), Aims(tpot=AIMS.tpot)])
def test_tokens_have_deadlines_only_where_both_are_promised(aims: Aims) -> None:
    court = Court()
    court.received("a", aims=aims)
    court.output("a", 0.5)

    case = court.ended("a", 1.0, tokens=(0.5, 1.0, 2))

    assert case is not None
    assert case.tokens is None


# --- memory --------------------------------------------------------------------------------------------------------------


def test_deadlines_of_requests_that_are_over_do_not_pile_up() -> None:
    """A batch lane's TTFT is one hour: a thousand requests that took a second each leave no thousand deadlines."""
    court = Court()
    for number in range(1000):
        court.received(f"{number}", aims=Aims(ttft=Aim(3600.0, 0.9)), at=number)
        court.output(f"{number}", number + 0.9)
        court.ended(f"{number}", number + 1.0, tokens=(number, number + 0.9, 2))

    assert len(court.judge._due) <= FEW_DUE + 2
    assert len(court.decided) == 1000


def test_a_sweep_loses_no_deadline_of_who_still_waits() -> None:
    """A hundred requests wait, each with its own deadline, among many that come and go: each is missed in its second."""
    court, thresholds = Court(), [float(number) for number in range(100, 200)]
    Random(3).shuffle(thresholds)
    for threshold in thresholds:
        court.received(f"{threshold}", aims=Aims(ttft=Aim(threshold, 0.9)))
        for gone in range(20):
            court.received("gone", aims=Aims(ttft=Aim(2 * threshold + gone, 0.9)))
            court.ended("gone", 0.0, Outcome.CLIENT_CANCELLED)

    for threshold in sorted(thresholds):
        court.tick(threshold + 0.5)
        assert court.decided[-1] == (f"{threshold}", TTFT, True)
    assert len(court.decided) == 100


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
    court, now, lives = Court(), 0.0, count()
    inside: dict[int, str] = {}

    for verb, who, later, streaming, outcome in told:
        now += later
        if verb == "received" and who not in inside:
            inside[who] = f"{who}.{next(lives)}"
            court.received(inside[who], streaming=streaming, aims=aims, at=now)
        key = inside.get(who, "nobody")
        if verb == "output":
            court.output(key, now, 2)
        elif verb == "answering":
            court.answering(key, now, streaming=streaming)
        elif verb == "tick":
            court.tick(now)
        elif verb == "ended":
            court.ended(key, now, outcome, streaming=streaming is True, tokens=(now - later, now, 5))
            inside.pop(who, None)
        assert len(court.judge) == len(inside)
        assert len(court.judge.overdue) <= len(inside)
    for key in inside.values():
        court.ended(key, now, Outcome.CLIENT_CANCELLED)
    court.tick(now + 3600.0)

    verdicts = [(key, objective) for key, objective, _ in court.decided]
    assert len(verdicts) == len(set(verdicts))
    assert (len(court.judge), len(court.judge._due), len(court.judge.overdue)) == (0, 0, 0)
