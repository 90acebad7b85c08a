"""The suites of scenarios that the rules are held to."""

from tests.alert_rules.suites import (
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


SUITES = (
    *(
        tiers.SUITE,
        votes.SUITE,
        evidence.SUITE,
        lengths.SUITE,
        faults.SUITE,
        provisional.SUITE,
        baseline.SUITE,
        chronic.SUITE,
        hours.SUITE,
        plain.SUITE,
    ),
    *(engine_state.SUITE, engine_down.SUITE, own_state.SUITE, turned_away.SUITE, weeks.SUITE),
    *(words.SUITE, words.STATE, words.HOURS, words.WEEKS),
)
