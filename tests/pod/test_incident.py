"""An incident is open while objectives burn, and changes its lead only for good reason."""

from math import ceil, exp

import pytest

from sidecar.pod.causes import Cause, Unknown, root_of, unknown
from sidecar.pod.incident import (
    FEWEST_VOTES,
    LEFT_SECONDS,
    STANDS_SECONDS,
    TAKES_OVER,
    VOTES_SECONDS,
    Incident,
)


QUEUE, PREFILL = root_of(Cause.LOAD), root_of(Cause.PREFILL_COST)


def voted(incident: Incident, root: tuple[str, str], since: int, until: int, each_second: float = 1.0) -> None:
    for second in range(since, until):
        incident.voted({root: each_second}, float(second))  # type: ignore[dict-item]
        incident.tick(float(second), burning=True)


def test_it_began_with_the_oldest_miss_of_the_minute_before_it_was_noticed() -> None:
    incident = Incident()
    incident.missed(5.0)
    for second in range(100, 110):
        incident.missed(float(second))
    incident.tick(112.0, burning=True)
    assert incident.began_at == 100.0
    incident.tick(200.0, burning=True)
    assert incident.began_at == 100.0
    incident.tick(201.0, burning=False)
    assert incident.began_at is None
    assert incident.lead is None


def test_a_lead_needs_three_votes_and_no_vote_for_an_unknown_root() -> None:
    incident = Incident()
    voted(incident, unknown(Unknown.UNCLEAR), 0, 20)
    assert incident.lead is None
    voted(incident, QUEUE, 20, 22)
    assert incident.lead is None
    voted(incident, QUEUE, 22, 25)
    assert incident.lead == QUEUE


def test_the_confidence_is_the_share_of_the_recent_misses_when_one_last_showed_the_root() -> None:
    """Every second miss shows nothing; then misses inherit the root for five minutes, and tell nothing new of it."""
    incident = Incident()
    for second in range(240):
        incident.voted({PREFILL: 1.0}, second + 0.0)
        incident.voted({unknown(Unknown.UNCLEAR): 1.0}, second + 0.5)
        incident.tick(second + 0.5, burning=True)
    shown = incident.shown
    for second in range(240, 540):
        incident.voted({PREFILL: 1.0}, float(second), own={}, behind=True)
        incident.tick(float(second), burning=True)

    assert shown is not None
    assert shown.at == 239.0
    assert shown.confidence == pytest.approx(0.5, abs=0.02)
    assert (incident.root, incident.shown) == (PREFILL, shown)
    incident.tick(540.0, burning=False)
    assert incident.shown is None


def test_misses_that_are_too_few_for_a_lead_have_a_root_all_the_same() -> None:
    """One every half minute: votes fade before there are three, and the little that is unclear in each is not the root."""
    incident = Incident()
    for second in range(0, 600, 30):
        incident.voted({PREFILL: 0.95, unknown(Unknown.UNCLEAR): 0.05}, float(second))
        incident.tick(float(second), burning=True)

    assert (incident.lead, incident.root) == (None, PREFILL)


def test_the_root_is_the_leading_reason_while_none_leads() -> None:
    """Those of the next incident begin anew."""
    incident = Incident()
    voted(incident, unknown(Unknown.YOUNG), 0, 20)
    assert incident.root == unknown(Unknown.YOUNG)
    voted(incident, unknown(Unknown.UNCLEAR), 20, 45)
    assert incident.root == unknown(Unknown.UNCLEAR)
    voted(incident, QUEUE, 45, 50)
    assert incident.root == QUEUE

    incident.tick(50.0, burning=False)
    assert incident.root is None
    incident.tick(500.0, burning=True)
    assert incident.root is None


def test_twice_the_votes_take_the_lead_at_once() -> None:
    incident = Incident()
    voted(incident, QUEUE, 0, 5)
    voted(incident, PREFILL, 5, 6, each_second=4.0)
    assert incident.lead == QUEUE
    voted(incident, PREFILL, 6, 8, each_second=4.0)
    assert incident.lead == PREFILL


