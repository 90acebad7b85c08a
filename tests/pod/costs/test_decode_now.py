"""Dear decodes are told from the first seconds of a fault, and prompts that fill all steps are not taken for them."""

from dataclasses import replace
from random import Random

import pytest

from sidecar.pod.costs.cost_names import Part, Unpriced
from sidecar.pod.costs.decode_now import FEWEST_NEAR, DecodeNow
from sidecar.pod.costs.linear_costs import Costs as StepCosts
from sidecar.pod.costs.steps import Prompt, Step
from sidecar.pod.factor import Factor
from tests.pod.costs.stepping import (
    COSTS,
    FAULT_AT,
    LATER,
    LIMITS,
    MATURE_SECONDS,
    Arrival,
    SteppedEngine,
    broken,
    factors,
    holds,
    lognormal,
    traffic,
)


def test_a_slow_step_weighs_as_much_as_the_quick_ones_of_the_same_time() -> None:
    """Decode has cost four times as much for ten seconds. The ten seconds before had four times as many steps."""
    short = [one._replace(prompt_tokens=20, output_tokens=40) for one in traffic(FAULT_AT + 60, 2.0)]
    at = FAULT_AT + 10.0

    now = SteppedEngine(short, adjust=broken(decode_factor=4.0), noise=lognormal(0.2)).until(at).decode(at, 20.0)

    assert isinstance(now, Factor)
    assert now.low > 2.0


@pytest.mark.long
@pytest.mark.parametrize(
    ("per_second", "prompt_tokens", "output_tokens", "slots"),
    [pytest.param(10.0, 20, 40, 8, id="short prompts"), pytest.param(5.0, 600, 20, 4, id="long prompts")],
)
@pytest.mark.parametrize("after_seconds", [30, 60, 100, 150])
def test_dear_decodes_that_fill_all_slots_at_once_are_told_from_dear_prompts(
    per_second: float, prompt_tokens: int, output_tokens: int, slots: int, after_seconds: int
) -> None:
    """Everything costs three times as much, so requests wait for a slot without end. The pure steps of the minute before tell
    nothing of now.
    """
    at = FAULT_AT + after_seconds
    arrivals = [
        one._replace(prompt_tokens=prompt_tokens, output_tokens=output_tokens) for one in traffic(at, per_second)
    ]
    knobs = {"decode_factor": 3.0, "prefill_factor": 3.0}
    engine = SteppedEngine(arrivals, adjust=[(0.0, {"slots": slots}), *broken(**knobs)], noise=lognormal(0.15))

    now = engine.until(at).decode(at)

    assert engine.seen[-1].waiting > 4
    assert isinstance(now, Factor)
    assert 2.7 < now.value < 3.4


@pytest.mark.long
@pytest.mark.parametrize("window_seconds", [20.0, 60.0])
def test_a_fault_of_both_is_told_as_dear_decodes_from_its_first_seconds_on(window_seconds: float) -> None:
    """The median of a window turns when half of it is the fault's, and a sum at once: until then the prompts alone seemed dearer."""
    arrivals = [one._replace(prompt_tokens=300, output_tokens=40) for one in traffic(FAULT_AT + 30, 4.0)]
    knobs = {"decode_factor": 3.0, "prefill_factor": 3.0}
    engine = SteppedEngine(arrivals, adjust=broken(**knobs), noise=lognormal(0.15))

    before = engine.until(FAULT_AT).decode(FAULT_AT, window_seconds)
    found = [
        engine.until(at).decode(at, window_seconds) for at in (FAULT_AT + after for after in (3.0, 5.0, 8.0, 12.0))
    ]

    assert isinstance(before, Factor)
    assert holds(before, 1.0)
    assert all(isinstance(now, Factor) and 2.4 < now.value < 3.5 for now in found)


