"""Dear prompts are told while they fill all steps: by the stretch that has not ended, and no longer than it speaks for now."""

import pytest

from sidecar.pod.costs.cost_names import Unpriced
from sidecar.pod.factor import Factor
from tests.pod.costs.stepping import FAULT_AT, SteppedEngine, broken, lognormal, traffic


@pytest.mark.long
@pytest.mark.parametrize("after_seconds", [14.0, 17.0, 20.0])
def test_dear_prompts_that_fill_all_steps_are_told_before_a_step_is_free_of_them(after_seconds: float) -> None:
    """Each prompt costs seven times as much from now on, and so more come than can be computed. The stretches that are over say of
    prompts that they cost the usual: the open one tells, of which the prompt in work counts as a whole.
    """
    at = FAULT_AT + after_seconds
    arrivals = [one._replace(output_tokens=150) for one in traffic(at + 30, 2.0, seed=3)]
    engine = SteppedEngine(arrivals, adjust=broken(prefill_factor=7.0), noise=lognormal(0.1))

    now = engine.until(at).prefill(at, 20.0)

    assert not any(step.pure for step in engine.seen if step.ended_at > FAULT_AT + 2.0)
    assert isinstance(now, Factor)
    assert now.low > 1.2


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_an_open_stretch_makes_no_usual_prompt_dear(seed: int) -> None:
    """For a minute more prompts come than can be computed, each for its usual cost: at no time do they seem dear."""
    calm = traffic(FAULT_AT, seed=seed)
    rush = [one._replace(at=one.at + FAULT_AT) for one in traffic(60.0, 9.0, seed=seed + 50)]
    engine = SteppedEngine([*calm, *rush], noise=lognormal(0.1))

    found = [engine.until(FAULT_AT + after).prefill(FAULT_AT + after, 20.0) for after in range(1, 60)]

    known = [now for now in found if isinstance(now, Factor)]
    assert len(known) > len(found) / 2
    assert [now for now in known if now.low > 1.2] == []


def test_an_open_stretch_grows_old_too() -> None:
    """Prompts were three times as dear when the engine stopped in the middle of a step: a minute and a half later that tells nothing."""
    at = FAULT_AT + 15.0
    rush = [one._replace(at=one.at + FAULT_AT) for one in traffic(15.0, 6.0, seed=7)]
    engine = SteppedEngine([*traffic(FAULT_AT), *rush], adjust=broken(prefill_factor=3.0), noise=lognormal(0.1))
    model = engine.until(at)

    assert isinstance(model.prefill(at, 20.0), Factor)
    assert model.prefill(engine.seen[-1].ended_at + 21.0, 20.0) is Unpriced.FEW
    assert model.prefill(engine.seen[-1].ended_at + 91.0) is Unpriced.FEW