def test_a_small_lead_must_last_for_a_minute() -> None:
    """After a minute of queue, six votes of ten are prefill's."""
    incident = Incident()
    voted(incident, QUEUE, 0, 60)
    took_over_at = 0
    for second in range(60, 300):
        incident.voted({QUEUE: 0.4, PREFILL: 0.6}, float(second))
        incident.tick(float(second), burning=True)
        if incident.lead == PREFILL:
            took_over_at = second
            break
    ahead_at = next(at for at in range(60, 300) if _votes(0.6, 60, at) > _votes(1.0, 0, 59, at) + _votes(0.4, 60, at))
    assert took_over_at == ahead_at + 60


def _votes(each_second: float, since: int, until: int, at: int | None = None) -> float:
    """Votes of these seconds, faded until `at`."""
    seen_at = until if at is None else at
    return each_second * sum(exp((second - seen_at) / VOTES_SECONDS) for second in range(since, until + 1))


def test_the_cause_of_the_lead_may_change_within_its_phase() -> None:
    incident = Incident()
    voted(incident, QUEUE, 0, 10)
    voted(incident, root_of(Cause.SLOTS), 10, 30)
    assert incident.lead == root_of(Cause.SLOTS)


def test_inherited_votes_keep_no_lead() -> None:
    """A restart is over for minutes: what misses only inherit from it does not make it lead for ever."""
    incident = Incident()
    voted(incident, root_of(Cause.RESTART), 0, 60)
    for second in range(60, 900):
        if incident.lead is not None:
            incident.voted({incident.lead: 0.9}, float(second), own={})
        incident.tick(float(second), burning=True)

    assert incident.lead is None
    assert incident.began_at is not None


def test_a_lead_that_no_miss_has_shown_explains_no_further_miss() -> None:
    """Each miss gives it a little, and no other phase more: it is ahead, and it is a guess."""
    incident = Incident()
    voted(incident, QUEUE, 0, 30, each_second=0.3)
    assert (incident.lead, incident.shown_lead) == (QUEUE, None)

    voted(incident, QUEUE, 30, 31)
    assert incident.shown_lead == QUEUE


def test_a_lead_that_was_shown_for_a_minute_explains_the_backlog_that_it_left() -> None:
    incident = Incident()
    voted(incident, PREFILL, 0, 90)

    assert incident.left_behind(30.0, 150.0)
    assert incident.left_behind(89.0, 89.0 + LEFT_SECONDS)
    assert not incident.left_behind(90.0, 150.0), "this backlog began later"
    assert not incident.left_behind(None, 150.0), "it met no backlog"
    assert not incident.left_behind(30.0, 90.0 + LEFT_SECONDS), "no backlog is worked off for so long"


def test_a_lead_that_fell_and_came_back_was_not_shown_meanwhile() -> None:
    """Its misses of before say nothing of the time between."""
    incident = Incident()
    voted(incident, QUEUE, 0, 90)
    for second in range(90, 600):
        incident.tick(float(second), burning=True)
    assert incident.lead is None

    voted(incident, QUEUE, 600, 640)
    assert incident.lead == QUEUE
    assert not incident.left_behind(630.0, 650.0)


def test_a_lead_of_a_moment_leaves_no_backlog_behind() -> None:
    incident = Incident()
    voted(incident, PREFILL, 0, 30)

    assert incident.lead == PREFILL
    assert not incident.left_behind(10.0, 40.0)


def test_another_lead_explains_what_began_in_its_own_time() -> None:
    incident = Incident()
    voted(incident, PREFILL, 0, 90)
    voted(incident, QUEUE, 90, 400)

    assert incident.lead == QUEUE
    assert incident.left_behind(390.0, 410.0)


def test_an_incident_that_is_over_explains_nothing() -> None:
    incident = Incident()
    voted(incident, PREFILL, 0, 90)
    incident.tick(91.0, burning=False)

    assert not incident.left_behind(30.0, 92.0)


def test_misses_behind_what_the_lead_left_keep_it_and_show_nothing() -> None:
    """The backlog takes seven minutes. Without it, the lead would have faded by then."""
    incident = Incident()
    voted(incident, PREFILL, 0, 90)
    for second in range(90, 510):
        behind = incident.left_behind(30.0, float(second))
        incident.voted({PREFILL: 0.9, QUEUE: 0.1}, float(second), own={QUEUE: 0.1}, behind=behind)
        incident.tick(float(second), burning=True)

    assert incident.lead == PREFILL
    assert not incident.left_behind(30.0, 90.0 + LEFT_SECONDS)


