"""The model names what has become dearer, decode or prefill, and how sure it is; or it says why it cannot."""

import itertools
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from sidecar.pod.costs.cost_names import Part, Unpriced
from sidecar.pod.costs.step_model import TYPICAL_CONTEXT, TYPICAL_SEQUENCES, StepModel
from sidecar.pod.costs.waits import Doing
from sidecar.pod.factor import Factor
from tests.pod.costs.stepping import (
    CALM_SECONDS,
    COSTS,
    FAULT_AT,
    LATER,
    LIMITS,
    MATURE_SECONDS,
    SteppedEngine,
    broken,
    factors,
    holds,
    lognormal,
    traffic,
)


def test_a_well_engine_costs_what_it_used_to() -> None:
    model = SteppedEngine(traffic(LATER + 60)).until(LATER)

    assert all(holds(factor, 1.0) for factor in factors(model, LATER).values())


@pytest.mark.parametrize(
    "sigma", [pytest.param(0.0, marks=pytest.mark.long), 0.12, pytest.param(0.2, marks=pytest.mark.long)]
)
@pytest.mark.parametrize(
    ("knobs", "decode", "prefill"),
    [
        pytest.param({"decode_factor": 2.0}, 2.0, 1.0, id="decode twice"),
        pytest.param({"prefill_factor": 2.0}, 1.0, 2.0, id="prefill twice"),
        pytest.param({"decode_factor": 1.6, "prefill_factor": 3.0}, 1.6, 3.0, id="both"),
    ],
)
def test_what_has_become_dearer_is_named_with_its_size(
    knobs: dict[str, float], decode: float, prefill: float, sigma: float
) -> None:
    noise = lognormal(sigma) if sigma else None
    model = SteppedEngine(traffic(LATER + 60), adjust=broken(**knobs), noise=noise).until(LATER)

    found = factors(model, LATER)

    assert found[Part.DECODE].value == pytest.approx(decode, rel=0.05)
    assert found[Part.PREFILL].value == pytest.approx(prefill, rel=0.15)
    assert found[Part.DECODE].low > 1.0 or decode == 1.0
    assert found[Part.PREFILL].low > 1.0 or prefill == 1.0


