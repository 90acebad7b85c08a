"""The ends of a request that count: the client's and the engine's, before and after each threshold."""

import pytest

from sidecar.objectives.objective import Aims, Objective
from sidecar.timeline.outcome import Outcome
from tests.objectives.judging import AIMS, E2E, TPOT, TTFT, JudgeHarness


SPOILING = (
    Outcome.REJECTED,
    Outcome.ENGINE_ERROR,
    Outcome.ENGINE_UNREACHABLE,
    Outcome.ENGINE_TIMEOUT,
    Outcome.ENGINE_TRUNCATED,
    Outcome.SIDECAR_ERROR,
)


@pytest.mark.parametrize("outcome", [Outcome.CLIENT_ERROR, Outcome.CLIENT_CANCELLED])
def test_a_clients_own_end_before_the_threshold_is_in_neither_counter(outcome: Outcome) -> None:
    """Also exactly at the threshold. A client that leaves in mid-stream has its TTFT decided, and no pace."""
    harness = JudgeHarness()
    for key, streaming in (("waits", True), ("whole", False), ("streams", True)):
        harness.received(key, streaming=streaming)
    harness.output("streams", 0.5)

    harness.ended("waits", 1.0, outcome)
    harness.ended("whole", 8.0, outcome, streaming=False)
    harness.ended("streams", 30.0, outcome)

    assert harness.decided == [("streams", TTFT, False)]


@pytest.mark.parametrize(("streaming", "after", "objective"), [(True, 1.01, TTFT), (False, 8.01, E2E)])
def test_a_cancel_after_the_threshold_is_a_miss(streaming: bool, after: float, objective: Objective) -> None:
    """It is a miss whether or not a tick came in between."""
    harness = JudgeHarness()
    harness.received("a", streaming=streaming)

    case = harness.ended("a", after, Outcome.CLIENT_CANCELLED, streaming=streaming)

    assert harness.decided == [("a", objective, True)]
    assert case is not None
    assert case.missed == (objective,)


@pytest.mark.parametrize("outcome", SPOILING)
def test_what_the_engine_spoils_is_a_miss_of_what_was_open_still(outcome: Outcome) -> None:
    """A stream misses its TTFT, or its TPOT once the first token has come; a whole answer misses E2E. This holds
    however soon the failure comes, and although every error is answered without a stream.
    """
    harness = JudgeHarness()
    for key, streaming in (("waits", True), ("whole", False), ("unclear", None)):
        harness.received(key, streaming=streaming)
        harness.ended(key, 0.1, outcome, streaming=False)
    if outcome is not Outcome.REJECTED:  # # a request that has had a token was let in
        harness.received("streams")
        harness.output("streams", 0.5)
        harness.ended("streams", 0.6, outcome, tokens=(0.5, 0.6, 2))

    expected = [("waits", TTFT, True), ("whole", E2E, True), ("unclear", TTFT, True)]
    if outcome is not Outcome.REJECTED:
        expected += [("streams", TTFT, False), ("streams", TPOT, True)]
    assert harness.decided == expected


def test_what_had_missed_already_is_not_missed_again() -> None:
    """Covers a stream that waited past its threshold and then failed, and a whole answer that did the same."""
    harness = JudgeHarness()
    harness.received("a")
    harness.received("b", streaming=False)
    harness.tick(9.0)

    harness.ended("a", 10.0, Outcome.ENGINE_TIMEOUT)
    harness.ended("b", 10.0, Outcome.ENGINE_TIMEOUT, streaming=False)

    assert harness.decided == [("a", TTFT, True), ("b", E2E, True)]


@pytest.mark.parametrize(
    ("aims", "streaming", "outcome", "missed"),
    [
        (Aims(tpot=AIMS.tpot), True, Outcome.ENGINE_UNREACHABLE, [TPOT]),
        (Aims(tpot=AIMS.tpot), True, Outcome.REJECTED, []),
        (Aims(e2e=AIMS.e2e), None, Outcome.REJECTED, [E2E]),
        (Aims(e2e=AIMS.e2e), True, Outcome.ENGINE_ERROR, []),
        (Aims(ttft=AIMS.ttft), False, Outcome.ENGINE_ERROR, []),
    ],
    ids=["only a pace", "never let in", "only the whole, of unknown cause", "not about streams", "only about streams"],
)
def test_only_what_was_promised_is_missed(
    aims: Aims, streaming: bool | None, outcome: Outcome, missed: list[Objective]
) -> None:
    harness = JudgeHarness()
    harness.received("a", streaming=streaming, aims=aims)

    harness.ended("a", 0.1, outcome, streaming=False)

    assert harness.decided == [("a", objective, True) for objective in missed]


def test_an_unread_stream_that_breaks_off_has_missed_its_pace() -> None:
    """Its TTFT cannot be judged, because its tokens cannot be seen; its failure can."""
    harness = JudgeHarness()
    harness.received("a")
    harness.answering("a", 0.5, streaming=None)

    harness.ended("a", 3.0, Outcome.ENGINE_TRUNCATED)

    assert harness.decided == [("a", TPOT, True)]


@pytest.mark.parametrize("first", [0.7, 30.0])
def test_an_answer_that_was_held_back_has_no_pace_to_judge(first: float) -> None:
    """Sixty tokens in one event: its TTFT is true for the client, and nothing tells its TPOT."""
    harness = JudgeHarness()
    harness.received("a")
    harness.output("a", first)

    harness.ended("a", first, tokens=(first, first, 60))

    assert harness.decided == [("a", TTFT, first > 1.0)]


def test_tokens_that_came_at_one_instant_have_no_pace_to_judge() -> None:
    """Two tokens, of which the second is the end mark without text."""
    harness = JudgeHarness()
    harness.received("a")
    harness.output("a", 0.5)

    harness.ended("a", 0.5, tokens=(0.5, 0.5, 2))

    assert harness.decided == [("a", TTFT, False)]


@pytest.mark.parametrize("each", [2, 4, 5])
def test_several_tokens_in_an_event_have_a_pace(each: int) -> None:
    """Speculative decoding or a stream interval of four: 61 tokens, 10 ms each."""
    harness = JudgeHarness()
    harness.received("a")
    for number in range(60 // each + 1):
        harness.output("a", 0.5 + 0.01 * each * number)

    harness.ended("a", 1.1, tokens=(0.5, 1.1, 61))

    assert harness.decided == [("a", TTFT, False), ("a", TPOT, False)]
