"""A lane's next answer is expected to come as its last ones did."""

from sidecar.objectives.whole_answers import FEWEST_ANSWERS, REMEMBERED_ANSWERS, WholeAnswers


def after(*whole: bool) -> WholeAnswers:
    answers = WholeAnswers()
    for each in whole:
        answers.answered("agents", whole=each)
    return answers


def test_where_most_answers_came_whole_the_next_one_probably_does() -> None:
    """Another lane has no answers yet."""
    answers = after(*[True, False] * FEWEST_ANSWERS)

    assert "agents" in answers.expected
    assert "chat" not in answers.expected


def test_few_answers_tell_nothing() -> None:
    assert "agents" not in after(*[True] * (FEWEST_ANSWERS - 1)).expected


def test_a_lane_that_streams_now_is_seen_again() -> None:
    assert "agents" not in after(*[True] * 100, *[False] * REMEMBERED_ANSWERS).expected
