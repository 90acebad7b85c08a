"""The signs of a pod: what has grown, what is full, what failed, and what is as usual."""

from dataclasses import replace
from math import inf

import pytest

from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import Cause
from sidecar.pod.costs.waits import Doing
from sidecar.pod.factor import Factor
from sidecar.pod.pod import Costs, Pod
from sidecar.pod.reading import LaneCounts, Reading
from sidecar.pod.signs import Fault, Signs
from tests.pod.pod_readings import CALM, DEAR, USUAL, Story, grown


RATIOS = (Cause.LOAD, Cause.PROMPT_MIX, Cause.UNCACHED, Cause.LONGER_OUTPUTS)


# --- what has grown ------------------------------------------------------------------------------------------------------


def test_nothing_has_grown_on_a_usual_pod() -> None:
    signs = Story().reads()

    assert grown(signs) == set()
    assert {*signs.grown} == {*RATIOS, Cause.DECODE_COST, Cause.PREFILL_COST}
    assert all(factor.low < 1.0 < factor.high for factor in signs.grown.values())
    assert signs.together is not None
    assert signs.together.low < 1.0 < signs.together.high
    assert (signs.faults, signs.kv_full, signs.preempts, signs.front_end, signs.young) == (
        (),
        False,
        False,
        False,
        False,
    )


def test_a_young_pod_knows_no_ratio() -> None:
    signs = Pod().signs(100.0, Costs())

    assert (signs.young, signs.grown, signs.together) == (True, {}, None)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"requests": 25.0}, Cause.LOAD),
        ({"prompt": 300.0, "cached": 240.0}, Cause.PROMPT_MIX),
        ({"cached": 0.0}, Cause.UNCACHED),
        ({"output": 150.0}, Cause.LONGER_OUTPUTS),
        ({"own": 3.0}, Cause.PREFILL_COST),
    ],
)
def test_each_change_of_the_traffic_is_one_cause_alone(change: dict[str, float], cause: Cause) -> None:
    assert grown(Story().reads(**change)) == {cause}  # type: ignore[arg-type]


def test_longer_prompts_with_the_same_cached_beginning_are_no_lost_cache() -> None:
    assert grown(Story().reads(prompt=300.0)) == {Cause.PROMPT_MIX}


def test_a_change_of_load_shows_in_full_after_a_minute_and_is_over_a_minute_after_its_end() -> None:
    story = Story()
    soon = story.reads(12, requests=30.0)
    later = story.reads(13)

    assert soon.grown[Cause.LOAD].value == pytest.approx(3.0, rel=0.1)
    assert Cause.LOAD not in grown(later)


def test_what_happens_while_an_objective_burns_does_not_become_usual() -> None:
    story = Story()
    story.reads(720, requests=30.0, output=150.0)

    assert grown(story.reads(requests=30.0, output=150.0)) == {Cause.LOAD, Cause.LONGER_OUTPUTS}


def test_a_night_without_traffic_makes_no_overload_of_the_usual_traffic_of_the_morning() -> None:
    story = Story()
    story.reads(720, calm=True)
    night = story.reads(8 * 720, calm=True, requests=0.0)
    story.reads(24, calm=True)
    morning = story.reads()

    assert Cause.LOAD not in night.grown
    assert morning.grown[Cause.LOAD].low < 1.0 < morning.grown[Cause.LOAD].high
    assert grown(story.reads(requests=30.0)) == {Cause.LOAD}


def test_one_request_in_two_minutes_is_a_load_like_any_other() -> None:
    """The time between them is no idleness."""
    story = Story()
    for _ in range(240):
        story.reads(1, calm=True, requests=1.0)
        story.reads(23, calm=True, requests=0.0)

    assert story.reads(12, requests=1.0).grown[Cause.LOAD].value > 10.0


def test_events_that_come_together_are_told_apart_from_longer_answers() -> None:
    signs = Story().reads(together=4.0)

    assert grown(signs) == set()
    assert signs.together is not None
    assert signs.together.low > 3.0


# --- costs ---------------------------------------------------------------------------------------------------------------


def test_dearer_steps_are_no_dearer_prefill_although_reported_prefills_take_as_much_longer() -> None:
    """A reported prefill holds the decodes of the steps that it shares."""
    story = Story()
    story.costs = Costs((DEAR, DEAR), (USUAL, USUAL))

    assert grown(story.reads(own=2.0)) == {Cause.DECODE_COST}


