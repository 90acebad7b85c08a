"""The books of stories that the rules are held to."""

from tests.alert_rules.books import (
    baseline,
    chronic,
    engine_down,
    engine_state,
    evidence,
    faults,
    hours,
    lengths,
    own_state,
    plain,
    provisional,
    tiers,
    turned_away,
    votes,
    weeks,
    words,
)


BOOKS = (
    *(
        tiers.BOOK,
        votes.BOOK,
        evidence.BOOK,
        lengths.BOOK,
        faults.BOOK,
        provisional.BOOK,
        baseline.BOOK,
        chronic.BOOK,
        hours.BOOK,
        plain.BOOK,
    ),
    *(engine_state.BOOK, engine_down.BOOK, own_state.BOOK, turned_away.BOOK, weeks.BOOK),
    *(words.BOOK, words.STATE, words.HOURS, words.WEEKS),
)
