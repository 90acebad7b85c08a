"""Drawn shapes of faults: each is a fault of the table, put together as its words say, and the phase of the fault stays right."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from bench.incidents import sampling, shapes
from bench.incidents.engines import ENGINES, UNCHUNKED
from bench.incidents.fault import NOTHING, Episode, Fault, Hop, SlowClients, Stranger
from bench.incidents.job import DRAWN_PREFIX, Job, played, two_faults
from bench.incidents.kinds import BY_NAME
from bench.incidents.play import HEALTHY_SECONDS, Incident
from bench.incidents.shapes import Companion, Onset, Shape, Traffic, drawn, incident_of, partly
from bench.incidents.world import KIND_WORLD, Mode, Throttle, Topology


PLAIN = Shape("prefill-slow", None, 0.5, Onset.STEP, 3600.0, Companion.NOTHING, False, Traffic.STEADY, (1, 1))
FACTOR = 0.9
NAMED = (
    *(
        "few-slots",
        "acceptance-falls",
        "gpu-neighbour",
        "short-stalls",
        "slow-network",
        "prompts-grow",
        "lane-of-long-prompts",
    ),
    *("preemption", "rejections", "scale-in", "scale-out"),
)
"""Faults that have to be among the shapes by name; two faults are a shape too."""


def several(count: int = 300) -> Iterator[Shape]:
    return (drawn("text", number) for number in range(count))


def made(shape: Shape, seed: int = 1, engine: int = 0) -> Incident:
    return incident_of(shape, shapes.engine_of(shape, ENGINES[engine]), FACTOR, Random(seed), KIND_WORLD)


def test_a_text_and_a_number_draw_one_shape_and_each_fault_comes_once_before_any_comes_again() -> None:
    assert drawn("a", 3) == drawn("a", 3) != drawn("b", 3)
    first = [drawn("a", number) for number in range(len(shapes.FAULTS))]
    alone = [shape.fault for shape in first if shape.other is None]
    assert len(alone) == len(set(alone)) >= 0.8 * len(shapes.FAULTS)


def test_every_part_of_a_shape_is_drawn_sooner_or_later() -> None:
    found = list(several(1000))

    assert {shape.fault for shape in found} == set(shapes.FAULTS) >= set(NAMED)
    assert {shape.onset for shape in found} == set(Onset)
    assert {shape.companion for shape in found} == set(Companion)
    assert {shape.traffic for shape in found} == set(Traffic)
    assert {shape.fleet for shape in found} >= set(shapes.FLEETS)
    assert {shape.one_lane for shape in found} == {True, False}
    assert {(shape.fault, shape.other) for shape in found if shape.other} == set(shapes.PAIRS)
    assert any(shape.fault == "few-slots" and shape.companion is Companion.RESTART for shape in found)


def test_a_shape_is_found_by_its_name() -> None:
    assert shapes.named("shape-0a1b_2c-7") == drawn("0a1b_2c", 7)
    for wrong in ("shape-7", "burst", "shape-a-b", "0a-7"):
        with pytest.raises(KeyError):
            shapes.named(wrong)


def test_every_shape_can_be_sampled_on_every_engine_and_names_kinds_with_causes() -> None:
    for number, shape in enumerate(several()):
        incident = made(shape, number, number % len(ENGINES))
        assert all(BY_NAME[name].causes for name in incident.made_of)
        assert incident.seconds >= 720.0
        assert all(each.ends is None or each.begins < each.ends for each in incident.episodes)


def test_its_words_name_every_part() -> None:
    shape = replace(
        PLAIN, onset=Onset.GROWTH, companion=Companion.RESTART, one_lane=True, traffic=Traffic.LUNCH, fleet=(4, 2)
    )

    assert shape.says == "prefill-slow, over 1.0 h, with restart, one lane, 2 of 4 pods, lunch"
    assert replace(PLAIN, other="overload").says == "prefill-slow and overload, step, 1 of 1 pods, steady"


# --- onset -------------------------------------------------------------------------------------------------------------


def test_a_fault_in_one_step_is_the_kinds_own() -> None:
    assert made(PLAIN).episodes == BY_NAME["prefill-slow"].sample(ENGINES[0], FACTOR, 0.5, Random(1)).episodes


@pytest.mark.parametrize("onset", [Onset.RAMP, Onset.GROWTH])
def test_a_fault_that_grows_is_whole_from_its_last_step_on_and_has_no_gap(onset: Onset) -> None:
    incident = made(replace(PLAIN, onset=onset))
    (whole,) = made(PLAIN).episodes
    sizes = [each.fault.knobs["prefill_factor"] for each in incident.episodes]

    assert sizes == sorted(sizes)
    assert 1.0 < sizes[0] < sizes[-1] == pytest.approx(whole.fault.knobs["prefill_factor"])
    assert [each.ends for each in incident.episodes[:-1]] == [each.begins for each in incident.episodes[1:]]
    assert (incident.episodes[0].begins, incident.episodes[-1].ends) == (0.0, None)
    assert incident.seconds == (720.0 if onset is Onset.RAMP else 3600.0)


def test_on_and_off_is_a_minute_each() -> None:
    episodes = made(replace(PLAIN, onset=Onset.ON_AND_OFF)).episodes

    assert [(each.begins, each.ends) for each in episodes[:3]] == [(0.0, 60.0), (120.0, 180.0), (240.0, 300.0)]
    assert len({each.fault.knobs["prefill_factor"] for each in episodes}) == 1


def test_a_part_of_a_fault_lies_between_nothing_and_all_of_it() -> None:
    fault = Fault(
        load={"code": 4.0},
        prompts={"code": 4.0},
        outputs={"code": 4.0},
        strangers=(Stranger("batch", 2.0, (1, 2), (3, 4)),),
        uncached={"code": 0.8},
        knobs={"prefill_factor": 4.0, "slots": 4, "kv_blocks": 1000, "hung": True},
        hop=Hop(40, 60.0),
        slow_clients={"code": SlowClients(0.8, 5.0)},
        errors=0.4,
        rejected=0.6,
        transfer_seconds=2.0,
        throttle=Throttle(0.02),
        tokens_a_step=1.0,
    )
    usual = {"slots": 16, "kv_blocks": 4000}

    half = partly(fault, 0.5, usual, 4.0)

    assert partly(fault, 1.0, usual, 4.0) == fault
    assert (half.load, half.prompts, half.outputs) == ({"code": 2.0},) * 3
    assert half.knobs == {"prefill_factor": 2.0, "slots": 8, "kv_blocks": 2000, "hung": True}
    assert (half.strangers[0].per_second, half.uncached, half.slow_clients["code"].share) == (1.0, {"code": 0.4}, 0.4)
    assert (half.hop, half.errors, half.rejected, half.transfer_seconds) == (Hop(20, 60.0), 0.2, 0.3, 1.0)
    assert half.throttle is not None
    assert half.throttle.run_seconds == pytest.approx(0.06)
    assert half.tokens_a_step == pytest.approx(2.0)
    assert partly(Fault(), 0.5, {}, 1.0) == Fault()


# --- companion, place, traffic -----------------------------------------------------------------------------------------


def test_a_companion_comes_before_the_fault_so_that_the_faults_knobs_hold() -> None:
    """A pod takes the knobs of the last episode that has them."""
    first, warm, fault = made(replace(PLAIN, companion=Companion.RESTART)).episodes

    assert first == Episode(Fault(fresh=True))
    assert warm.ends is not None
    assert 5.0 <= warm.ends <= 60.0
    assert fault == made(PLAIN).episodes[0]


def test_a_change_of_lengths_in_one_lane_leaves_the_others() -> None:
    every, one = (made(replace(PLAIN, fault="prompts-grow", one_lane=only)).episodes[0].fault for only in (False, True))

    assert set(every.prompts) == {"interactive", "batch", "code"}
    (lane,) = one.prompts
    assert one.prompts[lane] == every.prompts[lane]


def test_few_long_conversations_are_a_quarter_of_the_requests_with_longer_answers() -> None:
    setup = made(replace(PLAIN, traffic=Traffic.CONVERSATIONS)).setup

    assert set(setup.load.values()) == {0.25}
    assert setup.outputs == {"interactive": 4.0, "code": 4.0}


def test_of_two_faults_the_set_up_of_the_one_that_needs_it_is_kept() -> None:
    """Few slots are few on a day with many streams only; slow decodes need no set-up."""
    both, alone = (
        made(replace(PLAIN, fault=fault, other=other))
        for fault, other in (("decode-slow", "few-slots"), ("few-slots", None))
    )

    assert both.made_of == ("decode-slow", "few-slots")
    assert both.setup == alone.setup != NOTHING


def test_sparse_traffic_is_a_request_a_minute_in_each_lane() -> None:
    setup = made(replace(PLAIN, traffic=Traffic.SPARSE)).setup

    per_minute = [setup.load[load.lane] * load.per_second * FACTOR * 60.0 for load in ENGINES[0].lanes]
    assert per_minute == pytest.approx([1.0, 1.0, 1.0])


def test_a_world_has_what_the_shape_needs() -> None:
    herds = shapes.world_of(replace(PLAIN, traffic=Traffic.HERDS, fleet=(4, 2)), "seed")
    assert (herds.herd, herds.lunch, herds.pods, herds.at_fault) == (shapes.HERD, False, 4, 2)
    assert shapes.world_of(replace(PLAIN, traffic=Traffic.LUNCH), "seed").lunch
    assert shapes.world_of(replace(PLAIN, fault="kv-transfer"), "seed").topology is Topology.DISAGGREGATED
    low, high = shapes.SPECULATES
    assert low <= shapes.world_of(replace(PLAIN, fault="acceptance-falls"), "seed").tokens_a_step <= high


def test_prompts_of_30_000_tokens_find_room() -> None:
    shape = replace(PLAIN, fault="lane-of-long-prompts")
    engine = shapes.engine_of(shape, UNCHUNKED)
    (stranger,) = made(shape, engine=ENGINES.index(UNCHUNKED)).episodes[0].fault.strangers

    assert engine.limits.max_num_batched_tokens == engine.limits.max_model_len == shapes.LONGEST_PROMPT
    assert 28_000 < stranger.prompt_tokens[0] < stranger.prompt_tokens[1] < shapes.LONGEST_PROMPT
    assert shapes.engine_of(PLAIN, UNCHUNKED) is UNCHUNKED


# --- the faults that shapes alone have ------------------------------------------------------------------------------------


def test_a_short_stall_is_shorter_than_any_silence_and_comes_again() -> None:
    for magnitude in (0.0, 1.0):
        stalls = sampling.short_stalls(ENGINES[0], FACTOR, magnitude, Random(3)).episodes
        lasts = [(each.ends or 0.0) - each.begins for each in stalls]
        assert len(stalls) > 15
        assert 2.0 - 1e-9 <= min(lasts) <= max(lasts) <= 7.0 + 1e-9
        assert all(one.ends is not None and other.begins - one.ends >= 8.0 for one, other in pairwise(stalls))


def test_a_pod_that_is_scaled_out_has_no_request_before() -> None:
    before, fresh, _ = sampling.scale_out(ENGINES[0], FACTOR, 0.5, Random(3)).episodes

    assert (before.begins, before.ends) == (-HEALTHY_SECONDS, 0.0)
    assert max(before.fault.load.values()) < 1e-6
    assert fresh.fault.fresh


def test_either_phase_is_right_for_a_slower_gpu() -> None:
    made_of = sampling.gpu_neighbour(ENGINES[0], FACTOR, 0.5, Random(3)).made_of

    assert {phase for name in made_of for phase in BY_NAME[name].phases} == {"prefill", "decode"}


def test_a_slower_gpu_is_one_fault_although_two_kinds_have_its_causes() -> None:
    found = [drawn("two", number) for number in range(2000)]
    alone = next(number for number, shape in enumerate(found) if (shape.fault, shape.other) == ("gpu-neighbour", None))
    pair = next(number for number, shape in enumerate(found) if shape.other is not None)

    assert not two_faults(Job(f"shape-two-{alone}", "unchunked", 1), 2)
    assert two_faults(Job(f"shape-two-{pair}", "unchunked", 1), 2)
    assert two_faults(Job("two-faults", "unchunked", 1), 2)


@pytest.mark.bench
def test_a_shape_is_played_from_its_name() -> None:
    """Slots that a restart cut: the phase of the slots is right, and the restart's is not."""
    name = next(f"shape-played-{number}" for number in range(400) if is_cut_by_a_restart(drawn("played", number)))

    found = played(Job(name, f"{DRAWN_PREFIX}played-0", 3, (Mode.REPORTS,)))

    assert {lane.phases for lane in found.truth.lanes.values()} == {frozenset({"queue"})}
    assert found.world.pods == shapes.named(name).fleet[0]
    assert len(found.run.requests) > 100


def is_cut_by_a_restart(shape: Shape) -> bool:
    return (shape.fault, shape.other, shape.companion) == ("few-slots", None, Companion.RESTART)