def test_dearer_steps_are_taken_out_of_reported_prefills_where_steps_do_not_tell() -> None:
    story = Story()
    story.costs = Costs((DEAR, DEAR), (None, None))
    assert grown(story.reads(own=2.0)) == {Cause.DECODE_COST}

    assert grown(story.reads(20, own=6.0)) == {Cause.DECODE_COST, Cause.PREFILL_COST}


def test_where_fewer_guesses_are_right_a_token_is_dearer_and_answers_are_no_longer() -> None:
    """An engine that speculates gave 2.4 tokens a step, and now one: it takes 2.4 times the steps, which cost as much as ever."""
    found = Story(tokens_an_event=2.4).reads(12, tokens_an_event=1.0, sent=2.4).grown

    dearer = found[Cause.DECODE_COST]
    assert dearer.low > 2.0
    assert dearer.value == pytest.approx(2.4, rel=0.05)
    assert found[Cause.LONGER_OUTPUTS].value < 1.1


def test_the_cost_of_decode_is_that_of_a_token_where_answers_tell_their_tokens_be_they_the_usual_ones() -> None:
    story = Story(tokens_an_event=2.0)
    story.costs = Costs((DEAR, DEAR), (USUAL, USUAL))

    assert not story.reads(12).per_step
    assert Story().pod.signs(0.0, Costs()).per_step is False
    assert Pod().signs(0.0, Costs()).per_step, "no answer has told its tokens"


def test_dearer_steps_and_more_of_them_for_a_token_multiply() -> None:
    story = Story(tokens_an_event=2.0)
    story.costs = Costs((DEAR, DEAR), (USUAL, USUAL))

    assert story.reads(12, tokens_an_event=1.0).grown[Cause.DECODE_COST].value == pytest.approx(4.0, rel=0.05)


def test_the_clearer_of_a_short_and_a_long_window_counts() -> None:
    story = Story()
    story.costs = Costs((DEAR, USUAL), (None, USUAL))

    assert story.reads().grown[Cause.DECODE_COST] == DEAR


def test_a_prefill_that_is_only_guessed_has_a_wider_interval() -> None:
    story = Story()
    story.costs = Costs((USUAL,), (None,))
    reported = story.reads(13).grown[Cause.PREFILL_COST]
    guessed = story.reads(14, reported=False).grown[Cause.PREFILL_COST]

    assert guessed.high / guessed.low > 2.0 * reported.high / reported.low


# --- what is full --------------------------------------------------------------------------------------------------------


def test_kv_is_full_only_if_requests_wait_for_it() -> None:
    assert Story().reads(kv_usage=0.95, engine_waiting=4.0).kv_full
    assert not Story().reads(kv_usage=0.95, engine_waiting=0.0).kv_full
    assert not Story().reads(kv_usage=0.5, engine_waiting=4.0).kv_full
    assert not Story().reads(kv_usage=0.95).kv_full
    assert not Story().reads(engine_waiting=4.0).kv_full


def test_an_engine_preempts_if_it_does_so_with_one_request_in_twenty() -> None:
    assert Story().reads(13, preemptions=1.0).preempts
    assert not Story().reads(13, preemptions=0.2).preempts
    assert not Story().reads(13, requests=0.1, preemptions=0.2).preempts
    assert not Story().reads(13).preempts
    assert [Story().reads(13, preemptions=each).preempted for each in (0.0, 0.2)] == [False, True]


@pytest.mark.parametrize("gap", [0.02, 0.2])
def test_events_of_a_read_are_collected_for_as_long_as_they_take_at_the_usual_pace(gap: float) -> None:
    """Four events of 20 ms: the first of them waited for three others. Slower ones now are not what merging did."""
    assert Story().reads(together=4.0, gap=gap).collected_seconds == pytest.approx(3 * 0.02, rel=0.01)
    assert Story().reads(gap=gap).collected_seconds == pytest.approx(0.0, abs=1e-9)


def test_without_reads_nothing_is_known_of_what_is_collected() -> None:
    assert Story().reads(requests=0.0).collected_seconds is None


