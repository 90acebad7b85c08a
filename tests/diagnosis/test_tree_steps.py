"""The order of the steps: none against what has not grown, none that excludes one before it, projects after the rest."""

from itertools import combinations, product

import pytest

from sidecar.commands.diagnose.terminal import MOST_STEPS, MOST_STEPS_SECOND
from sidecar.diagnosis.document import document
from sidecar.diagnosis.findings import Diagnosis, Step
from sidecar.diagnosis.interventions import CHAPTERS
from sidecar.diagnosis.levers import Cost
from sidecar.diagnosis.measured import Latency, Load, Measured, Regime
from sidecar.diagnosis.tree import diagnose
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause
from tests.support.measured import BROKEN, RATIOS, WELL, live, verdict


SLOW_TOKENS = Latency(p99_seconds=0.2, samples=5000, threshold_seconds=0.08, misses=40.0, burn=3.0)
LOADS = (Load(running=2.0), Load(running=64.0, waiting=9.0), Load())


def case(phase: str, cause: Cause | None, **told: object) -> Measured:
    """A lane in this phase, with a baseline against which only its cause has grown."""
    ratios = dict.fromkeys(RATIOS, 1.0) | ({cause: 2.0} if cause in RATIOS else {})
    one = verdict(phase, cause)
    if phase in (Blame.DECODE, Blame.STREAM):
        slow = {"ttft": WELL, "inter_token": SLOW_TOKENS, "verdicts": {Objective.TPOT: one}}
        return live(one, **{"ratios": ratios, **slow, **told})
    return live(one, **{"ratios": ratios, **told})


def printed(found: Diagnosis) -> list[Step]:
    phases = {found.phase, *found.candidates}
    return [
        *[step for step in found.steps if step.phase in phases][:MOST_STEPS],
        *[step for step in found.steps if step.phase not in phases][:MOST_STEPS_SECOND],
    ]


@pytest.mark.parametrize(("phase", "cause"), list(product(CHAPTERS, (None, *Cause))))
def test_the_first_advice_is_never_against_causes_that_have_not_grown(phase: str, cause: Cause | None) -> None:
    """A card that says "Not grown: prompt_mix" must not begin with a fix against longer prompts."""
    for load, regime in product(LOADS, (None, *Regime)):
        told = case(phase, cause, load=load, regime=regime)
        still = {str(of) for of, ratio in told.ratios.items() if ratio == 1.0}

        first = diagnose(told).steps[0].what

        assert not set(first.targets) <= still, first.name


def test_the_steps_of_the_second_phase_are_for_its_own_cause() -> None:
    told = live(
        verdict(Blame.PREFILL, Cause.PREFILL_COST),
        ttft=BROKEN,
        inter_token=SLOW_TOKENS,
        verdicts={
            Objective.TTFT: verdict(Blame.PREFILL, Cause.PREFILL_COST),
            Objective.TPOT: verdict(Blame.DECODE, Cause.DECODE_COST),
        },
    )

    first = next(step for step in diagnose(told).steps if step.phase == Blame.DECODE)

    assert {"decode_cost", "decode"} & set(first.what.targets), first.what.name


@pytest.mark.parametrize("engine", [None, "vllm", "sglang", "tensorrt_llm", "tgi"])
@pytest.mark.parametrize("phase", CHAPTERS)
def test_no_two_printed_steps_exclude_each_other(phase: str, engine: str | None) -> None:
    both = []
    for cause, load, regime in product((None, *Cause), LOADS, (None, *Regime)):
        steps = printed(diagnose(case(phase, cause, load=load, regime=regime, engine=engine)))
        both += [(a.what.name, b.what.name) for a, b in combinations(steps, 2) if b.what.name in a.what.conflicts]

    assert both == []


@pytest.mark.parametrize("cause", [Cause.LOAD, Cause.DECODE_COST])
def test_no_project_comes_before_what_takes_less(cause: Cause) -> None:
    """A smaller model fits a small batch, and is still no first step."""
    steps = printed(diagnose(case(Blame.DECODE, cause, load=Load(running=2.0))))

    assert steps[0].what.cost is not Cost.PROJECT
    assert document([diagnose(case(Blame.DECODE, cause))])["diagnoses"][0]["steps"]