def test_a_moment_of_dear_steps_is_no_fault() -> None:
    """Twelve requests came to a real vLLM on two cores at once, and for two seconds its steps took half as long again. The first
    misses were decided in those two seconds, and the page of a queue said decode.
    """
    began_at = FAULT_AT + 10.0
    adjust = [(began_at, {"decode_factor": 1.5}), (began_at + 2.0, {"decode_factor": 1.0})]
    short = [one._replace(prompt_tokens=20, output_tokens=40) for one in traffic(FAULT_AT + 60, 2.0)]
    engine = SteppedEngine(short, adjust=adjust, noise=lognormal(0.1))

    found = [engine.until(began_at + after).decode(began_at + after, 20.0) for after in (1.0, 1.6, 2.0, 2.4, 2.8, 4.0)]

    assert all(isinstance(now, Factor) and now.value < 1.2 for now in found), found


@pytest.mark.long
def test_what_ends_is_told_by_the_whole_window() -> None:
    """Requests that waited through a fault miss their objectives some seconds after its end: it is still their reason."""
    until = FAULT_AT + 60.0
    adjust = [*broken(decode_factor=3.0), (until, {"decode_factor": 1.0})]
    engine = SteppedEngine(traffic(until + 30), adjust=adjust, noise=lognormal(0.15))

    now = engine.until(until + 4.0).decode(until + 4.0, 20.0)

    assert isinstance(now, Factor)
    assert now.value > 2.0


@pytest.mark.long
def test_decodes_that_were_dear_before_all_steps_held_prompts_are_still_dear() -> None:
    """Decode costs three times as much for a minute; then more prompts come than can be computed, and no step is without one. To
    take decodes as usual again would make the prompts look dear.
    """
    calm = traffic(MATURE_SECONDS, 1.0)
    slow = [one._replace(at=one.at + MATURE_SECONDS) for one in traffic(60.0, 0.7, seed=4)]
    rush = [
        one._replace(at=one.at + MATURE_SECONDS + 60, prompt_tokens=2000, output_tokens=4)
        for one in traffic(60.0, 9.0, seed=2)
    ]
    fault = [(MATURE_SECONDS, {"decode_factor": 3.0})]
    engine = SteppedEngine([*calm, *slow, *rush], adjust=fault, noise=lognormal(0.05), learns_until=MATURE_SECONDS)
    at = MATURE_SECONDS + 85.0

    found = factors(engine.until(at), at)

    assert not any(step.pure for step in engine.seen if step.ended_at > at - 10.0)
    assert found[Part.DECODE].low > 2.0
    assert found[Part.PREFILL].low <= 1.05


@pytest.mark.long
def test_steps_that_all_hold_a_full_chunk_of_a_prompt_tell_no_cost_of_decode() -> None:
    """More prompts come than can be computed, and their answers are short: no step is without a chunk, and all steps
    are alike. None of that is dear decode, and the prompts cost what they always did.
    """
    calm = traffic(FAULT_AT)
    rush = [
        one._replace(at=one.at + FAULT_AT, prompt_tokens=3000, output_tokens=10)
        for one in traffic(LATER + 60 - FAULT_AT, 5.0, seed=2)
    ]
    model = SteppedEngine([*calm, *rush]).until(LATER)

    decode, prefill = model.decode(LATER, 20.0), model.prefill(LATER)

    assert decode is Unpriced.FEW or (isinstance(decode, Factor) and decode.low <= 1.0)
    assert isinstance(prefill, Factor)
    assert prefill.value == pytest.approx(1.0, abs=0.25)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("per_second", [2.5, 3.2])
def test_dear_decodes_on_an_engine_whose_prompts_take_many_times_a_step_are_told_to_the_end(
    per_second: float, seed: int
) -> None:
    """Each decode costs seven times as much, and all slots are soon taken, so requests wait without end and no step is known to be pure.
    After a minute nothing was told any more, and the engine's reports, which count the decodes beside a prompt as its prefill, were
    paged as dear prompts.
    """
    costs = replace(COSTS, step_seconds=6e-3, per_sequence_seconds=8e-5, per_prompt_token_seconds=2.2e-4)
    sizes = ((600, 110), (300, 30), (600, 110), (300, 30), (300, 30), (600, 110), (3000, 180))
    arrivals = [
        one._replace(prompt_tokens=sizes[number % 7][0], output_tokens=sizes[number % 7][1])
        for number, one in enumerate(traffic(FAULT_AT + 75, per_second, seed=seed))
    ]
    limits = replace(LIMITS, max_num_batched_tokens=2048)
    engine = SteppedEngine(
        arrivals, adjust=broken(decode_factor=7.0), noise=lognormal(0.05), costs=costs, limits=limits
    )
    ats = [FAULT_AT + after for after in range(16, 75)]

    found = [(engine.until(at).decode(at, 20.0), engine.until(at).prefill(at, 20.0)) for at in ats]

    assert engine.seen[-1].waiting > 8
    assert not any(step.pure for step in engine.seen if step.ended_at > FAULT_AT + 60.0)
    assert [now for now, _ in found if not isinstance(now, Factor) or not 6.5 < now.value < 7.5] == []
    assert sum(isinstance(now, Factor) for _, now in found) > len(found) / 2
    assert [now for _, now in found if isinstance(now, Factor) and now.low > 1.25] == []


