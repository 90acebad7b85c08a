"""The root of one miss: what the request shows, then what its pod shows, then what has grown most."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import ROOTS, Cause, Unknown
from sidecar.pod.factor import Factor, chance, chance_grown
from sidecar.pod.signs import Fault, Signs
from sidecar.pod.weigh import WAITS, WORTH_NAMING, Facts, Failed, Root, has_grown, root_of, unknown, weigh
from tests.pod.weighing import WAITED, leader, sharp


_factors = st.builds(
    lambda value, spread: Factor(value, value / spread, value * spread), st.floats(0.05, 50.0), st.floats(1.01, 4.0)
)
_ratio_causes = (
    Cause.LOAD,
    Cause.PROMPT_MIX,
    Cause.UNCACHED,
    Cause.LONGER_OUTPUTS,
    Cause.PREFILL_COST,
    Cause.DECODE_COST,
)
_signs = st.builds(
    Signs,
    grown=st.dictionaries(st.sampled_from(_ratio_causes), _factors),
    together=st.none() | _factors,
    kv_full=st.booleans(),
    preempts=st.booleans(),
    preempted=st.booleans(),
    front_end=st.booleans(),
    waited=st.dictionaries(st.sampled_from(Blame), st.floats(0.0, 1.0)),
    engine_waiting=st.none() | st.floats(0.0, 100.0),
    decode_share=st.none() | st.floats(0.0, 1.0),
    paced=st.booleans(),
    reports=st.booleans(),
    limited=st.booleans(),
    fewer_slots=st.booleans(),
    mute=st.booleans(),
    maybe_mute=st.booleans(),
    costs_unseen=st.integers(0, 2),
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


@given(_facts, _signs, _lead)
def test_the_weights_of_a_miss_add_up_to_one_and_are_of_the_closed_table(
    facts: Facts, signs: Signs, lead: Root | None
) -> None:
    found = weigh(facts, signs, lead).weights
    assert sum(found.values()) == pytest.approx(1.0)
    assert all(weight >= 0.0 for weight in found.values())
    assert set(found) <= set(ROOTS)


@pytest.mark.parametrize("cause", _ratio_causes)
def test_what_has_grown_alone_is_the_root(cause: Cause) -> None:
    signs = Signs(grown={each: sharp(1.0) for each in _ratio_causes} | {cause: sharp(2.0)})
    assert leader(WAITED, signs) == root_of(cause)


def test_of_two_that_have_grown_the_larger_one_is_the_root() -> None:
    signs = Signs(grown={Cause.LOAD: sharp(1.3), Cause.PREFILL_COST: sharp(2.6)})
    assert leader(WAITED, signs) == root_of(Cause.PREFILL_COST)


def test_a_full_batch_of_longer_answers_is_no_dear_decode_on_a_machine_that_is_a_little_slower() -> None:
    """As on a real vLLM whose slots long answers took, beside a neighbour on its machine."""
    found = weigh(WAITED, Signs(grown={Cause.DECODE_COST: sharp(1.4), Cause.LONGER_OUTPUTS: sharp(3.0)}, limited=True))

    assert found.weights[root_of(Cause.LONGER_OUTPUTS)] > 0.85


@pytest.mark.parametrize(("decode_share", "root"), [(0.95, Cause.DECODE_COST), (0.2, Cause.PREFILL_COST)])
def test_where_all_work_is_dearer_the_root_is_the_cost_that_adds_most_seconds(decode_share: float, root: Cause) -> None:
    """A slower clock makes both dearer by the same factor, and estimates of it differ by chance."""
    grown = {Cause.DECODE_COST: sharp(2.6), Cause.PREFILL_COST: sharp(3.4)}
    if root is Cause.PREFILL_COST:
        grown = {Cause.DECODE_COST: sharp(3.4), Cause.PREFILL_COST: sharp(2.6)}

    found = weigh(Facts(waited_in=Blame.DECODE, tpot=True), Signs(grown=grown, decode_share=decode_share)).weights

    assert found[root_of(root)] > 0.6


def test_a_cost_that_is_as_usual_gets_nothing_for_the_seconds_that_it_takes() -> None:
    grown = {Cause.DECODE_COST: sharp(1.0), Cause.PREFILL_COST: sharp(2.0)}

    found = weigh(Facts(waited_in=Blame.DECODE, tpot=True), Signs(grown=grown, decode_share=0.99)).weights

    assert found[root_of(Cause.PREFILL_COST)] > 0.95


def test_an_interval_that_covers_the_threshold_decides_nothing() -> None:
    """Prefill costs 1.3 times its usual value, or anything from 0.4 to 4.2 times: that is no evidence."""
    vague = Signs(grown={Cause.PREFILL_COST: Factor(1.3, 0.4, 4.2)})
    found = weigh(WAITED, vague).weights
    assert max(share for root, share in found.items() if root.phase != Blame.UNATTRIBUTED) < 0.25


def test_where_requests_wait_and_nothing_is_dearer_a_limit_that_shows_is_the_root() -> None:
    calm = {each: sharp(1.0) for each in _ratio_causes}
    assert leader(WAITED, Signs(grown=calm, engine_waiting=5.0)) == root_of(Cause.SLOTS)
    assert leader(WAITED, Signs(grown=calm, kv_full=True)) == root_of(Cause.KV)
    assert leader(WAITED, Signs(grown=calm, preempts=True)) == root_of(Cause.PREEMPTION)


def test_a_queue_without_a_cause_is_one_only_as_far_as_the_engines_costs_are_known() -> None:
    """Dearer prompts and dearer decodes make requests wait as a queue does: where nothing tells the costs, it is a guess."""

    vague = {Cause.LOAD: Factor(1.25, 1.1, 1.42)}
    grown = chance_grown(vague[Cause.LOAD], WORTH_NAMING[Cause.LOAD])

    def queue(unseen: int, lead: Root | None = None, facts: Facts = WAITED) -> float:
        """The share of what the growth itself does not explain."""
        found = weigh(facts, Signs(grown=vague, costs_unseen=unseen), lead).weights
        return (found[root_of(Cause.LOAD)] - grown) / (1.0 - grown)

    assert queue(0) == pytest.approx(0.9)
    assert queue(1) == pytest.approx(0.9 / 2)
    assert queue(2) == pytest.approx(0.9 / 3)
    assert queue(2, root_of(Cause.LOAD)) == pytest.approx(0.9 / 3), "a guess that leads is a guess"
    assert queue(2, root_of(Cause.LOAD), WAITED._replace(left_behind=True)) == pytest.approx(0.9)


@pytest.mark.parametrize("waited_in", [Blame.QUEUE, Blame.DECODE, None])
@pytest.mark.parametrize(
    "load", [Factor(0.96, 0.69, 1.32), Factor(1.3, 0.8, 2.1), sharp(1.0), sharp(0.5), sharp(1.1), None]
)
@pytest.mark.parametrize("reports", [True, False])
def test_where_load_has_not_grown_and_nothing_is_limited_no_queue_is_named(
    waited_in: Blame | None, load: Factor | None, *, reports: bool
) -> None:
    """A load of 0.96, between 0.69 and 1.32, was told as load at 0.9. Such a request waited for something unknown."""
    grown = {} if load is None else {Cause.LOAD: load}
    calm = Signs(grown={Cause.DECODE_COST: sharp(1.0), **grown}, reports=reports)

    for facts in (Facts(waited_in=waited_in), Facts(waited_in=waited_in, tpot=True)):
        found = weigh(facts, calm).weights
        assert found[unknown(Unknown.UNCLEAR)] > 0.5
        assert sum(weight for root, weight in found.items() if root.phase == Blame.QUEUE) < 0.25
    assert leader(WAITED, replace(calm, limited=True)) == root_of(Cause.SLOTS)
    assert leader(WAITED, replace(calm, grown={Cause.LOAD: sharp(1.3)})) == root_of(Cause.LOAD)


def test_a_prompt_that_took_the_time_is_a_long_one_only_as_far_as_the_engines_costs_are_known() -> None:
    own, known = Facts(waited_in=Blame.PREFILL), Signs(grown={Cause.LOAD: sharp(1.0)})

    assert weigh(own, known).weights[root_of(Cause.PROMPT_MIX)] == pytest.approx(0.7)
    assert weigh(own, replace(known, costs_unseen=2)).weights[root_of(Cause.PROMPT_MIX)] == pytest.approx(0.7 / 3)


def test_longer_prompts_that_the_cache_has_no_room_for_are_a_lack_of_kv_blocks() -> None:
    longer = {Cause.PROMPT_MIX: sharp(2.0)}
    assert leader(WAITED, Signs(grown=longer)) == root_of(Cause.PROMPT_MIX)
    assert leader(WAITED, Signs(grown=longer, kv_full=True)) == root_of(Cause.KV)


def test_a_request_that_the_engine_failed_is_the_engines() -> None:
    dear = Signs(grown={Cause.PREFILL_COST: sharp(5.0)})
    assert leader(Facts(failed=Failed.ERROR), dear) == root_of(Cause.ERRORS)
    assert leader(Facts(failed=Failed.UNREACHABLE), dear) == root_of(Cause.DOWN)
    assert leader(Facts(failed=Failed.ERROR, fault=Cause.DOWN), dear) == root_of(Cause.DOWN)


def test_a_request_that_the_sidecar_failed_is_the_sidecars() -> None:
    assert weigh(Facts(failed=Failed.SIDECAR, fault=Cause.DOWN), Signs()).weights == {
        root_of(Cause.SIDECAR_BUDGET): 1.0
    }


def test_a_fault_of_the_engine_in_its_life_is_the_root() -> None:
    assert leader(Facts(fault=Cause.SILENCE), Signs()) == root_of(Cause.SILENCE)


def test_a_sidecar_that_was_late_blames_itself_and_no_other() -> None:
    dear = {Cause.PREFILL_COST: sharp(5.0)}
    assert leader(WAITED._replace(late_ratio=0.5), Signs(grown=dear)) == root_of(Cause.SIDECAR_LATE)
    assert leader(WAITED._replace(late_ratio=0.02), Signs(grown=dear)) == root_of(Cause.PREFILL_COST)


def test_held_output_is_the_clients_if_it_paused_and_else_a_hops() -> None:
    assert leader(Facts(waited_in=Blame.STREAM, paused=True), Signs()) == root_of(Cause.CLIENT)
    assert leader(Facts(waited_in=Blame.STREAM), Signs()) == root_of(Cause.HOP)
    assert leader(Facts(), Signs(together=sharp(4.0))) == root_of(Cause.HOP)


def test_an_answer_that_waited_for_its_kv_cache_is_a_transfers_unless_its_client_held_it() -> None:
    transferred = Facts(waited_in=Blame.DECODE, tpot=True, transferred=True)

    assert leader(transferred, Signs()) == root_of(Cause.KV_TRANSFER)
    assert leader(transferred._replace(waited_in=Blame.STREAM), Signs()) != root_of(Cause.KV_TRANSFER)
    assert leader(transferred, Signs(young=True)) == unknown(Unknown.YOUNG), "it may be usual here"


@pytest.mark.parametrize("cause", [Cause.LOAD, Cause.LONGER_OUTPUTS])
def test_an_answer_that_waited_after_its_first_token_waited_in_a_queue_if_one_has_a_reason(cause: Cause) -> None:
    """Before a decode worker that has too much to do, as many requests wait as for a slow transfer."""
    waited = Facts(tpot=True, transferred=True)

    assert leader(waited, Signs(grown={cause: sharp(3.0)})) == root_of(cause)
    assert leader(waited, Signs(grown={cause: sharp(1.0)})) == root_of(Cause.KV_TRANSFER)


@pytest.mark.parametrize("scattered", [Factor(1.0, 0.7, 1.4), Factor(1.2, 0.8, 1.8)])
def test_a_load_that_scatters_takes_nothing_from_a_slow_transfer(scattered: Factor) -> None:
    """Ten requests a minute: their number tells neither that load has grown nor that it has not."""
    signs = Signs(grown={Cause.LOAD: scattered, Cause.LONGER_OUTPUTS: scattered})
    found = weigh(Facts(tpot=True, transferred=True), signs).weights

    assert found[root_of(Cause.KV_TRANSFER)] == pytest.approx(WAITS)


def test_waiting_outside_the_engine_is_the_front_end() -> None:
    assert leader(Facts(waited_in=Blame.FIRST_TOKEN), Signs()) == root_of(Cause.FRONT_END)
    assert leader(Facts(), Signs(front_end=True)) == root_of(Cause.FRONT_END)
    # A request that has no ledger yet is taken to wait as the others did.
    assert leader(Facts(), Signs(waited={Blame.FIRST_TOKEN: 0.9, Blame.QUEUE: 0.1})) == root_of(Cause.FRONT_END)


def test_without_a_usual_value_the_reason_is_that_the_process_is_young() -> None:
    assert leader(WAITED, Signs(young=True)) == unknown(Unknown.YOUNG)
    assert leader(WAITED, Signs(young=True, kv_full=True)) == root_of(Cause.KV)
    assert leader(Facts(failed=Failed.ERROR), Signs(young=True)) == root_of(Cause.ERRORS)


def test_what_is_not_decided_belongs_to_the_open_incident() -> None:
    """After a hang, requests that came later wait behind those that it held: nothing has grown on the pod."""
    hang = root_of(Cause.SILENCE)
    assert leader(WAITED, Signs(grown={Cause.LOAD: sharp(1.0)}), hang) == hang
    assert leader(WAITED, Signs(grown={Cause.LOAD: sharp(3.0)}), hang) == root_of(Cause.LOAD)


def test_a_fault_claims_only_a_life_that_it_overlaps() -> None:
    fault = Fault(Cause.RESTART, 100.0, 160.0)
    assert fault.overlaps(90.0, 101.0)
    assert fault.overlaps(159.0, 170.0)
    assert not fault.overlaps(161.0, 170.0)
    assert not fault.overlaps(50.0, 99.0)
    assert Fault(Cause.DOWN, 100.0, inf).overlaps(1e9, 1e9 + 1)


def test_the_chance_of_a_ratio_is_a_half_at_the_threshold() -> None:
    assert chance(sharp(1.2), 1.2) == pytest.approx(0.5)
    assert chance(sharp(2.0), 1.2) > 0.999
    assert chance(sharp(1.0), 1.2) < 0.001


def test_a_prompt_that_takes_the_threshold_by_itself_is_the_prompt_mix() -> None:
    """A new lane sends prompts of 3,600 tokens for a threshold of 0.25 s: nothing waits, and nothing has grown."""
    calm = Signs(grown={Cause.LOAD: sharp(1.0)})
    assert leader(Facts(waited_in=Blame.PREFILL), calm) == root_of(Cause.PROMPT_MIX)
    assert leader(Facts(waited_in=Blame.PREFILL), Signs(grown={Cause.LOAD: sharp(2.0)})) == root_of(Cause.LOAD)


def test_a_prompt_that_the_engine_reports_as_the_wait_waited_for_no_load() -> None:
    """Other requests wait for a slot, and more of them come than usually; this one was computed all the time."""
    signs = Signs(grown={Cause.LOAD: sharp(1.5)}, reports=True, limited=True, computes_ratio=0.1, engine_waiting=3.0)

    own = weigh(Facts(waited_in=Blame.PREFILL), signs).weights

    assert own[root_of(Cause.PROMPT_MIX)] >= 0.7
    assert leader(WAITED, signs) == root_of(Cause.LOAD)


def test_a_prefill_that_is_only_estimated_may_be_a_queue() -> None:
    signs = Signs(grown={Cause.LOAD: sharp(1.5)}, computes_ratio=0.1)

    assert leader(Facts(waited_in=Blame.PREFILL), signs) == root_of(Cause.LOAD)


def test_a_cause_has_grown_from_where_it_is_worth_naming() -> None:
    """A limit has no usual value to grow from."""
    signs = Signs(grown={Cause.LOAD: sharp(1.2), Cause.PREFILL_COST: sharp(1.1)})

    assert [has_grown(root_of(cause), signs) for cause in (Cause.LOAD, Cause.PREFILL_COST)] == [True, False]
    assert [has_grown(root_of(cause), signs) for cause in (Cause.SLOTS, Cause.DECODE_COST)] == [None, None]


def test_whether_a_cost_has_grown_is_unknown_where_only_one_of_two_fits_says_so() -> None:
    """Decodes led an incident, and longer answers come: that decodes cost the usual by one fit does not say that their fault is over."""
    known = Signs(grown={Cause.DECODE_COST: sharp(1.0)})
    unsure = replace(known, unsure=frozenset({Cause.DECODE_COST}))
    surely = Signs(grown={Cause.DECODE_COST: sharp(2.0)}, unsure=unsure.unsure)

    assert [has_grown(root_of(Cause.DECODE_COST), signs) for signs in (known, unsure, surely)] == [False, None, True]


def test_behind_a_long_prompt_long_gaps_are_no_dearer_decode() -> None:
    signs = Signs(grown={Cause.DECODE_COST: sharp(1.6)}, paced=True)

    assert leader(WAITED._replace(behind_long_prompt=True), signs) == root_of(Cause.PROMPT_MIX)
    assert leader(WAITED._replace(behind_long_prompt=True), Signs(grown=signs.grown)) == root_of(Cause.DECODE_COST)
    assert leader(WAITED, signs) == root_of(Cause.DECODE_COST)


def test_a_ratio_below_zero_by_noise_is_no_evidence_and_no_error() -> None:
    assert chance(Factor(-0.026, -0.031, -0.021), 1.2) == 0.0
    assert leader(WAITED, Signs(grown={Cause.PREFILL_COST: Factor(-0.026, -0.031, -0.021)})) == unknown(Unknown.UNCLEAR)


def test_what_a_miss_inherits_from_the_incident_is_told_apart() -> None:
    found = weigh(WAITED, Signs(), root_of(Cause.RESTART))
    assert found.weights[root_of(Cause.RESTART)] == pytest.approx(found.inherited)
    assert weigh(WAITED, Signs(), None).inherited == 0.0


@pytest.mark.parametrize("cause", _ratio_causes)
@pytest.mark.parametrize("reports", [True, False])
def test_reads_that_hold_more_events_get_only_what_has_not_grown(cause: Cause, *, reports: bool) -> None:
    """Prompts cost three times as much, and on the busy machine three events come in each read: no hop broke anything."""
    busy = Signs(grown={cause: sharp(3.0)}, together=sharp(3.0), reports=reports)

    for facts in (Facts(), WAITED, Facts(tpot=True), Facts(waited_in=Blame.DECODE, tpot=True)):
        found = weigh(facts._replace(held_too_shortly=not reports), busy).weights
        assert found[root_of(cause)] > 0.95
    alone = weigh(Facts(), replace(busy, grown={cause: sharp(1.0)})).weights
    assert alone[root_of(Cause.HOP)] == pytest.approx(WAITS), "the whole pod's reads are no evidence of one miss"


def test_a_pace_that_dear_decodes_explain_is_no_delivery() -> None:
    """Each read holds three tokens of 20 ms, longer than any threshold of a pace: that says nothing of what made the pace slow."""
    busy = Signs(grown={Cause.DECODE_COST: sharp(3.0)}, together=sharp(3.0), reports=False)

    assert leader(Facts(waited_in=Blame.DECODE, tpot=True), busy) == root_of(Cause.DECODE_COST)
    usual = replace(busy, grown={Cause.DECODE_COST: sharp(1.0)})
    assert leader(Facts(waited_in=Blame.DECODE, tpot=True), usual) == root_of(Cause.HOP)


@pytest.mark.parametrize("reports", [True, False])
def test_reads_that_collect_for_a_small_part_of_the_threshold_explain_no_miss(*, reports: bool) -> None:
    """Four tokens of 20 ms in each read hold none back for longer than 60 ms."""
    merged = Signs(grown={Cause.LOAD: sharp(1.0)}, together=sharp(4.0), reports=reports)

    assert leader(Facts(), merged) == root_of(Cause.HOP)
    for lead in (None, root_of(Cause.HOP)):
        assert leader(Facts(held_too_shortly=True), merged, lead) == unknown(Unknown.UNCLEAR)


def test_who_waits_for_a_place_by_the_engines_own_words_waits_for_no_merged_reads() -> None:
    """It reports no phases, and says how many requests wait in it. The pace of those that run is another matter."""
    full = Signs(grown={Cause.LOAD: sharp(1.0)}, together=sharp(4.0), limited=True, engine_waiting=5.0)

    assert leader(Facts(), full) == leader(WAITED, full) == root_of(Cause.SLOTS)
    assert leader(Facts(tpot=True), full) == root_of(Cause.HOP)
    for unsure in (replace(full, engine_waiting=None), replace(full, limited=False)):
        assert leader(Facts(), unsure) == root_of(Cause.HOP)


@pytest.mark.parametrize("cause", [Cause.PREFILL_COST, Cause.DECODE_COST])
def test_costs_that_are_estimated_from_held_output_are_no_evidence_against_a_hop(cause: Cause) -> None:
    """Without reports, a first token that a hop holds back for a second looks like a prompt that took so long."""
    held = Signs(grown={cause: sharp(3.0)}, together=sharp(30.0))

    assert leader(Facts(), held) == root_of(Cause.HOP)
    assert leader(Facts(), replace(held, reports=True)) == root_of(cause), "the engine says what it took"


@pytest.mark.parametrize("lead", [None, root_of(Cause.HOP), root_of(Cause.CLIENT)])
def test_a_report_that_a_request_waited_before_its_output_leaves_nothing_to_merged_reads(lead: Root | None) -> None:
    """Neither does what other misses waited in, until its own ledger is closed, nor a hop that leads the incident."""
    merged = Signs(together=sharp(3.0), reports=True)

    def stream(facts: Facts, signs: Signs) -> float:
        return sum(weight for root, weight in weigh(facts, signs, lead).weights.items() if root.phase == Blame.STREAM)

    for phase in (Blame.QUEUE, Blame.PREFILL):
        assert stream(Facts(waited_in=phase), merged) == 0.0
        assert stream(Facts(), replace(merged, waited={phase: 0.9})) == 0.0
        assert stream(Facts(waited_in=phase), replace(merged, reports=False)) > 0.85, "only a guess at its prefill"
    assert stream(Facts(waited_in=Blame.DECODE, tpot=True), merged) > 0.85


@pytest.mark.parametrize("lead", [None, root_of(Cause.HOP)])
@pytest.mark.parametrize("reports", [True, False])
def test_an_answer_in_one_piece_has_no_merged_reads(lead: Root | None, *, reports: bool) -> None:
    merged = Signs(together=sharp(9.0), reports=reports)

    assert leader(Facts(whole=True), merged, lead) == unknown(Unknown.UNCLEAR)
    assert leader(Facts(), merged, lead) == root_of(Cause.HOP)


@pytest.mark.parametrize(
    "signs",
    [
        Signs(grown={Cause.LOAD: sharp(1.0)}),
        Signs(kv_full=True),
        Signs(grown={Cause.LOAD: sharp(3.0)}),
        Signs(young=True),
    ],
)
def test_who_is_turned_away_was_rejected_whatever_grew(signs: Signs) -> None:
    """It waited for nothing, and its clients' tries are arrivals: load that has grown may come of it."""
    assert leader(Facts(turned_away=True), signs) == root_of(Cause.REJECTED)