@pytest.mark.parametrize("behind_seconds", [0, 30, 400])
def test_a_lead_gets_no_vote_of_the_misses_that_only_inherit_from_it(behind_seconds: int) -> None:
    """However many waited behind it, three misses that show something else decide once its own votes have faded."""
    slots = root_of(Cause.SLOTS)
    incident = Incident()
    voted(incident, root_of(Cause.RESTART), 0, 90)
    until = 90 + behind_seconds
    for second in range(90, until):
        incident.voted({root_of(Cause.RESTART): 0.9}, float(second), times=50, own={}, behind=True)
        incident.tick(float(second), burning=True)
    assert incident.lead == root_of(Cause.RESTART)
    own_votes = max(FEWEST_VOTES, _votes(1.0, 0, 89, until))

    last = until + ceil(TAKES_OVER * own_votes) + 1
    voted(incident, slots, until, last)
    assert incident.lead == slots


def test_a_miss_behind_the_lead_that_shows_more_by_itself_votes_for_that() -> None:
    incident = Incident()
    voted(incident, root_of(Cause.RESTART), 0, 90)
    for second in range(90, 400):
        weights = {root_of(Cause.RESTART): 0.4, QUEUE: 0.6}
        incident.voted(weights, float(second), own={QUEUE: 0.6}, behind=True)
        incident.tick(float(second), burning=True)

    assert incident.lead == QUEUE


def test_what_was_evicted_while_the_lead_was_present_is_told_once_its_fault_is_over() -> None:
    incident = Incident()
    incident.saw(0.0, grown=True, uncached=1.9)
    voted(incident, QUEUE, 0, 90)
    assert incident.evicted(30.0, 90.0) is None, "the lead was present at no look: it was a guess"
    incident.saw(89.0, grown=True, uncached=1.4)
    incident.saw(90.0, grown=True, uncached=1.2)
    assert incident.evicted(30.0, 90.0) is None, "the fault goes on: what is lost now may be one of its own"
    incident.saw(91.0, grown=False, uncached=3.0)

    assert incident.evicted(30.0, 91.0) == 1.4, "neither what was lost before the fault, nor what is lost after it"
    assert incident.evicted(91.0, 91.0) is None, "this backlog is another one"
    incident.tick(200.0, burning=False)
    voted(incident, QUEUE, 200, 290)
    assert incident.evicted(230.0, 290.0) is None, "another incident"


def test_a_lead_that_nothing_measures_is_present_while_misses_show_it() -> None:
    incident = Incident()
    voted(incident, QUEUE, 0, 90)
    incident.saw(89.0, grown=None, uncached=1.4)
    assert incident.evicted(30.0, 89.0) is None
    over_at = 89.0 + STANDS_SECONDS + 1.0
    incident.saw(over_at, grown=None, uncached=3.0)

    assert incident.evicted(30.0, over_at) == 1.4


def test_a_fault_of_prompts_explains_no_eviction() -> None:
    """Requests were taken to wait for slots until a lost cache was named: what was seen meanwhile was the loss itself."""
    incident = Incident()
    voted(incident, QUEUE, 0, 30)
    incident.saw(29.0, grown=True, uncached=2.5)
    voted(incident, PREFILL, 30, 150)
    incident.saw(149.0, grown=True, uncached=2.5)
    incident.saw(150.0, grown=False)
    assert incident.lead == PREFILL
    assert incident.evicted(100.0, 150.0) is None

    voted(incident, QUEUE, 150, 400)
    incident.saw(400.0, grown=True)
    incident.saw(401.0, grown=False)
    assert incident.lead == QUEUE
    assert incident.evicted(380.0, 401.0) == 1.0


def test_causes_of_one_phase_show_it_together() -> None:
    """None of them has a third of any miss."""
    incident = Incident()
    queue = {root_of(cause): 0.3 for cause in (Cause.LOAD, Cause.SLOTS, Cause.PREEMPTION)}
    for second in range(10):
        incident.voted(queue, float(second))
        incident.tick(float(second), burning=True)

    assert incident.shown_lead == incident.lead
    assert incident.shown is not None


def test_the_beginning_of_an_incident_is_known_in_a_storm_too() -> None:
    """A thousand misses in the minute before it is noticed."""
    incident = Incident()
    for number in range(1000):
        incident.missed(100.0 + number * 0.06)
    incident.tick(160.0, burning=True)

    assert incident.began_at == 100.0