@pytest.mark.long
@pytest.mark.parametrize("hiccups", [0.005, 0.02])
def test_hiccups_among_the_chunks_of_long_prompts_make_no_decode_dear(hiccups: float) -> None:
    """All is well. A prompt of 60,000 tokens comes each twelve seconds and fills the steps with chunks that are alike; some steps take two
    and a half times as long. One such step was taken for a proof that the others hold no chunk.
    """
    rng = Random(7)
    limits = replace(LIMITS, max_num_batched_tokens=512, max_model_len=131_072, kv_blocks=40_000)
    costs = replace(COSTS, per_prompt_token_context_seconds=0.0)
    long = [Arrival(FAULT_AT + 12.0 * number, 60_000, 20) for number in range(5)]
    engine = SteppedEngine(
        sorted([*traffic(FAULT_AT + 60, 1.0), *long]),
        noise=lambda: rng.lognormvariate(0.0, 0.02) * (2.5 if rng.random() < hiccups else 1.0),
        limits=limits,
        costs=costs,
    )

    found = [engine.until(at).decode(at, 20.0) for at in (FAULT_AT + after for after in range(2, 60))]

    known = [now for now in found if isinstance(now, Factor)]
    assert len(known) > len(found) / 2
    assert [now for now in known if now.low > 1.25] == []


@pytest.mark.long
@pytest.mark.parametrize("dearer", [1.0, 3.0])
@pytest.mark.parametrize("after_seconds", [4.0, 7.0, 10.0, 12.0])
def test_one_prompt_that_takes_many_seconds_makes_no_decode_dear(after_seconds: float, dearer: float) -> None:
    """Each step of these seconds holds a chunk of it, and no other prompt is computed. That nothing has ended yet is no sign that
    nothing was computed: the prompt that has waited longest explains the steps, also where prompts cost more than usually.
    """
    calm = [one for one in traffic(FAULT_AT + 60, 2.0) if one.at < FAULT_AT - 1]
    long = Arrival(FAULT_AT, 60_000 if dearer == 1.0 else 30_000, 20)
    after = [one for one in traffic(FAULT_AT + 60, 2.0, seed=5) if one.at > FAULT_AT]
    streams = [Arrival(FAULT_AT - 1 + number / 10, 300, 2000) for number in range(6)]
    limits = replace(LIMITS, max_model_len=131_072, kv_blocks=16_384)
    adjust = [(FAULT_AT, {"prefill_factor": dearer})]
    engine = SteppedEngine([*calm, *streams, long, *after], limits=limits, adjust=adjust, noise=lognormal(0.1))
    at = FAULT_AT + after_seconds

    model = engine.until(at)

    assert engine.steps._waiting, "the long prompt is not over"
    assert all(not step.pure for step in engine.seen if step.ended_at > FAULT_AT + 1.0)
    for found in (model.decode(at, 20.0), model.decode(at)):
        assert found is Unpriced.FEW or (isinstance(found, Factor) and found.low <= 1.1)
    assert model._decode_of_seconds(at) == pytest.approx(1.0, abs=0.2)


def test_one_hiccup_is_no_dear_decode() -> None:
    """The engine stood still for 15 s: that is longer than all other steps of 20 s together, and it is one step."""
    engine = SteppedEngine(traffic(FAULT_AT + 60, 0.4))
    engine.until(FAULT_AT)
    pure = next(step for step in reversed(engine.seen) if step.pure and step.seconds)
    engine.model.step(pure._replace(ended_at=FAULT_AT, seconds=15.0, steps=1))

    now = engine.model.decode(FAULT_AT, 20.0)

    assert isinstance(now, Factor)
    assert now.value == pytest.approx(1.0, abs=0.1)


