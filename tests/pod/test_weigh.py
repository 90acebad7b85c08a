"""From reasons to weights: none without a reason, more with each, and the rest is not known."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import ROOTS, WORTH_NAMING, Cause, Root, Unknown, root_of, unknown
from sidecar.pod.factor import Factor
from sidecar.pod.life import Facts, Failed
from sidecar.pod.reasons import OF_INCIDENT, Reason, Reasons
from sidecar.pod.signs import Signs
from sidecar.pod.weigh import WEIGHTS, chances, odds, weigh
from tests.pod.weighing import WAITED, leader, sharp


_factors = st.builds(
    lambda value, spread: Factor(value, value / spread, value * spread), st.floats(0.05, 50.0), st.floats(1.01, 4.0)
)
_signs = st.builds(
    Signs,
    grown=st.dictionaries(st.sampled_from([*WORTH_NAMING]), _factors),
    together=st.none() | _factors,
    kv_full=st.booleans(),
    preempts=st.booleans(),
    preempted=st.booleans(),
    front_end=st.booleans(),
    waited=st.dictionaries(st.sampled_from(Blame), st.floats(0.0, 1.0)),
    engine_waiting=st.none() | st.floats(0.0, 100.0),
    cold=st.floats(0.0, 1.0),
    reports=st.booleans(),
    limited=st.booleans(),
    fewer_slots=st.booleans(),
    mute=st.booleans(),
    maybe_mute=st.booleans(),
    cache_unseen=st.booleans(),
    young=st.booleans(),
)
_facts = st.builds(
    Facts,
    waited_in=st.none() | st.sampled_from(Blame),
    failed=st.none() | st.sampled_from(Failed),
    paused=st.booleans(),
    behind_long_prompt=st.booleans(),
    tpot=st.booleans(),
    whole=st.booleans(),
    held_too_shortly=st.booleans(),
    turned_away=st.booleans(),
    transferred=st.booleans(),
    left_behind=st.booleans(),
    stalled=st.booleans(),
    alone=st.booleans(),
    explained=st.booleans(),
    late_ratio=st.floats(0.0, 1.0),
    evicted=st.none() | st.floats(1.0, 9.0),
    fault=st.none() | st.sampled_from((Cause.DOWN, Cause.RESTART, Cause.SILENCE)),
)
_lead = st.none() | st.builds(lambda root: Root(*root), st.sampled_from(ROOTS))
VALUES = st.floats(0.0, 1.0)
FOUND = st.dictionaries(
    st.sampled_from(Cause), st.dictionaries(st.sampled_from(Reason), VALUES, min_size=1, max_size=4), max_size=5
)


@given(_facts, _signs, _lead)
def test_the_weights_of_a_miss_add_up_to_one_and_are_of_the_closed_table(
    facts: Facts, signs: Signs, lead: Root | None
) -> None:
    found = weigh(facts, signs, lead)

    for weights in found:
        assert sum(weights.values()) == pytest.approx(1.0)
        assert all(weight >= 0.0 for weight in weights.values())
        assert set(weights) <= set(ROOTS)


@given(_facts, _signs, _lead)
def test_the_votes_of_a_miss_do_not_depend_on_the_incident(facts: Facts, signs: Signs, lead: Root | None) -> None:
    """A lead neither votes for itself nor takes votes from others."""
    assert weigh(facts, signs, lead).own == weigh(facts, signs).weights == weigh(facts, signs).own


def test_each_reason_has_a_weight() -> None:
    assert set(WEIGHTS) == set(Reason)
    assert min(WEIGHTS.values()) > 0.0


def test_a_cause_without_a_reason_has_no_odds_and_each_reason_multiplies_them() -> None:
    of = {Reason.GROWN: 1.0, Reason.KV_FULL: 0.5}
    weights = {Reason.GROWN: 2.0, Reason.KV_FULL: 1.0}

    assert odds({}, weights) == 0.0
    assert odds(of, weights) == pytest.approx(2.718281828**2.5 - 1.0)


@given(FOUND)
def test_chances_add_up_to_one_with_that_of_none(found: Reasons) -> None:
    given_, left = chances(found)

    assert sum(given_.values()) + left == pytest.approx(1.0)
    assert left > 0.0
    assert set(given_) <= set(found)


@given(FOUND, st.sampled_from(Cause), st.sampled_from(Reason), VALUES)
def test_a_further_reason_never_speaks_against_its_cause(
    found: Reasons, cause: Cause, reason: Reason, value: float
) -> None:
    of = found.get(cause, {})
    more = found | {cause: {**of, reason: max(value, of.get(reason, 0.0))}}
    (before, left_before), (after, left_after) = chances(found), chances(more)

    assert after.get(cause, 0.0) >= before.get(cause, 0.0) - 1e-9
    assert left_after <= left_before + 1e-9


def test_where_nothing_speaks_all_is_not_known_and_why() -> None:
    """Neither that requests wait, nor that an incident is open, is a reason."""
    for lead in (None, root_of(Cause.LOAD), root_of(Cause.SILENCE)):
        assert weigh(WAITED, Signs(engine_waiting=9.0), lead).weights == {unknown(Unknown.UNCLEAR): 1.0}
        assert weigh(WAITED, Signs(young=True), lead).weights == {unknown(Unknown.YOUNG): 1.0}


@pytest.mark.parametrize("cause", WORTH_NAMING)
def test_what_has_grown_alone_is_the_root(cause: Cause) -> None:
    signs = Signs(grown={each: sharp(1.0) for each in WORTH_NAMING} | {cause: sharp(2.0)})

    assert leader(WAITED, signs) == root_of(cause)
    assert weigh(WAITED, signs).weights[root_of(cause)] > 0.9


def test_an_interval_that_covers_the_threshold_decides_nothing() -> None:
    """Prefill costs 1.3 times its usual value, or anything from 0.4 to 4.2 times: that is no evidence."""
    vague = Signs(grown={Cause.PREFILL_COST: Factor(1.3, 0.4, 4.2)})
    found = weigh(WAITED, vague).weights

    assert max(share for root, share in found.items() if root.phase != Blame.UNATTRIBUTED) < 0.25


GROWN = Signs(grown={Cause.LOAD: sharp(3.0)})


@pytest.mark.parametrize(
    ("facts", "signs", "cause"),
    [
        (Facts(failed=Failed.ERROR), GROWN, Cause.ERRORS),
        (Facts(failed=Failed.ERROR, fault=Cause.DOWN), GROWN, Cause.DOWN),
        (Facts(failed=Failed.SIDECAR), GROWN, Cause.SIDECAR_BUDGET),
        (Facts(turned_away=True), GROWN, Cause.REJECTED),
        (WAITED._replace(late_ratio=0.5), GROWN, Cause.SIDECAR_LATE),
        (WAITED._replace(fault=Cause.SILENCE), GROWN, Cause.SILENCE),
        (WAITED._replace(fault=Cause.RESTART), replace(GROWN, cold=1.0), Cause.RESTART),
        (Facts(waited_in=Blame.STREAM), GROWN, Cause.HOP),
        (Facts(waited_in=Blame.STREAM, paused=True), GROWN, Cause.CLIENT),
        (Facts(waited_in=Blame.FIRST_TOKEN), GROWN, Cause.FRONT_END),
        (WAITED, replace(GROWN, preempts=True), Cause.PREEMPTION),
        (WAITED, Signs(young=True, kv_full=True), Cause.KV),
        (Facts(), Signs(front_end=True), Cause.FRONT_END),
    ],
)
def test_what_is_more_direct_comes_first(facts: Facts, signs: Signs, cause: Cause) -> None:
    """The request or its engine shows a cause, beside a load that has grown on the pod; something fills up, beside nothing."""
    assert leader(facts, signs) == root_of(cause)


def test_after_a_hang_the_backlog_that_it_left_is_its_own_unless_load_has_grown() -> None:
    hang, behind = root_of(Cause.SILENCE), WAITED._replace(left_behind=True)
    calm = Signs(grown={Cause.LOAD: sharp(1.0)})

    assert leader(behind, calm, hang) == hang
    assert hang not in weigh(behind, calm, hang).own
    assert leader(behind, GROWN, hang) == root_of(Cause.LOAD)


def test_slots_that_a_restart_cut_are_the_root_and_not_the_restart() -> None:
    """The seeds' post-mortem: a setting is changed by a restart, which is over while fewer requests run at once."""
    cut = Signs(limited=True, fewer_slots=True, engine_waiting=40.0, cold=0.02)
    restarted = WAITED._replace(fault=Cause.RESTART)

    for lead in (None, root_of(Cause.RESTART)):
        assert leader(restarted, cut, lead) == root_of(Cause.SLOTS)


def test_a_lead_decides_between_two_that_have_grown_alike() -> None:
    both = Signs(grown={Cause.DECODE_COST: sharp(2.0), Cause.PREFILL_COST: sharp(2.0)})

    for cause in (Cause.DECODE_COST, Cause.PREFILL_COST):
        assert leader(WAITED, both, root_of(cause)) == root_of(cause)
        assert weigh(WAITED, both).weights[root_of(cause)] == pytest.approx(0.5, abs=0.03)


def test_the_reasons_of_the_incident_are_the_weakest() -> None:
    assert max(WEIGHTS[each] for each in OF_INCIDENT) < min(
        WEIGHTS[each] for each in (Reason.GROWN, Reason.COLD, Reason.FAULT, Reason.LEDGER, Reason.STOOD)
    )
