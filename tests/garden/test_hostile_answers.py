"""Hostile answers: how many there are, and that good and bad ones are among them."""

from collections import Counter

from tests.garden.hostile_answers import hostile_answers
from tests.garden.judgement import final_answers
from tests.garden.strict_reader import read_answers


EVERY = hostile_answers()


def test_there_are_two_hundred_hostile_answers_of_all_families() -> None:
    """More than 200, no two the same, some of each family, in the same order each time."""
    families = Counter(answer.family for answer in EVERY)

    assert len(EVERY) >= 200
    assert len({(answer.pieces, answer.closes) for answer in EVERY}) == len(EVERY)
    assert min(families.values()) >= 10
    assert len(families) == 10
    assert hostile_answers() == EVERY


def test_some_answers_may_be_passed_on_and_most_may_not() -> None:
    """A garden of answers that are all refused would prove nothing about those that are passed on."""
    whole = [answer for answer in EVERY if final_answers(read_answers(answer.sent, [b"GET"], ended=answer.closes))]

    assert 0.2 < len(whole) / len(EVERY) < 0.6