@pytest.mark.long
@pytest.mark.parametrize("window_seconds", [20.0, 60.0])
def test_dear_decodes_that_fill_all_slots_stay_dear_while_pure_steps_end(window_seconds: float) -> None:
    """Each decode costs five times as much, requests soon wait, and no step is known to hold no prompt. Between the last of those that
    are and the tenth second, the steps from before the fault said that decodes cost the usual.
    """
    arrivals = [one._replace(prompt_tokens=600, output_tokens=60) for one in traffic(FAULT_AT + 30, 2.0)]
    engine = SteppedEngine(arrivals, adjust=[(0.0, {"slots": 4}), *broken(decode_factor=5.0)], noise=lognormal(0.1))

    found = [engine.until(FAULT_AT + after).decode(FAULT_AT + after, window_seconds) for after in range(3, 20)]

    assert not any(step.pure for step in engine.seen if step.ended_at > FAULT_AT + 3.0)
    assert all(isinstance(now, Factor) and now.low > 3.5 for now in found), found


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_dear_prompts_that_fill_all_steps_make_no_decode_dear(seed: int) -> None:
    """Each prompt costs seven times as much, so that each step holds a chunk and takes ten times the time of its decodes."""
    arrivals = [one._replace(output_tokens=150) for one in traffic(FAULT_AT + 30, 1.3, seed=seed)]
    engine = SteppedEngine(arrivals, adjust=broken(prefill_factor=7.0), noise=lognormal(0.1))

    for after in range(1, 30):
        now = engine.until(FAULT_AT + after).decode(FAULT_AT + after, 20.0)
        assert now is Unpriced.FEW or (isinstance(now, Factor) and now.low <= 1.2), after