def test_who_is_turned_away_while_the_engine_restarts_met_the_restart() -> None:
    assert leader(Facts(turned_away=True, fault=Cause.RESTART), Signs()) == root_of(Cause.RESTART)


def test_an_incident_of_prompts_explains_no_wait_while_few_prompts_are_computed() -> None:
    """Longer prompts took the lead while they were computed. Then the cache is full, and decodes run alone."""
    longer = root_of(Cause.PROMPT_MIX)
    assert leader(WAITED, Signs(computes_ratio=0.9), longer) == longer
    assert leader(WAITED, Signs(computes_ratio=0.6), longer) == unknown(Unknown.UNCLEAR)
    assert weigh(WAITED, Signs(computes_ratio=0.6), longer).inherited == 0.0
    # A hang needs no prompts.
    assert leader(WAITED, Signs(computes_ratio=0.6), root_of(Cause.SILENCE)) == root_of(Cause.SILENCE)


def test_where_all_work_is_dearer_the_costs_that_were_measured_are_named() -> None:
    """A slower clock, or a neighbour on the GPU: that a new process would look alike is no reason to name nothing."""
    both = {Cause.DECODE_COST: sharp(1.8), Cause.PREFILL_COST: sharp(1.84)}
    weights = weigh(WAITED, Signs(grown=both, decode_share=0.5)).weights

    assert weights[root_of(Cause.DECODE_COST)] + weights[root_of(Cause.PREFILL_COST)] > 0.95
    assert leader(WAITED, Signs(grown=both, decode_share=0.8)) == root_of(Cause.DECODE_COST)
    assert leader(WAITED, Signs(grown=both, decode_share=0.2)) == root_of(Cause.PREFILL_COST)


