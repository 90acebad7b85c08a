"""A prompt whose length is not known: kept within the shortest threshold, missed beyond the longest, and not judged in between."""

import pytest

from sidecar.objectives.objective import Aim, Aims
from sidecar.timeline.outcome import Outcome
from tests.objectives.judging import AIMS, E2E, TPOT, TTFT, JudgeHarness


LONGEST = Aims(ttft=Aim(48.0, 0.9), tpot=AIMS.tpot, e2e=Aim(60.0, 0.99))


@pytest.mark.parametrize(
    ("at", "decided", "unjudged"),
    [
        (1.0, [("a", TTFT, False)], []),
        (1.1, [], [("a", TTFT)]),
        (48.0, [], [("a", TTFT)]),
        (48.1, [("a", TTFT, True)], []),
    ],
)
def test_a_first_token_decides_only_where_every_length_says_the_same(
    at: float, decided: list[tuple[str, str, bool]], unjudged: list[tuple[str, str]]
) -> None:
    harness = JudgeHarness()
    harness.received("a", longest=LONGEST)
    harness.tick(at)
    harness.output("a", at)
    harness.tick(at + 1.0)

    assert (harness.decided, harness.unjudged) == (decided, unjudged)


def test_a_request_that_waits_has_missed_at_the_longest_deadline() -> None:
    """Without a token too: a stall shows while it lasts."""
    harness = JudgeHarness()
    harness.received("a", longest=LONGEST)

    harness.tick(47.9)
    assert (harness.decided, list(harness.judge.overdue)) == ([], [])
    harness.tick(48.1)

    assert harness.decided == [("a", TTFT, True)]
    assert len(harness.judge.overdue) == 1


@pytest.mark.parametrize("outcome", [Outcome.ENGINE_ERROR, Outcome.ENGINE_TIMEOUT, Outcome.REJECTED])
def test_a_failure_is_a_miss_at_any_length(outcome: Outcome) -> None:
    harness = JudgeHarness()
    harness.received("a", longest=LONGEST)
    harness.ended("a", 0.5, outcome)

    assert harness.decided == [("a", TTFT, True)]


def test_a_client_that_leaves_in_between_decides_nothing() -> None:
    harness = JudgeHarness()
    harness.received("a", longest=LONGEST)
    harness.ended("a", 30.0, Outcome.CLIENT_CANCELLED)

    assert (harness.decided, harness.unjudged) == ([], [])


def test_the_pace_of_such_a_request_is_judged() -> None:
    """It does not depend on the length. The deadlines of its tokens begin behind the longest threshold."""
    harness = JudgeHarness()
    harness.received("a", longest=LONGEST)
    harness.output("a", 30.0)
    tokens = harness.cases["a"].tokens
    harness.ended("a", 32.0, tokens=(30.0, 31.0, 3))

    assert (harness.decided, harness.unjudged) == ([("a", TPOT, True)], [("a", TTFT)])
    assert tokens is not None
    assert tokens.misses == 0


@pytest.mark.parametrize(
    ("at", "decided", "unjudged"),
    [(8.0, [("a", E2E, False)], []), (8.1, [], [("a", E2E)]), (60.1, [("a", E2E, True)], [])],
)
def test_a_whole_answer_is_judged_alike(
    at: float, decided: list[tuple[str, str, bool]], unjudged: list[tuple[str, str]]
) -> None:
    harness = JudgeHarness()
    harness.received("a", streaming=False, longest=LONGEST)
    harness.ended("a", at, streaming=False)

    assert (harness.decided, harness.unjudged) == (decided, unjudged)
