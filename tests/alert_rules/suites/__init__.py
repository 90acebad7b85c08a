"""The suites of scenarios that the rules are held to."""

from tests.alert_rules.suites import (
    clusters,
    engine_state,
    hours,
    minute,
    odd,
    own_state,
    plain,
    restarts,
    rolling,
    roots,
    targets,
    tiers,
    words,
    worse,
)


SUITES = (
    *(
        tiers.SUITE,
        hours.SUITE,
        hours.SIX,
        roots.SUITE,
        odd.SUITE,
        worse.SUITE,
        restarts.SUITE,
        rolling.SUITE,
        minute.SUITE,
        minute.LOST,
        plain.SUITE,
        clusters.SUITE,
        clusters.STATE,
    ),
    *(engine_state.SUITE, engine_state.DOWN, own_state.SUITE, own_state.STARVED),
    *(*targets.SCRAPED, targets.TARGETS, targets.NONE_AT_ALL),
    *(hours.SINCE, engine_state.TURNED_AWAY, hours.WEEKS),
    *(words.SUITE, words.STATE, words.SINCE, words.WEEKS),
)