@pytest.mark.long
def test_prompts_of_unknown_length_make_neither_decodes_nor_prompts_dear() -> None:
    """Fourteen prompts of 3,000 tokens come, whose lengths cannot be measured: each step holds a chunk, and nothing says how much. Each
    costs the usual.
    """
    calm = [one for one in traffic(FAULT_AT + 60, 2.0) if one.at < FAULT_AT - 5]
    streams = [Arrival(FAULT_AT - 1 + number / 10, 300, 600) for number in range(4)]
    burst = [Arrival(FAULT_AT + number / 100, 3000, 20, counted=False) for number in range(14)]
    engine = SteppedEngine([*calm, *streams, *burst], noise=lognormal(0.1))

    for after in (1.0, 2.0, 3.0, 4.0, 5.0):
        at = FAULT_AT + after
        found = [engine.until(at).decode(at, 20.0), engine.until(at).prefill(at, 20.0)]
        assert [now for now in found if isinstance(now, Factor) and now.value > 1.2] == [], after
    assert not any(step.pure for step in engine.seen if step.ended_at > FAULT_AT + 1.0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_dear_decodes_among_many_prompts_are_not_told_as_dear_prompts(seed: int) -> None:
    """More prompts come than can be computed, each for its usual cost, and each decode costs five times as much: no step is free of
    prompts, so for seconds it is open which of the two is dear.
    """
    rush = [one._replace(at=one.at + FAULT_AT) for one in traffic(30.0, 9.0, seed=seed + 50)]
    fault = [(FAULT_AT + 10.0, {"decode_factor": 5.0})]
    engine = SteppedEngine([*traffic(FAULT_AT, seed=seed), *rush], adjust=fault, noise=lognormal(0.1))
    ats = [FAULT_AT + 10.0 + after for after in range(1, 16)]

    found = [(engine.until(at).decode(at, 20.0), engine.until(at).prefill(at, 20.0)) for at in ats]

    assert [now for _, now in found if isinstance(now, Factor) and now.low > 1.25] == []
    assert sum(isinstance(now, Factor) and now.low > 1.25 for now, _ in found) > 5


@pytest.mark.parametrize(
    ("prompt_seconds", "known"),
    [
        pytest.param((3.0, 0.0), False, id="it may have been computed before, and then the decodes are dear"),
        pytest.param((0.1, 3.0), True, id="it began after another had ended, and leaves nothing for decodes"),
        pytest.param((0.1, 2.8), False, id="it leaves time for decodes at five times their cost"),
        pytest.param((0.0, 0.0), True, id="so dear decodes never are"),
    ],
)
def test_whether_a_prompt_that_ended_explains_the_last_seconds_depends_on_when_it_began(
    prompt_seconds: tuple[float, float], known: bool
) -> None:
    """Five steps of 0.6 s, whose decodes usually take 10 ms: prompts ended with the first and the last, and none is in work."""
    now, usual = DecodeNow(), StepCosts(step=0.01, per_sequence=0.0, per_context_token=0.0)
    for number in range(5):
        seconds = {0: prompt_seconds[0], 4: prompt_seconds[1]}.get(number, 0.0)
        prompts = (Prompt(100.0, 100.0),) if seconds else ()
        ended_at = 100.0 + 0.6 * number
        step = Step(ended_at, 0.6, 1, 4, 800.0, coverage=1.0, pure=False, waiting=3, prompts=prompts)
        now.add(step, 0.6, seconds, 0.0)

    assert now.known(102.4, usual, 1.0) is known


@pytest.mark.long
@pytest.mark.parametrize(
    ("pure_seconds", "kept"),
    [
        pytest.param(5.0, False, id="decodes are dear after them"),
        pytest.param(3.0, False, id="decodes are nearer to dear after them"),
        pytest.param(1.3, True, id="decodes are nearer to the usual after them"),
        pytest.param(1.0, True, id="decodes cost the usual after them"),
    ],
)
def test_steps_that_dear_decodes_may_explain_tell_of_prompts_once_decodes_are_seen(
    pure_seconds: float, kept: bool
) -> None:
    """Four times, all steps of some seconds may hold a part of one long prompt and take five times their decodes. The step after them holds
    none, and tells which of the two it was.
    """
    engine = SteppedEngine(traffic(FAULT_AT + 60))
    model, at = engine.until(FAULT_AT), FAULT_AT
    usual = model.costs
    assert usual is not None
    seconds = 5.0 * usual.decode_seconds(8, 8000.0)
    prompt = Prompt(6000.0, 6000.0)
    mixed = Step(at, seconds, 1, 8, 8000.0, coverage=1.0, pure=False, waiting=3, prompts=(), begun=prompt)
    for _ in range(4):
        for _ in range(round(4.0 / seconds)):
            at += seconds
            model.step(mixed._replace(ended_at=at))
        at += seconds
        model.step(mixed._replace(ended_at=at, prompts=(prompt,), begun=None))
        after = pure_seconds * usual.decode_seconds(8, 8000.0)
        at += after
        model.step(mixed._replace(ended_at=at, seconds=after, pure=True, begun=None))

    now = model.prefill(at, 20.0)

    assert isinstance(now, Factor), "there are prompts from before"
    assert (now.low > 1.5) is kept
    assert (now.high < 1.1) is not kept


def test_few_pure_steps_go_on_telling_decodes_on_a_slow_engine() -> None:
    """A real vLLM whose share of the processor was cut: all costs three times as much, and in three seconds there are fewer than ten
    pure steps. As decodes were not told for seconds, and prompts were dear too, it was paged as prefill.
    """
    slow = replace(COSTS, step_seconds=0.1)
    short = [one._replace(prompt_tokens=20, output_tokens=20) for one in traffic(FAULT_AT + 40, 2.0)]
    knobs = {"decode_factor": 3.0, "prefill_factor": 3.0}
    engine = SteppedEngine(short, adjust=broken(**knobs), noise=lognormal(0.1), costs=slow)
    ats = [FAULT_AT + after for after in range(1, 30)]

    found = [engine.until(at).decode(at, 20.0) for at in ats]

    pure = [step.ended_at for step in engine.seen if step.pure]
    assert max(sum(at - 3.0 < ended_at <= at for ended_at in pure) for at in ats[4:]) < FEWEST_NEAR
    assert [at - FAULT_AT for at, now in zip(ats, found, strict=True) if not isinstance(now, Factor)] == []
    assert all(isinstance(now, Factor) and now.low > 2.0 for now in found[20:])