@pytest.mark.parametrize("numbers", [True, False], ids=["the engine's own numbers", "streams with output"])
def test_slots_are_fewer_if_a_full_batch_runs_less_than_it_usually_did_at_most(*, numbers: bool) -> None:
    """An engine that states no numbers is seen by its streams."""

    def reads(story: Story, count: int, running: float, waiting: float = 0.0, *, calm: bool = False) -> Signs:
        if numbers:
            return story.reads(count, calm=calm, engine_running=running, engine_waiting=waiting)
        return story.reads(count, calm=calm, streaming=running)

    def after(running: float, readings: int = 13) -> Signs:
        story = Story()
        reads(story, 24, 20.0, calm=True)
        reads(story, 24, 40.0)
        story.costs = story.costs._replace(doing=Doing(0.2, 1.0))
        return reads(story, readings, running, 9.0)

    assert after(10.0).fewer_slots
    assert after(10.0, readings=10).fewer_slots is numbers, "the engine's own numbers of the last seconds suffice"
    assert not after(10.0, readings=3).fewer_slots, "a new process begins with none"
    assert not after(20.0).fewer_slots, "40 ran while an objective burned: that is not usual"
    assert not after(19.0).fewer_slots


def test_slots_are_not_what_is_short_where_the_cache_has_no_room() -> None:
    story = Story()
    story.reads(24, calm=True, engine_running=20.0)
    story.costs = story.costs._replace(doing=Doing(0.2, 1.0))
    assert story.reads(13, engine_running=10.0, engine_waiting=9.0, kv_usage=0.5).fewer_slots
    assert not story.reads(13, engine_running=10.0, engine_waiting=9.0, kv_usage=0.95).fewer_slots


def test_a_batch_that_is_not_full_tells_nothing_of_slots() -> None:
    """Few requests came, or their prompts are computed."""
    story = Story()
    story.reads(24, calm=True, engine_running=20.0)
    assert not story.reads(13, engine_running=3.0).fewer_slots
    assert not story.reads(13, engine_running=3.0, engine_waiting=0.0).fewer_slots
    story.costs = story.costs._replace(doing=Doing(0.9, 1.0))
    assert not story.reads(13, engine_running=3.0, engine_waiting=9.0).fewer_slots
    story.costs = story.costs._replace(doing=None)
    assert story.reads(13, engine_running=3.0, engine_waiting=9.0).fewer_slots, "the engine says who waits"


# --- the front end -------------------------------------------------------------------------------------------------------


def test_requests_that_the_engine_does_not_know_wait_in_front_of_it() -> None:
    outside = {"waiting": 8.0, "streaming": 4.0, "engine_running": 4.0, "reported": False}

    assert Story().reads(16, engine_waiting=0.0, **outside).front_end  # type: ignore[arg-type]
    assert not Story().reads(16, engine_waiting=7.0, **outside).front_end  # type: ignore[arg-type]
    assert not Story().reads(16, engine_waiting=None, **outside).front_end  # type: ignore[arg-type]
    assert not Story().reads(16, engine_waiting=0.0, **{**outside, "engine_running": 11.0}).front_end  # type: ignore[arg-type]


def test_requests_that_came_since_the_engine_stated_its_numbers_do_not_wait_in_front_of_it() -> None:
    """Every second reading finds some more of them."""
    story = Story()
    for _ in range(10):
        story.reads(1, waiting=8.0, engine_waiting=0.0, engine_running=4.0, streaming=4.0, reported=False)
        signs = story.reads(1, waiting=0.0, engine_waiting=0.0, engine_running=4.0, streaming=4.0, reported=False)

    assert not signs.front_end


def test_requests_that_got_output_since_the_engine_stated_its_numbers_do_not_make_room_for_others_in_front_of_it() -> (
    None
):
    """A process begins under full traffic: the engine's numbers are those of five seconds ago, and more streams run each time."""
    story = Story()
    story.reads(14, reported=False)
    for streams in (0.0, 9.0, 17.0, 23.0):
        running = story.last.waiting + story.last.streaming
        signs = story.reads(
            1, waiting=10.0, engine_waiting=0.0, engine_running=running, streaming=streams, reported=False
        )
        assert not signs.front_end


def test_where_the_engine_states_no_numbers_its_steps_tell_who_waits_in_front_of_it() -> None:
    """Requests wait while hardly a step holds prompts and the batch has room."""
    story = Story()
    story.costs = story.costs._replace(doing=Doing(computes=0.1, full=0.2))
    idle = story.reads(14, reported=False)
    story.costs = story.costs._replace(doing=Doing(computes=0.1, full=0.9))
    full = story.reads(reported=False)
    story.costs = story.costs._replace(doing=Doing(computes=0.9, full=0.2))
    computes = story.reads(reported=False)

    assert (idle.front_end, full.front_end, computes.front_end) == (True, False, False)
    assert (idle.computes_ratio, computes.computes_ratio) == (0.1, 0.9)


