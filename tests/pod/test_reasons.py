"""The reasons of each cause in the life of one miss: each cause has its own, and none because the others have none."""

from dataclasses import replace

import pytest

from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import Cause, Root, root_of
from sidecar.pod.factor import Factor
from sidecar.pod.life import Facts, Failed
from sidecar.pod.reasons import Reason, grown, reasons, stated
from sidecar.pod.signs import Signs
from tests.pod.weighing import sharp


QUEUED = Facts(waited_in=Blame.QUEUE)
STOOD = Facts(tpot=True, stalled=True)
MERGED = Signs(together=Factor(3.0, 2.8, 3.2))


def with_(**ratios: float) -> Signs:
    """A pod on which these causes have clearly grown."""
    return Signs(grown={Cause(name): sharp(ratio) for name, ratio in ratios.items()})


def said(facts: Facts, signs: Signs, lead: Root | None = None) -> dict[Cause, set[Reason]]:
    """Each cause with the reasons that say something clearly."""
    found = reasons(facts, signs, lead)
    clear = {cause: {reason for reason, value in of.items() if value > 0.5} for cause, of in found.items()}
    return {cause: of for cause, of in clear.items() if of}


def test_where_nothing_is_known_no_cause_has_a_reason_not_even_load() -> None:
    for facts in (Facts(), QUEUED, Facts(tpot=True), Facts(whole=True), Facts(waited_in=Blame.PREFILL)):
        assert reasons(facts, Signs()) == {}
        assert reasons(facts, Signs(engine_waiting=9.0)) == {}, "that requests wait is no reason for it"


def test_what_has_grown_is_a_reason_for_itself_alone() -> None:
    found = said(QUEUED, with_(load=1.6, prefill_cost=1.0, decode_cost=0.9))

    assert found == {Cause.LOAD: {Reason.GROWN}}


def test_a_ratio_below_zero_by_noise_is_no_reason_and_no_error() -> None:
    assert said(QUEUED, Signs(grown={Cause.PREFILL_COST: Factor(-0.2, -0.5, 0.1)})) == {}


def test_dear_prompts_hold_up_no_first_token_while_the_engine_computes_few() -> None:
    """But they do hold up the gaps of streams that share steps with them."""
    signs = replace(with_(prefill_cost=3.0), computes_ratio=0.2)

    assert said(QUEUED, signs) == {}
    assert Cause.PREFILL_COST in said(Facts(tpot=True), signs)


def test_prompts_that_are_computed_a_second_time_are_no_dearer_ones() -> None:
    assert set(said(QUEUED, replace(with_(prefill_cost=3.0), preempts=True))) == {Cause.PREEMPTION}


def test_longer_prompts_without_room_wait_for_blocks() -> None:
    assert set(said(QUEUED, replace(with_(prompt_mix=3.0), kv_full=True))) == {Cause.KV}


def test_no_queue_is_a_reason_while_no_request_gets_output() -> None:
    signs = replace(with_(load=2.0, longer_outputs=2.0), limited=True, fewer_slots=True)

    assert set(said(QUEUED, signs)) == {Cause.LOAD, Cause.LONGER_OUTPUTS, Cause.SLOTS}
    assert said(QUEUED, replace(signs, mute=True)) == {}
    assert said(QUEUED._replace(left_behind=True), Signs(mute=True), root_of(Cause.LOAD)) == {}


def test_an_engine_that_may_hang_while_it_answers_a_request_unseen_halves_what_has_grown() -> None:
    """A slot that is known to be full, or a ledger that is closed, says that it does not hang."""
    signs, open_miss = replace(with_(load=3.0), maybe_mute=True), Facts()

    assert grown(open_miss, signs)[Cause.LOAD] == pytest.approx(0.5, abs=0.01)
    assert grown(QUEUED, signs)[Cause.LOAD] == pytest.approx(1.0, abs=0.01)
    assert grown(open_miss, replace(signs, limited=True))[Cause.LOAD] == pytest.approx(1.0, abs=0.01)


def test_a_prompt_that_the_engine_reports_as_the_wait_waited_for_no_load() -> None:
    """Other requests wait for a slot, and more of them come than usually; this one was computed all the time."""
    own, busy = Facts(waited_in=Blame.PREFILL), replace(with_(load=1.5), reports=True, limited=True)

    assert said(own, busy)[Cause.PROMPT_MIX] == {Reason.OWN_PROMPT}
    assert Cause.LOAD not in said(own, busy)
    assert said(own, with_(load=1.5)) == {Cause.LOAD: {Reason.GROWN}}, "an estimate may be a queue"
    assert said(own, replace(with_(prefill_cost=2.0), reports=True)) == {Cause.PREFILL_COST: {Reason.GROWN}}


def test_a_very_long_prompt_is_a_reason_while_the_mean_hardly_grows() -> None:
    behind = QUEUED._replace(behind_long_prompt=True)

    assert said(behind, with_(prompt_mix=1.05)) == {Cause.PROMPT_MIX: {Reason.LONG_PROMPT}}
    assert said(behind, Signs(computes_ratio=0.1)) == {}, "the engine computes few prompts"
    assert said(behind, Signs(kv_full=True)) == {Cause.KV: {Reason.KV_FULL}}


