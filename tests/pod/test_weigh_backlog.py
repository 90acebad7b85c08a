"""The root of a miss in the backlog that a fault left: the fault, unless more has grown than the backlog explains."""

from dataclasses import replace

import pytest

from sidecar.pod.causes import Cause
from sidecar.pod.signs import Signs
from sidecar.pod.weigh import Root, root_of
from tests.pod.weighing import WAITED, leader, sharp


def test_a_backlog_that_the_open_incident_left_is_its_own_although_the_batch_is_full_now() -> None:
    """The prompts cost what they always did again; what waits now waits for a slot behind those that waited for them."""
    drains = Signs(limited=True, computes_ratio=0.1, engine_waiting=40.0)
    lead = root_of(Cause.PREFILL_COST)

    assert leader(WAITED, drains, lead) == root_of(Cause.SLOTS)
    assert leader(WAITED._replace(left_behind=True), drains, lead) == lead
    assert leader(WAITED._replace(left_behind=True), drains) == root_of(Cause.SLOTS)


def test_a_backlog_that_does_not_drain_once_the_load_is_usual_again_has_another_reason() -> None:
    """A setting leaves few slots, and in its first minute a few more requests came than usually: `load` led, and would lead for as
    long as the queue stands."""
    lead, behind = root_of(Cause.LOAD), WAITED._replace(left_behind=True)

    def full(load: float, *, stands: bool) -> Signs:
        return Signs(
            grown={Cause.LOAD: sharp(load)}, limited=True, computes_ratio=0.1, engine_waiting=40.0, stands=stands
        )

    assert leader(behind, full(1.0, stands=True), lead) == root_of(Cause.SLOTS)
    assert leader(behind, full(1.0, stands=False), lead) == lead
    assert leader(behind, full(1.5, stands=True), lead) == lead
    assert leader(behind, Signs(limited=True, stands=True), root_of(Cause.PREFILL_COST)) == root_of(Cause.PREFILL_COST)


_fewer = Signs(
    grown=dict.fromkeys((Cause.LOAD, Cause.DECODE_COST, Cause.PREFILL_COST, Cause.UNCACHED), sharp(1.0)),
    limited=True,
    fewer_slots=True,
    computes_ratio=0.1,
    engine_waiting=40.0,
)
"""The engine serves as fast as ever, with half of its slots."""


@pytest.mark.parametrize("reports", [True, False])
@pytest.mark.parametrize("tpot", [False, True])
@pytest.mark.parametrize("cause", [Cause.RESTART, Cause.DOWN])
def test_a_restart_explains_no_backlog_that_fewer_slots_keep(cause: Cause, *, reports: bool, tpot: bool) -> None:
    """The batch limit cannot be changed without a restart, which then claimed the incident for as long as the backlog stood."""
    lead, fewer = root_of(cause), replace(_fewer, reports=reports)
    behind = WAITED._replace(left_behind=True, tpot=tpot)

    assert leader(behind, fewer, lead) == root_of(Cause.SLOTS)
    assert leader(behind, replace(fewer, limited=False), lead) == root_of(Cause.SLOTS), "steps tell nothing of it yet"
    assert leader(behind, replace(fewer, fewer_slots=False), lead) == lead, "as many slots as ever work it off"
    assert leader(behind, fewer, root_of(Cause.PREFILL_COST)) == root_of(Cause.PREFILL_COST), "no process was replaced"


@pytest.mark.parametrize("lead", [None, root_of(Cause.RESTART)])
def test_a_restart_claims_only_while_all_work_of_the_new_process_costs_more(lead: Root | None) -> None:
    soon = WAITED._replace(fault=Cause.RESTART, left_behind=lead is not None)

    warm = replace(_fewer, cold=0.0)

    assert leader(soon, warm, lead) == root_of(Cause.SLOTS)
    assert leader(soon, replace(warm, cold=1.0), lead) == root_of(Cause.RESTART)
    for cause in (Cause.DECODE_COST, Cause.LOAD):
        grown = replace(warm, grown={**warm.grown, cause: sharp(2.0)})
        assert leader(soon, grown, lead) == root_of(cause), "it came with the restart, and is what holds requests up"
    for fault in (Cause.SILENCE, Cause.DOWN):
        assert leader(soon._replace(fault=fault), warm, lead) == root_of(fault), "it broke this request itself"


def test_what_a_fault_evicted_from_the_cache_is_no_cause_of_the_backlog_that_it_left() -> None:
    """Only what is lost beyond that is."""
    lead = root_of(Cause.LONGER_OUTPUTS)
    drains = WAITED._replace(left_behind=True, evicted=1.6)
    lost = Signs(grown={Cause.UNCACHED: sharp(1.5)})

    assert leader(drains, lost, lead) == lead
    assert leader(drains, Signs(grown={Cause.UNCACHED: sharp(2.5)}), lead) == root_of(Cause.UNCACHED)
    assert leader(drains._replace(evicted=None), lost, lead) == root_of(Cause.UNCACHED)


@pytest.mark.parametrize("cache_unseen", [False, True])
def test_the_cost_of_prompts_that_is_estimated_in_a_left_backlog_may_be_wrong_by_a_quarter(
    *, cache_unseen: bool
) -> None:
    """A full batch with prompts in every step is no calm time, from which the model of costs was learned."""
    lead = root_of(Cause.SLOTS)
    drains = WAITED._replace(left_behind=True, evicted=1.0)

    def costs(value: float) -> Signs:
        return Signs(grown={Cause.PREFILL_COST: sharp(value)}, limited=True, cache_unseen=cache_unseen)

    assert leader(drains, costs(1.4), lead) == lead
    assert leader(drains, costs(1.7), lead) == root_of(Cause.PREFILL_COST)
    assert leader(drains._replace(evicted=None), costs(1.4), lead) == root_of(Cause.PREFILL_COST)


@pytest.mark.parametrize("tpot", [False, True])
def test_decodes_that_are_dearer_are_named_in_any_backlog(*, tpot: bool) -> None:
    drains = WAITED._replace(left_behind=True, evicted=1.6, tpot=tpot)
    dearer = Signs(grown={Cause.DECODE_COST: sharp(1.4)}, limited=True)

    assert leader(drains, dearer, root_of(Cause.SLOTS)) == root_of(Cause.DECODE_COST)