def test_an_engine_that_states_a_queue_of_its_own_has_no_queue_in_front() -> None:
    story = Story()
    story.costs = story.costs._replace(doing=Doing(computes=0.1, full=0.2))

    assert not story.reads(14, reported=False, engine_waiting=3.0).front_end


def test_a_batch_that_is_seen_with_prompts_only_is_neither_full_nor_has_it_room() -> None:
    story = Story()
    story.costs = story.costs._replace(doing=Doing(computes=0.1, full=None))

    signs = story.reads(14, reported=False)

    assert (signs.front_end, signs.limited) == (False, False)


def test_an_engine_is_mute_if_requests_wait_and_no_output_came_to_any() -> None:
    """A stall takes 8 s, and longer than the prompts explain that were pending."""
    story = Story()
    assert not story.reads(waiting=5.0, silent_seconds=7.9).mute
    assert story.reads(1, waiting=5.0, silent_seconds=8.0).mute
    assert not story.reads(1, waiting=5.0, silent_seconds=12.0, excused_seconds=39.0).mute
    assert not story.reads(1, waiting=5.0, silent_seconds=0.0).mute
    assert not story.reads(1, waiting=0.0, silent_seconds=60.0).mute


def test_an_engine_may_be_mute_while_it_answers_a_request_unseen() -> None:
    story = Story()
    assert not story.reads(waiting=5.0, unseen_seconds=7.9).maybe_mute
    assert not story.reads(1, waiting=0.0, unseen_seconds=60.0).maybe_mute

    signs = story.reads(1, waiting=5.0, unseen_seconds=8.0)
    assert (signs.maybe_mute, signs.mute) == (True, False)


def test_a_cost_of_which_only_one_fit_says_that_it_is_usual_is_told_as_unsure() -> None:
    story = Story()
    story.reads(30)
    story.costs = story.costs._replace(unsure=frozenset({Cause.DECODE_COST, Cause.PREFILL_COST}))

    assert story.reads(4, requests=0.0).unsure == {Cause.DECODE_COST, Cause.PREFILL_COST}


def test_prefills_that_were_measured_outweigh_steps_of_which_only_one_fit_says_that_they_are_usual() -> None:
    story = Story()
    story.reads(30, reported=False)
    steps = story.reads(14, own=3.0, reported=False).grown[Cause.PREFILL_COST]

    story.costs = story.costs._replace(unsure=frozenset({Cause.PREFILL_COST}))
    measured = story.reads(14, own=3.0, reported=False).grown[Cause.PREFILL_COST]

    assert steps.value == pytest.approx(1.0, abs=0.1)
    assert measured.value == pytest.approx(3.0, rel=0.2)


def test_a_cache_is_seen_once_an_answer_stated_cached_tokens() -> None:
    blind = Pod()
    blind.read(Reading(0.0, {"chat": LaneCounts(arrivals=9.0, answered=9.0, prompt_tokens=900.0)}), Costs(), calm=True)

    assert blind.signs(0.0, Costs()).cache_unseen
    assert not Story().reads().cache_unseen


def test_where_the_engine_reports_phases_the_ledger_tells_who_waited_in_front_of_it() -> None:
    story = Story()
    story.costs = story.costs._replace(doing=Doing(computes=0.1, full=0.2))

    assert not story.reads(14, engine_waiting=0.0).front_end


# --- faults, votes ------------------------------------------------------------------------------------------------------


def test_faults_are_signs_with_their_beginning_and_a_restart_lasts_while_work_is_dearer() -> None:
    story = Story()
    up_at = story.last.at
    down = story.reads(2, engine_up=False, requests=0.0)
    story.costs = Costs((DEAR, DEAR), (USUAL, USUAL))
    cold = story.reads(30, engine_up=True)

    assert [(fault.cause, fault.began_at, fault.ended_at) for fault in down.faults] == [(Cause.DOWN, up_at, inf)]
    assert [fault.cause for fault in cold.faults] == [Cause.DOWN, Cause.RESTART]
    assert cold.faults[1].ended_at > story.last.at


def test_after_a_restart_prefills_are_compared_with_those_of_the_old_process() -> None:
    """A restart is no reason to forget: a setting that came with it may be what makes prompts dearer, and calm times do not hide that."""
    story = Story()
    story.costs = Costs()
    story.reads(1, restarts=1)

    assert story.reads(24, own=1.4).grown[Cause.PREFILL_COST].value == pytest.approx(1.4, rel=0.01)
    story.reads(CALM, calm=True, own=1.4)
    assert story.reads(12, own=1.4).grown[Cause.PREFILL_COST].value == pytest.approx(1.4, rel=0.05)