def test_slots_have_a_reason_where_fewer_requests_run_at_once_while_others_wait() -> None:
    found = said(QUEUED, Signs(fewer_slots=True, engine_waiting=3.0))

    assert found == {Cause.SLOTS: {Reason.FEWER_SLOTS}}


def test_a_full_batch_is_a_reason_where_the_work_costs_as_much_as_usually() -> None:
    """From the first miss on, and not only after a minute in which fewer requests ran at once."""
    full = replace(with_(decode_cost=1.0, prefill_cost=1.0), limited=True, engine_waiting=3.0)
    slots, kv = (reasons(QUEUED, each) for each in (full, replace(full, kv_full=True)))

    assert slots[Cause.SLOTS].keys() == {Reason.LIMITED}
    assert kv[Cause.KV].keys() == {Reason.LIMITED, Reason.KV_FULL}
    assert said(QUEUED._replace(left_behind=True), full) == {}, "what an incident left behind fills the batch"
    for dearer in (with_(decode_cost=3.0, prefill_cost=1.0), with_(decode_cost=1.0, prefill_cost=3.0)):
        assert Cause.SLOTS not in said(QUEUED, replace(dearer, limited=True))
    unknown = reasons(QUEUED, replace(full, grown={}))[Cause.SLOTS][Reason.LIMITED]
    assert unknown < slots[Cause.SLOTS][Reason.LIMITED] - 0.3, "what nothing tells may be the reason"


def test_waiting_outside_the_engine_is_the_front_end() -> None:
    assert said(Facts(waited_in=Blame.FIRST_TOKEN), Signs()) == {Cause.FRONT_END: {Reason.LEDGER}}
    assert said(Facts(), Signs(front_end=True)) == {Cause.FRONT_END: {Reason.IN_FRONT}}
    assert said(Facts(waited_in=Blame.PREFILL), Signs(front_end=True)) == {}


# --- delivery -------------------------------------------------------------------------------------------------------------


def test_held_back_output_is_the_clients_if_it_paused_and_the_hops_if_not() -> None:
    assert said(Facts(waited_in=Blame.STREAM, paused=True), Signs()) == {Cause.CLIENT: {Reason.LEDGER}}
    assert said(Facts(waited_in=Blame.STREAM), Signs()) == {Cause.HOP: {Reason.LEDGER}}


def test_while_a_ledger_is_open_a_miss_waits_as_most_others_did() -> None:
    assert said(Facts(), Signs(waited={Blame.STREAM: 0.8, Blame.QUEUE: 0.2})) == {Cause.HOP: {Reason.LEDGER}}
    assert said(Facts(), Signs(waited={Blame.FIRST_TOKEN: 0.8, Blame.QUEUE: 0.2})) == {Cause.FRONT_END: {Reason.LEDGER}}
    assert said(Facts(), Signs(waited={Blame.STREAM: 0.5, Blame.QUEUE: 0.5})) == {}


@pytest.mark.parametrize(
    ("facts", "signs"),
    [
        (Facts(whole=True), MERGED),
        (Facts(held_too_shortly=True), MERGED),
        (Facts(waited_in=Blame.PREFILL), replace(MERGED, reports=True)),
        (QUEUED, replace(MERGED, reports=True)),
        (Facts(), replace(MERGED, limited=True, engine_waiting=4.0)),
    ],
    ids=["one piece", "too short", "reported prefill", "reported queue", "waits for a slot"],
)
def test_merged_reads_are_a_reason_only_where_they_may_have_held_up_this_miss(facts: Facts, signs: Signs) -> None:
    assert said(Facts(), MERGED) == {Cause.HOP: {Reason.MERGED}}
    assert Cause.HOP not in said(facts, signs)


def test_merged_reads_get_only_what_grown_costs_leave() -> None:
    """A busy machine merges reads while prompts are dear. Costs that are estimated from held output say nothing against a hop."""
    busy = replace(MERGED, grown={Cause.PREFILL_COST: sharp(3.0)})

    assert Cause.HOP not in said(Facts(), replace(busy, reports=True))
    assert Cause.HOP not in said(Facts(tpot=True), busy)
    assert Cause.HOP in said(Facts(), busy)


@pytest.mark.parametrize("cause", [Cause.LOAD, Cause.LONGER_OUTPUTS])
def test_a_wait_behind_the_first_token_is_a_transfer_unless_a_queue_has_a_reason(cause: Cause) -> None:
    """A queue before a decode worker stands in the same place. A ratio that scatters about its usual value tells of none."""
    transferred = Facts(waited_in=Blame.DECODE, transferred=True)

    assert said(transferred, Signs()) == {Cause.KV_TRANSFER: {Reason.TRANSFERRED}}
    assert set(said(transferred, with_(**{cause: 2.0}))) == {cause}
    assert Cause.KV_TRANSFER in said(transferred, Signs(grown={cause: Factor(1.2, 1.0, 1.44)}))
    assert said(transferred, Signs(young=True)) == {}, "such a pause may be normal here"
    assert set(said(transferred._replace(waited_in=Blame.STREAM), Signs())) == {Cause.HOP}