def test_sessions_that_a_scale_in_brings_are_load_although_their_prompts_are_not_cached_here() -> None:
    """Half as many requests more, and twice the usual share of their prompt tokens has to be computed. A cache that is lost without them, or beyond
    what they explain, is the cause.
    """
    came = {Cause.LOAD: sharp(1.5), Cause.UNCACHED: sharp(1.9)}

    assert leader(WAITED, Signs(grown=came)) == root_of(Cause.LOAD)
    assert leader(WAITED, Signs(grown=came | {Cause.LOAD: sharp(1.0)})) == root_of(Cause.UNCACHED)
    assert leader(WAITED, Signs(grown=came | {Cause.UNCACHED: sharp(4.0)})) == root_of(Cause.UNCACHED)
    by_chance = came | {Cause.LOAD: Factor(1.3, 0.8, 2.1)}
    assert leader(WAITED, Signs(grown=by_chance)) == root_of(Cause.UNCACHED), (
        "a load that may be chance explains nothing"
    )


def test_load_and_what_it_does_not_explain_share_by_what_is_left() -> None:
    """Three times the usual share is uncached, and half of that follows from the load: neither is the larger one."""
    both = {Cause.LOAD: sharp(1.5), Cause.UNCACHED: sharp(3.0)}
    weights = weigh(WAITED, Signs(grown=both)).weights

    assert weights[root_of(Cause.LOAD)] == pytest.approx(weights[root_of(Cause.UNCACHED)], rel=0.2)


