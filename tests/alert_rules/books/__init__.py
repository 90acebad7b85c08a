"""The books of stories that the rules are held to."""

from tests.alert_rules.books import (
    engine_state,
    evidence,
    faults,
    hours,
    own_state,
    plain,
    tiers,
    votes,
    weeks,
    words,
)


BOOKS = (
    *(tiers.BOOK, votes.BOOK, evidence.BOOK, faults.BOOK, hours.BOOK, plain.BOOK),
    *(engine_state.BOOK, own_state.BOOK, weeks.BOOK),
    *(words.BOOK, words.STATE, words.HOURS, words.WEEKS),
)