def test_a_new_process_is_cold_only_as_far_as_all_its_work_costs_more() -> None:
    """Steps tell both costs, or gaps and reported prefills tell how much they are at most."""

    def cold(decode: Factor | None, prefill: Factor | None, gap: float = 0.02, own: float = 1.0) -> float:
        story = Story()
        story.costs = Costs((decode, decode), (prefill, prefill))
        return story.reads(12, gap=gap, own=own).cold

    assert cold(DEAR, DEAR) > 0.95
    assert cold(DEAR, USUAL) < 0.05
    assert cold(USUAL, DEAR) < 0.05
    assert cold(None, None) < 0.05, "gaps and prefills are as usual"
    assert cold(None, None, gap=0.06, own=3.0) > 0.95
    assert cold(None, None, gap=0.06) < 0.05
    assert cold(None, None, own=3.0) < 0.05


def test_gaps_of_the_old_process_say_nothing_of_the_new_one() -> None:
    """It compiles, and sends nothing yet."""
    story = Story()
    story.costs = Costs()

    assert story.reads(2).cold < 0.05
    assert story.reads(1, restarts=1.0, requests=0.0).cold == 1.0


def test_events_a_token_that_may_be_the_usual_ones_change_no_answer_and_no_prompt() -> None:
    """Speculation that scatters makes no answers longer; and steps that cost the usual leave a dear prompt dear, however many a token takes."""
    story = Story(tokens_an_event=2.0)
    story.costs = Costs((USUAL, USUAL), (None, None))
    dear = story.reads(12, own=2.0, tokens_an_event=1.0).grown

    assert dear[Cause.DECODE_COST].value == pytest.approx(2.0, rel=0.1)
    assert dear[Cause.PREFILL_COST].value == pytest.approx(2.0, rel=0.1)


def test_a_process_that_computed_nothing_yet_or_knows_no_usual_values_may_be_cold() -> None:
    story = Story()
    story.costs = Costs()

    assert Pod().signs(0.0, Costs()).cold == 1.0
    assert story.reads(24, requests=0.0).cold == 1.0


def test_a_restart_lasts_while_its_cache_is_cold_and_no_more_requests_come_than_usually() -> None:
    """Its costs are not known yet. More requests than usually may be others, which the cache never held."""

    def lasts(cached: float, requests: float = 10.0) -> bool:
        story = Story()
        story.reads(1, restarts=1.0)
        story.costs = Costs()
        (restart,) = story.reads(20, cached=cached, requests=requests).faults
        return restart.ended_at > story.last.at

    assert lasts(cached=0.0)
    assert not lasts(cached=40.0)
    assert not lasts(cached=0.0, requests=20.0)


def test_a_restart_is_over_after_five_minutes_whatever_work_costs() -> None:
    """Ten minutes after a restart, decode is still dearer: that is no warming up."""
    story = Story()
    story.reads(1, restarts=1.0)
    story.costs = Costs((DEAR, DEAR), (USUAL, USUAL))
    late = story.reads(120)

    assert late.faults == () or late.faults[-1].ended_at < story.last.at - 240.0


def test_an_engine_that_fails_its_health_check_while_it_answers_is_not_down() -> None:
    story = Story()
    assert story.reads(3, engine_up=False).faults == ()


def test_a_process_that_stood_still_for_an_hour_saw_no_hour_without_traffic() -> None:
    story = Story()
    story.last = replace(story.last, at=story.last.at + 3600.0)

    assert Cause.LOAD not in grown(story.reads(60, calm=True))


def test_the_shares_of_phases_are_those_of_the_last_minute_that_are_known() -> None:
    story = Story()
    at = story.last.at
    story.pod.waited(at - 90.0, Blame.DECODE)
    for phase in (Blame.QUEUE, Blame.QUEUE, Blame.QUEUE, Blame.PREFILL, Blame.UNATTRIBUTED):
        story.pod.waited(at, phase)

    assert story.reads(1).waited == {Blame.QUEUE: 0.75, Blame.PREFILL: 0.25}


def test_direct_signs_are_those_of_now_and_the_faults_since_an_instant() -> None:
    """A planned restart of eight minutes before tells nothing of the overload that is open."""
    faults = (Fault(Cause.RESTART, 95.0, 165.0), Fault(Cause.SILENCE, 610.0, 640.0))
    signs = Signs(at=700.0, kv_full=True, faults=faults)

    assert signs.direct(600.0) == ("kv_full", "silence")
    assert signs.direct(100.0) == ("kv_full", "restart", "silence")