def test_prompts_that_came_on_top_may_be_less_cached_and_are_then_no_dearer() -> None:
    """Twice the requests, and prompts seem to cost twice as much: without a cache to see, the load is what is known."""
    both = {Cause.LOAD: sharp(1.5), Cause.PREFILL_COST: sharp(2.0)}
    assert leader(WAITED, Signs(grown=both, cache_unseen=True)) == root_of(Cause.LOAD)
    assert leader(WAITED, Signs(grown=both)) == root_of(Cause.PREFILL_COST)
    assert leader(WAITED, Signs(grown={Cause.PREFILL_COST: sharp(2.0)}, cache_unseen=True)) == root_of(
        Cause.PREFILL_COST
    )


def test_a_little_load_hides_no_prompts_that_cost_much_more() -> None:
    """Clients that ask again raise the load while prompts are slow: 1.3 times as many cost at most 1.7 times as much."""
    grown = {Cause.LOAD: sharp(1.3), Cause.PREFILL_COST: sharp(3.0)}

    assert leader(WAITED, Signs(grown=grown, cache_unseen=True)) == root_of(Cause.PREFILL_COST)


def test_where_no_request_gets_output_the_wait_is_no_usual_queue() -> None:
    """Before a hang shows, because an answer that is not streamed excuses it, nothing tells it from hidden work."""
    assert leader(WAITED, Signs(mute=True)) == unknown(Unknown.UNCLEAR)
    assert leader(Facts(fault=Cause.SILENCE), Signs(mute=True)) == root_of(Cause.SILENCE)
    assert leader(WAITED, Signs(mute=True, grown={Cause.LOAD: sharp(3.0)})) == unknown(Unknown.UNCLEAR)
    assert leader(WAITED, Signs(mute=True), root_of(Cause.LOAD)) == unknown(Unknown.UNCLEAR)
    assert leader(WAITED, Signs(mute=True, grown={Cause.PROMPT_MIX: sharp(3.0)})) == root_of(Cause.PROMPT_MIX)
    assert leader(WAITED, Signs(mute=True), root_of(Cause.PREFILL_COST)) == root_of(Cause.PREFILL_COST)


