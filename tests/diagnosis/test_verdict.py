"""The verdict of one lane: each branch of the rule, with numbers on both sides of its threshold."""

import pytest

from sidecar.diagnosis.verdict import GROWN_CAUSES, LEAD, WORTH_NAMING, Case, Verdict, decide
from sidecar.slo.attribution import Blame
from sidecar.slo.causes import Cause
from sidecar.slo.objective import Objective


def case(objective: Objective = Objective.TTFT, *, misses: float = 40.0, **told: object) -> Case:
    votes = told.pop("votes", {Blame.QUEUE: 30.0, Blame.PREFILL: 10.0})
    return Case(objective=objective, misses_5m=misses, misses_30m=misses, votes_5m=votes, votes_30m=votes, **told)  # type: ignore[arg-type]


def decided(one: Case, before: Blame | None = None) -> Verdict:
    found = decide(one, before)
    assert found is not None
    return found


def test_where_nothing_missed_there_is_no_verdict() -> None:
    assert decide(Case(objective=Objective.TTFT)) is None


def test_the_votes_decide_and_nothing_explains_a_queue_but_slots() -> None:
    found = decided(case())

    assert (found.phase, found.cause, found.moved, found.provisional) == (Blame.QUEUE, Cause.SLOTS, False, False)
    assert found.waited_in == {Blame.QUEUE: 0.75, Blame.PREFILL: 0.25}


@pytest.mark.parametrize(
    ("grown", "phase", "cause"),
    [
        (Cause.PREFILL_COST, Blame.PREFILL, Cause.PREFILL_COST),
        (Cause.UNCACHED, Blame.PREFILL, Cause.UNCACHED),
        (Cause.LOAD, Blame.QUEUE, Cause.LOAD),
        (Cause.PROMPT_MIX, Blame.QUEUE, Cause.PROMPT_MIX),
        (Cause.DECODE_COST, Blame.QUEUE, Cause.DECODE_COST),
    ],
)
def test_what_has_grown_most_names_the_cause_and_may_move_a_queue(grown: Cause, phase: Blame, cause: Cause) -> None:
    found = decided(case(ratios=dict.fromkeys(GROWN_CAUSES, 1.3) | {grown: 2.0}))

    assert (found.phase, found.cause, found.moved) == (phase, cause, phase is Blame.PREFILL)


def test_what_has_grown_by_less_than_a_quarter_is_not_named() -> None:
    edges = [decided(case(ratios={Cause.PREFILL_COST: ratio})).phase for ratio in (WORTH_NAMING - 0.01, WORTH_NAMING)]

    assert edges == [Blame.QUEUE, Blame.PREFILL]


def test_longer_prompts_of_a_lane_are_its_prefill_unless_it_waits_for_memory() -> None:
    found = [
        decided(case(longer=True)).phase,
        decided(case(longer=True, ratios={Cause.PROMPT_MIX: 2.0})).phase,
        decided(case(longer=True, ratios={Cause.LOAD: 2.0})).phase,
        decided(case(longer=True, kv_full_pods=0.5)).phase,
    ]

    assert found == [Blame.PREFILL, Blame.PREFILL, Blame.QUEUE, Blame.QUEUE]


def test_where_gaps_vanish_the_first_token_was_held_back() -> None:
    """This holds for TTFT alone: vanished gaps say nothing about misses of the other objectives."""
    found = [decided(case(ratios={Cause.DECODE_COST: ratio})) for ratio in (0.24, 0.25)]
    late = decided(case(Objective.E2E, ratios={Cause.DECODE_COST: 0.1}))

    assert [(one.phase, one.collected) for one in found] == [(Blame.STREAM, True), (Blame.QUEUE, False)]
    assert late.phase is Blame.QUEUE
    assert decided(case(ratios={Cause.DECODE_COST: 0.1, Cause.PREFILL_COST: 2.0})).phase is Blame.STREAM


def test_a_faulty_engine_outranks_votes_unless_output_was_held_behind_it() -> None:
    silent = {Cause.SILENCE: 0.6}

    assert decided(case(faulty=silent)).phase is Blame.ENGINE
    assert decided(case(faulty=silent)).cause is Cause.SILENCE
    assert decided(case(faulty={Cause.SILENCE: 0.4})).phase is Blame.QUEUE
    assert decided(case(faulty=silent, votes={Blame.STREAM: 20.0, Blame.QUEUE: 10.0})).phase is Blame.STREAM


def test_a_full_cache_is_the_engines_only_where_nothing_else_has_grown() -> None:
    assert (decided(case(kv_full=1.0)).phase, decided(case(kv_full=1.0)).cause) == (Blame.ENGINE, Cause.KV)
    assert decided(case(kv_full=1.0, ratios={Cause.LOAD: 2.0})).phase is Blame.QUEUE


def test_a_new_leader_must_be_ahead_by_ten_points() -> None:
    def led(ahead: float) -> Blame:
        votes = {Blame.QUEUE: 50.0, Blame.PREFILL: 50.0 + 100 * ahead / (1 - ahead)}
        return decided(case(votes=votes), Blame.QUEUE).phase

    assert [led(LEAD * 0.6), led(LEAD * 1.5)] == [Blame.QUEUE, Blame.PREFILL]


def test_while_too_few_votes_are_split_the_engines_state_decides() -> None:
    few = {Blame.UNATTRIBUTED: 40.0, Blame.QUEUE: 4.0}
    waits = {Blame.QUEUE: 0.5, Blame.PREFILL: 0.4}

    found = decided(case(votes=few, waiting=waits))

    assert (found.phase, found.provisional) == (Blame.QUEUE, True)
    assert decided(case(votes=few)).phase is Blame.UNATTRIBUTED
    assert decided(case(Objective.TPOT, votes=few, waiting=waits)).phase is Blame.UNATTRIBUTED


def test_a_lane_that_misses_seldom_is_judged_by_half_an_hour() -> None:
    now, before = {Blame.QUEUE: 9.0}, {Blame.QUEUE: 9.0, Blame.FIRST_TOKEN: 20.0}

    phases = [
        decided(Case(objective=Objective.TTFT, misses_5m=n, misses_30m=40.0, votes_5m=now, votes_30m=before)).phase
        for n in (9.9, 10.0)
    ]

    assert phases == [Blame.FIRST_TOKEN, Blame.QUEUE]