# --- faults ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        (Facts(failed=Failed.ERROR), Cause.ERRORS),
        (Facts(failed=Failed.ERROR, fault=Cause.DOWN), Cause.DOWN),
        (Facts(failed=Failed.UNREACHABLE), Cause.DOWN),
        (Facts(failed=Failed.SIDECAR), Cause.SIDECAR_BUDGET),
        (Facts(turned_away=True), Cause.REJECTED),
        (Facts(turned_away=True, fault=Cause.RESTART), None),
        (Facts(), None),
    ],
)
def test_some_answers_state_the_cause_themselves(facts: Facts, cause: Cause | None) -> None:
    assert stated(facts) is cause


def test_a_restart_is_a_reason_only_while_all_work_costs_more() -> None:
    """One cost, an empty cache or fewer slots alone are what changed with it. Who is turned away meanwhile met the new process."""
    restarted = QUEUED._replace(fault=Cause.RESTART)

    assert said(restarted, Signs(cold=1.0)) == {Cause.RESTART: {Reason.COLD}}
    assert said(restarted, Signs(cold=0.0)) == {}
    assert said(restarted._replace(turned_away=True), Signs(cold=1.0)) == {Cause.RESTART: {Reason.COLD}}
    assert said(restarted._replace(turned_away=True), Signs(cold=0.0)) == {Cause.REJECTED: {Reason.FAULT}}


def test_a_fault_that_overlaps_its_life_is_a_reason() -> None:
    assert said(QUEUED._replace(fault=Cause.SILENCE), Signs()) == {Cause.SILENCE: {Reason.FAULT}}


def test_a_stream_that_stood_still_is_a_silence_unless_prompts_explain_it() -> None:
    """An engine that computes a prompt in one step gives no stream a token meanwhile. That explains none that stood still alone."""
    for explained in (STOOD._replace(explained=True), STOOD._replace(behind_long_prompt=True)):
        assert Cause.SILENCE not in said(explained, Signs())
        assert said(explained._replace(alone=True), Signs())[Cause.SILENCE] == {Reason.STOOD}
    assert said(STOOD, Signs()) == {Cause.SILENCE: {Reason.STOOD}}


def test_a_stream_that_was_preempted_stands_still_while_others_go_on() -> None:
    """If all stand still, that one lost its blocks explains nothing."""
    assert said(STOOD._replace(alone=True), Signs(preempted=True)) == {Cause.PREEMPTION: {Reason.STOOD}}
    assert said(STOOD, Signs(preempted=True)) == {Cause.SILENCE: {Reason.STOOD}}


# --- what a fault brings with it ----------------------------------------------------------------------------------------


def test_what_is_not_cached_of_prompts_that_came_on_top_is_load() -> None:
    """Half of the load on top, and nothing of it cached: 1 of 4 uncached becomes 1.5 times 2 of 4. Beyond that it is a lost cache."""
    assert said(QUEUED, with_(load=1.5, uncached=2.0)) == {Cause.LOAD: {Reason.GROWN}}
    assert Cause.UNCACHED in said(QUEUED, with_(load=1.0, uncached=2.0))
    assert Cause.UNCACHED in said(QUEUED, with_(load=1.1, uncached=3.5))


def test_prompts_that_came_on_top_are_no_dearer_where_no_cache_is_seen() -> None:
    unseen = replace(with_(load=1.5, prefill_cost=1.8), cache_unseen=True)

    assert Cause.PREFILL_COST not in said(QUEUED, unseen)
    assert Cause.PREFILL_COST in said(QUEUED, replace(unseen, cache_unseen=False))


def test_what_a_fault_evicted_from_the_cache_is_no_cause_of_the_backlog_that_it_left() -> None:
    behind = QUEUED._replace(left_behind=True, evicted=3.0)

    assert Cause.UNCACHED not in said(behind, with_(uncached=2.5))
    assert Cause.UNCACHED in said(behind, with_(uncached=6.0))
    assert Cause.PREFILL_COST not in said(behind, with_(prefill_cost=1.3)), (
        "estimated from steps as calm times never have"
    )
    assert Cause.PREFILL_COST in said(behind, with_(prefill_cost=2.0))


# --- the open incident --------------------------------------------------------------------------------------------------


def test_a_lead_is_no_reason_by_itself() -> None:
    """It leads on where it has a reason in this miss, and explains the backlog that it left behind."""
    lead = root_of(Cause.PREFILL_COST)

    assert said(QUEUED, Signs(), lead) == {}
    assert Reason.LEADS in said(QUEUED, with_(prefill_cost=2.0), lead)[Cause.PREFILL_COST]
    assert said(QUEUED._replace(left_behind=True), Signs(), lead) == {Cause.PREFILL_COST: {Reason.BACKLOG}}


def test_who_was_let_in_does_not_inherit_that_others_were_rejected() -> None:
    assert said(QUEUED._replace(left_behind=True), Signs(), root_of(Cause.REJECTED)) == {}