def test_an_engine_that_may_hang_while_it_answers_a_request_unseen_halves_what_has_grown() -> None:
    dearer = {Cause.PREFILL_COST: sharp(2.0)}

    found = weigh(Facts(), Signs(maybe_mute=True, grown=dearer)).weights
    assert found[root_of(Cause.PREFILL_COST)] == pytest.approx(0.5, abs=0.01)
    assert found[unknown(Unknown.UNCLEAR)] == pytest.approx(0.5, abs=0.01)

    front = weigh(Facts(), Signs(maybe_mute=True, front_end=True)).weights
    assert front[root_of(Cause.FRONT_END)] == pytest.approx(0.45, abs=0.01)

    full = weigh(Facts(), Signs(maybe_mute=True, limited=True)).weights
    assert full[root_of(Cause.SLOTS)] == pytest.approx(0.9), "it runs as many requests as it can: that is known"

    for answered in (WAITED, Facts(tpot=True)):
        assert weigh(answered, Signs(maybe_mute=True, grown=dearer)).weights[root_of(Cause.PREFILL_COST)] > 0.99


def test_who_was_let_in_does_not_inherit_that_others_were_rejected() -> None:
    waited = weigh(Facts(waited_in=Blame.QUEUE), Signs(), root_of(Cause.REJECTED))

    assert root_of(Cause.REJECTED) not in waited.weights