@pytest.mark.long
@pytest.mark.parametrize("lag_seconds", [0.0, 0.003], ids=["at once", "3 ms late"])
def test_what_is_done_while_short_prompts_wait_is_known_also_where_first_tokens_are_read_late(
    lag_seconds: float,
) -> None:
    """Prompts are in most steps: the engine computes, and no request waits in front of it."""
    calm = [one._replace(prompt_tokens=60, output_tokens=30) for one in traffic(FAULT_AT, 6.0)]
    rush = [
        one._replace(at=one.at + FAULT_AT, prompt_tokens=60, output_tokens=30)
        for one in traffic(LATER - FAULT_AT, 20.0, seed=2)
    ]

    def late(reads: list[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
        begun = set[int]()
        found = []
        for at, key, events in reads:
            found.append((at + lag_seconds * (key not in begun), key, events))
            begun.add(key)
        return sorted(found)

    model = SteppedEngine([*calm, *rush], deliver=late, noise=lognormal(0.1)).until(LATER)

    doing = model.while_waiting(LATER)
    assert doing is not None
    assert doing.computes > 0.4


@pytest.mark.long
@pytest.mark.parametrize("knobs", [{"slots": 3}, {"slots": 16}], ids=["few slots", "overload"])
def test_more_load_or_less_room_makes_nothing_dearer(knobs: dict[str, int]) -> None:
    """Requests wait for minutes, steps are full of prompts, and each step costs what its batch always cost."""
    calm = traffic(FAULT_AT)
    rush = [one._replace(at=one.at + FAULT_AT) for one in traffic(LATER + 60 - FAULT_AT, 6.0, seed=2)]
    model = SteppedEngine([*calm, *rush], adjust=broken(**knobs)).until(LATER)

    found = factors(model, LATER)

    assert found[Part.DECODE].low <= 1.0 <= found[Part.DECODE].high
    assert found[Part.PREFILL].low <= 1.1


@pytest.mark.long
def test_prompts_whose_answers_cannot_be_seen_are_counted_all_the_same() -> None:
    """A third of the answers is not streamed: their prompts take part in the steps that others wait for."""
    model = SteppedEngine(traffic(LATER + 60, unseen=0.33)).until(LATER)

    assert holds(factors(model, LATER)[Part.PREFILL], 1.0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_engine_that_stands_still_now_and_then_makes_no_prompt_dearer(seed: int) -> None:
    """One step in 800 takes a second and a half: some stretches of prompts hold one, and most hold none."""
    rng, steps = Random(seed), itertools.count()
    stalls = lambda: 150.0 if next(steps) > 20_000 and rng.random() < 1 / 800 else 1.0  # noqa: E731
    model = SteppedEngine(traffic(LATER + 60), noise=stalls).until(LATER)

    found = factors(model, LATER)
    assert found[Part.DECODE].low < 1.1
    assert found[Part.PREFILL].low < 1.1


@pytest.mark.long
@pytest.mark.parametrize("held", [0.05, 0.1])
def test_a_few_answers_that_arrive_whole_teach_nothing(held: float) -> None:
    """Their decode is hidden in the wait for their first event. Learned from, it would be called prefill."""
    model = SteppedEngine(traffic(LATER + 60, held=held)).until(LATER)

    assert all(holds(factor, 1.0) for factor in factors(model, LATER).values())


@pytest.mark.parametrize("held", [0.5, 0.8])
def test_where_many_answers_arrive_whole_it_says_nothing(held: float) -> None:
    """Most sequences of a step are not seen then."""
    model = SteppedEngine(traffic(LATER + 60, held=held)).until(LATER)

    assert (model.decode(LATER), model.prefill(LATER)) == (Unpriced.COVERAGE, Unpriced.COVERAGE)


@pytest.mark.long
def test_reads_that_bring_two_tokens_change_nothing() -> None:
    """A third of the events comes with the next event of its stream."""

    def merged(reads: list[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
        rng, held, found = Random(3), dict[int, int](), list[tuple[float, int, int]]()
        for at, key, events in reads:
            if key in held or rng.random() > 0.3:
                found.append((at, key, events + held.pop(key, 0)))
            else:
                held[key] = events
        return found

    model = SteppedEngine(traffic(LATER + 60), adjust=broken(decode_factor=2.0), deliver=merged).until(LATER)

    assert factors(model, LATER)[Part.DECODE].value == pytest.approx(2.0, rel=0.05)


def test_a_stream_that_speaks_at_every_fourth_step_says_nothing() -> None:
    """stream_interval 4, or two schedulers: steps cannot be rebuilt, and the model says so and not 4 x."""

    def every_fourth(reads: list[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
        seen: dict[int, int] = {}
        found = []
        for at, key, events in reads:
            seen[key] = seen.get(key, -1) + 1
            if seen[key] % 4 == 0:
                found.append((at, key, events))
        return found

    model = SteppedEngine(traffic(LATER + 60), deliver=every_fourth).until(LATER)

    assert (model.decode(LATER), model.prefill(LATER)) == (Unpriced.COVERAGE, Unpriced.COVERAGE)


@pytest.mark.long
def test_steps_without_a_pattern_say_nothing() -> None:
    model = SteppedEngine(traffic(LATER + 60), noise=lognormal(0.9)).until(LATER)

    assert model.decode(LATER) is Unpriced.RESIDUALS


def test_a_young_process_and_an_idle_one_say_so() -> None:
    engine = SteppedEngine(traffic(CALM_SECONDS))

    assert engine.until(0.5).decode(0.5) is Unpriced.YOUNG
    assert engine.until(1000.0).decode(1000.0) is Unpriced.FEW
    assert engine.until(1000.0).prefill(1000.0) is Unpriced.FEW


def test_nothing_is_learned_from_a_fault() -> None:
    """Decode has been dear from the start, and objectives burn: what is seen now never becomes the usual cost."""
    model = SteppedEngine(traffic(LATER), adjust=[(0.0, {"decode_factor": 3.0})], learns_until=0.0).until(LATER)

    assert model.decode(LATER) is Unpriced.YOUNG


@pytest.mark.long
def test_a_fault_that_no_objective_notices_does_not_become_usual() -> None:
    """Thresholds are loose: decode and prefill take twice as long for ten minutes, and no objective burns."""
    doubled = [(MATURE_SECONDS, {"decode_factor": 2.0, "prefill_factor": 2.0})]
    engine = SteppedEngine(traffic(MATURE_SECONDS + 700.0), adjust=doubled, learns_until=float("inf"))
    later = MATURE_SECONDS + 600.0

    found = factors(engine.until(later), later)

    assert found[Part.DECODE].value == pytest.approx(2.0, rel=0.05)
    assert found[Part.PREFILL].value == pytest.approx(2.0, rel=0.2)


@pytest.mark.long
def test_another_cost_is_the_usual_one_once_it_has_lasted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that makes work dearer and keeps all objectives; it has lasted after an hour here, and not after a week."""
    lasting_seconds = 3600.0
    monkeypatch.setattr("sidecar.pod.usual.cost_guard.LASTING_SECONDS", lasting_seconds)
    at, later = MATURE_SECONDS, MATURE_SECONDS + lasting_seconds + 600.0
    calm = traffic(at, 1.0)
    slower = [one._replace(at=one.at + at) for one in traffic(later + 60.0 - at, 0.25, seed=4)]
    engine = SteppedEngine([*calm, *slower], adjust=[(at, {"decode_factor": 2.0})], learns_until=float("inf"))

    soon = engine.until(at + 1800.0).decode(at + 1800.0)
    late = engine.until(later).decode(later)

    assert isinstance(soon, Factor)
    assert isinstance(late, Factor)
    assert soon.low > 1.5
    assert late.value == pytest.approx(1.0, rel=0.05)


@pytest.mark.long
def test_a_batch_larger_than_any_before_is_learned_from() -> None:
    """The first peak of a day: beyond eight sequences a step takes 1.6 times what smaller batches let expect."""
    engine = SteppedEngine(traffic(MATURE_SECONDS, 0.3), learns_until=float("inf"))
    engine.until(MATURE_SECONDS)
    before = engine.model.costs
    peak = SteppedEngine(traffic(MATURE_SECONDS, 3.0, seed=9), learns_until=float("inf"))
    peak.until(MATURE_SECONDS)
    wide = [step for step in peak.seen if step.pure and step.seconds and step.sequences > 8]
    for step in wide:
        engine.model.step(step._replace(ended_at=step.ended_at + MATURE_SECONDS, seconds=(step.seconds or 0.0) * 1.6))

    assert before is not None
    assert engine.model.costs is not None
    assert engine.model.costs.decode_seconds(12, 20_000.0) > 1.2 * before.decode_seconds(12, 20_000.0)


@pytest.mark.long
def test_the_cost_of_a_typical_step_needs_no_past() -> None:
    """Two pods are compared by it: it is the cost that the engine has now, whatever it had before."""
    usual = COSTS.decode(TYPICAL_SEQUENCES, TYPICAL_SEQUENCES * TYPICAL_CONTEXT)

    for knobs, times in (({"decode_factor": 1.0}, 1.0), ({"decode_factor": 2.0}, 2.0)):
        model = SteppedEngine(traffic(LATER + 60), adjust=broken(**knobs)).until(LATER)
        assert model.step_seconds(LATER) == pytest.approx(times * usual, rel=0.1)
    assert StepModel().step_seconds(LATER) is None
    assert LIMITS.max_num_seqs >= TYPICAL_SEQUENCES


@pytest.mark.long
def test_a_new_process_of_the_engine_is_compared_with_the_old_one() -> None:
    engine = SteppedEngine(traffic(LATER + 60), adjust=broken(decode_factor=2.0))
    engine.until(FAULT_AT)
    engine.steps.forget()
    engine.model.forget()

    assert engine.model.decode(FAULT_AT) is Unpriced.FEW
    assert factors(engine.until(LATER), LATER)[Part.DECODE].value == pytest.approx(2.0, rel=0.05)


# --- while requests wait -------------------------------------------------------------------------------------------------


def waiting(per_second: float = 1.5, *, front_seconds: float = 0.0, **knobs: Any) -> Doing:
    """The work of an engine on which something changed two minutes ago."""
    rush = [one._replace(at=one.at + FAULT_AT) for one in traffic(LATER + 60 - FAULT_AT, per_second, seed=2)]
    engine = SteppedEngine([*traffic(FAULT_AT), *rush], adjust=broken(**knobs), front_seconds=front_seconds)
    found = engine.until(LATER).while_waiting(LATER)
    assert found is not None
    return found


@pytest.mark.long
def test_contexts_that_are_not_counted_yet_make_no_decode_dearer() -> None:
    """A sidecar that began anew knows what steps cost, and not yet how long prompts are: the first ones count as one token."""
    costs = replace(COSTS, per_kv_token_seconds=1e-6)
    usual = SteppedEngine(traffic(CALM_SECONDS), costs=costs).until(CALM_SECONDS)
    arrivals = [one._replace(counted=number >= 20) for number, one in enumerate(traffic(60.0, seed=2))]
    anew = SteppedEngine(arrivals, costs=costs, learns_until=0.0)
    anew.model = usual
    anew.model.forget()
    told = [anew.until(float(at)).decode(float(at)) for at in range(1, 60)]
    known = [each for each in told if isinstance(each, Factor)]

    assert len(known) > 20
    assert max(each.low for each in known) < 1.1


@pytest.mark.long
def test_while_requests_wait_for_dear_prompts_nearly_each_step_holds_some() -> None:
    assert waiting(prefill_factor=6.0).computes > 0.85


def test_while_requests_wait_for_a_slot_the_batch_is_full_and_few_steps_hold_prompts() -> None:
    doing = waiting(slots=3)

    assert doing.computes < 0.5
    assert (doing.full or 0.0) > 0.6


def test_while_requests_wait_for_dear_decodes_steps_do_not_look_like_prompts() -> None:
    assert waiting(slots=3, decode_factor=3.0).computes < 0.5


@pytest.mark.long
def test_while_requests_wait_in_front_of_the_engine_steps_hold_few_prompts_and_the_batch_has_room() -> None:
    doing = waiting(front_seconds=4.0)

    assert doing.computes < 0.4
    assert doing.full is not None
    assert doing.full < 0.5


@pytest.mark.long
@pytest.mark.parametrize("sigma", [0.05, 0.2])
def test_steps_that_never_hold_a_prompt_tell_nothing_of_those_who_wait_for_prompts(sigma: float) -> None:
    """Prompts are computed by another process, and take longer there: no step here holds any, and the batch has room. It
    looks as if requests waited in front of the engine.
    """
    elsewhere = replace(COSTS, per_prompt_token_seconds=0.0, per_prompt_token_context_seconds=0.0)
    engine = SteppedEngine(traffic(LATER + 60), costs=elsewhere, noise=lognormal(sigma), front_seconds=4.0)
    model = engine.until(LATER)

    assert isinstance(model.decode(LATER), Factor)
    assert model.while_waiting(LATER) is None


@pytest.mark.long
def test_prompts_whose_cost_scatters_are_not_hidden_from_the_steps() -> None:
    """Short prompts on noisy steps have no sure cost each, and still take longer in sum: three slots show as such."""
    rush = [one._replace(at=one.at + FAULT_AT) for one in traffic(LATER + 60 - FAULT_AT, seed=2)]
    short = [one._replace(prompt_tokens=60) for one in [*traffic(FAULT_AT), *rush]]
    model = SteppedEngine(short, adjust=broken(slots=3), noise=lognormal(0.3)).until(LATER)

    doing = model.while_waiting(LATER)
    assert model.prefill(LATER) is Unpriced.RESIDUALS
    assert doing is not None
    assert doing.computes < 0.5
    assert (doing.full or 0.0) > 0.9


@pytest.mark.long
def test_on_an_engine_that_is_well_hardly_a_request_waits() -> None:
    model = SteppedEngine(traffic(LATER + 60)).until(LATER)

    assert model.while_waiting(LATER) is None


def test_without_costs_no_step_tells_what_requests_wait_for() -> None:
    model = SteppedEngine(traffic(30.0, 6.0)).until(30.0)

    assert model.unknown is Unpriced.YOUNG
    assert model.while_waiting(30.0) is None
