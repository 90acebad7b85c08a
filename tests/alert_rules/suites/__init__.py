"""The suites of scenarios that the rules are held to."""

from tests.alert_rules.suites import (
    engine_down,
    engine_state,
    hours,
    minute,
    odd,
    own_state,
    plain,
    roots,
    tiers,
    turned_away,
    weeks,
    words,
)


SUITES = (
    *(tiers.SUITE, hours.SUITE, hours.SIX, roots.SUITE, odd.SUITE, minute.SUITE, plain.SUITE),
    *(engine_state.SUITE, engine_down.SUITE, own_state.SUITE, own_state.STARVED, own_state.ABSENT),
    *(hours.SINCE, turned_away.SUITE, weeks.SUITE),
    *(words.SUITE, words.STATE, words.SINCE, words.WEEKS),
)
