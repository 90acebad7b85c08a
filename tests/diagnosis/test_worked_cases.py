"""The worked cases of the diagnosis, given by hand: as they are, with each number a fifth larger or smaller, and with one
number moved across a threshold."""

from collections.abc import Mapping, Sequence
from itertools import product

import pytest

from sidecar.commands.diagnose import by_hand
from sidecar.commands.diagnose.terminal import MOST_STEPS
from sidecar.diagnosis.findings import Diagnosis, Outcome, State, Step
from sidecar.diagnosis.levers import Cost, Lever
from sidecar.diagnosis.tree import DEFERRED, diagnose
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import CAUSES_BY_PHASE, Cause


SLOW_FIRST = {"e2e-p99": "8s", "ttft-p99": "7s", "tpot-p99": "50ms"}
SLOW_TOKENS = {"e2e-p99": "8s", "ttft-p99": "200ms", "tpot-p99": "250ms"}
DUMP = {
    "ttft-p99": "3.2s",
    "tpot-p99": "80ms",
    "rate": "60",
    "prompt-mean": "2200",
    "output-mean": "180",
    "model-size": "13b",
    "gpus": "2xA100",
}
QUEUED = {"ttft-p99": "5s", "queue-p99": "4.8s", "tpot-p99": "40ms"}
UNITS = ("ms", "s", "b")


def told(flags: Mapping[str, str]) -> Diagnosis:
    measured, errors = by_hand.read(flags)
    assert errors == []
    return diagnose(measured)


def scaled(flags: Mapping[str, str]) -> list[dict[str, str]]:
    """Variants of a case: itself, each number alone a fifth up and down, all numbers together, and every two numbers."""
    numbers = [name for name in flags if name != "gpus"]
    factors: list[dict[str, float]] = [{}]
    factors += [{name: factor} for name in numbers for factor in (0.8, 1.2)]
    factors += [dict.fromkeys(numbers, factor) for factor in (0.8, 1.2)]
    factors += [
        {one: first, other: second}
        for place, one in enumerate(numbers)
        for other in numbers[place + 1 :]
        for first, second in product((0.8, 1.2), repeat=2)
    ]
    return [{name: times(text, by.get(name, 1.0)) for name, text in flags.items()} for by in factors]


def times(text: str, factor: float) -> str:
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    return text if factor == 1.0 else f"{float(text.removesuffix(unit)) * factor:.6f}{unit}"


def founded(steps: Sequence[Step]) -> list[Step]:
    """The steps against causes of a queue without those that need evidence, and those that exclude one of the first: both stand at the end."""
    firsts = {name for step in steps[:MOST_STEPS] for name in step.what.conflicts}
    aimed = {*CAUSES_BY_PHASE[Blame.QUEUE]}
    return [
        step
        for step in steps
        if aimed & {*step.what.targets} and not step.what.evidence and step.what.name not in firsts
    ]


def named(case: str, flags: Mapping[str, str]) -> list[object]:
    return [pytest.param(one, id=f"{case}-{number}") for number, one in enumerate(scaled(flags))]


@pytest.mark.parametrize("flags", named("slow first token", SLOW_FIRST))
def test_7_of_8_seconds_before_the_first_token_are_queue_or_prefill(flags: Mapping[str, str]) -> None:
    found = told(flags)

    assert (found.first, found.phase, found.candidates) == (
        Objective.TTFT,
        Blame.UNATTRIBUTED,
        (Blame.QUEUE, Blame.PREFILL),
    )
    assert found.confidence is None
    assert found.questions[0].how.startswith("--queue-p99")
    assert {step.phase for step in found.steps} >= {Blame.QUEUE, Blame.PREFILL}


@pytest.mark.parametrize("flags", named("slow tokens", SLOW_TOKENS))
def test_200_milliseconds_and_then_250_between_tokens_are_decode(flags: Mapping[str, str]) -> None:
    found = told(flags)

    assert (found.first, found.phase, found.second) == (Objective.TPOT, Blame.DECODE, None)
    assert (found.ttft.state, found.inter_token.state) == (State.MET, State.BROKEN)
    assert {step.phase for step in found.steps} == {Blame.DECODE}


@pytest.mark.parametrize("flags", named("dump", DUMP))
def test_the_dump_of_a_13b_is_first_about_the_first_token(flags: Mapping[str, str]) -> None:
    """Ranked interventions with what they depend on, decode second and deferred, and the queue wait asked for."""
    found = told(flags)

    assert (found.first, found.phase, found.candidates) == (
        Objective.TTFT,
        Blame.UNATTRIBUTED,
        (Blame.QUEUE, Blame.PREFILL),
    )
    assert found.cause is Cause.LOAD
    assert found.second is not None
    assert found.second.phase is Blame.DECODE
    assert found.second.state in (State.NEAR, State.BROKEN)
    assert found.questions[0].how.startswith("--queue-p99")
    first = [step for step in found.steps if step.phase is not Blame.DECODE]
    later = [step for step in found.steps if step.phase is Blame.DECODE]
    assert found.steps == (*first, *later)
    assert [step for step in later if DEFERRED not in step.after] == []
    assert [step for step in first if DEFERRED in step.after] == []
    assert any(step.after for step in first)
    assert first[0].what.cost is Cost.MINUTES


@pytest.mark.parametrize("flags", named("queued", QUEUED))
def test_a_queue_of_nearly_the_whole_first_token_is_a_setting_and_no_quantisation(flags: Mapping[str, str]) -> None:
    found = told(flags)

    assert (found.first, found.phase) == (Objective.TTFT, Blame.QUEUE)
    causes = {Blame.QUEUE, *CAUSES_BY_PHASE[Blame.QUEUE]}
    aimed = [step for step in found.steps if causes & {*step.what.targets}]
    assert {step.what.cost for step in found.steps[:MOST_STEPS]} <= {Cost.MINUTES, Cost.RESTART}
    assert [step for step in found.steps[: len(aimed) - 1] if step.what.evidence] == []
    assert [step.what.name for step in found.steps if step not in aimed] == [
        "look-for-a-slow-gpu",
        "cordon-the-slow-node",
    ]
    assert found.steps[0].what.cost is Cost.MINUTES
    assert [step.what.name for step in found.steps if "weights" in step.what.name] == []
    assert "Quantise the model" in [item.do for item in found.not_to_do]


@pytest.mark.parametrize("changed", [{}, {"running": "2"}, {"rate": "0.1", "output_mean": "200"}])
def test_slow_tokens_after_a_first_one_in_time_are_met_by_drafts(changed: Mapping[str, str]) -> None:
    """Speculative decoding is among the steps that are printed, and fewer bits of weights are the follow-up."""
    levers = [step.what.lever for step in flipped(SLOW_TOKENS, **changed).steps]

    assert Lever.SPECULATIVE_DECODING in levers[:MOST_STEPS]
    assert Lever.QUANTISATION in levers[MOST_STEPS:]


@pytest.mark.parametrize("changed", [{"running": "64"}, {"rate": "60", "output_mean": "200"}])
def test_slow_tokens_of_a_full_batch_are_not(changed: Mapping[str, str]) -> None:
    levers = [step.what.lever for step in flipped(SLOW_TOKENS, kv_usage="90%", **changed).steps]

    assert Lever.SPECULATIVE_DECODING not in levers[:MOST_STEPS]


def test_slow_tokens_of_a_full_batch_may_be_wide_steps_as_well_as_dear_ones() -> None:
    first = flipped(SLOW_TOKENS, running="64", kv_usage="90%").steps[:MOST_STEPS]

    assert {"route-by-running-requests", "smaller-batch"} <= {step.what.name for step in first}


def test_where_more_prompts_arrive_than_the_gpus_can_compute_no_setting_comes_before_the_question_for_more_gpus() -> (
    None
):
    """The card says that the queue cannot drain, so the first step states how many replicas it takes."""
    step = told(DUMP).steps[0]

    assert (step.what.name, step.told is not None and "at least 6 such replicas" in step.told) == (
        "hold-demand-against-the-ceiling",
        True,
    )


# --- one number flipped across a branch ----------------------------------------------------------------------------------


def flipped(flags: Mapping[str, str], **changed: str) -> Diagnosis:
    return told({**flags, **{name.replace("_", "-"): text for name, text in changed.items()}})


def test_a_short_queue_sends_the_blame_to_the_prompt() -> None:
    found = flipped(QUEUED, queue_p99="300ms")

    assert found.phase is Blame.PREFILL
    assert found.questions[0].how.startswith("--prefill-p99")


def test_a_short_queue_and_a_short_prefill_leave_the_front_end() -> None:
    assert flipped(QUEUED, queue_p99="300ms", prefill_p99="200ms").phase is Blame.FIRST_TOKEN


def test_a_told_queue_splits_the_dump() -> None:
    phases = [flipped(DUMP, queue_p99=wait).phase for wait in ("2.9s", "100ms")]

    assert phases == [Blame.QUEUE, Blame.PREFILL]


def test_requests_that_wait_split_it_too_by_littles_law() -> None:
    phases = [flipped(DUMP, waiting=count).phase for count in ("180", "1")]

    assert phases == [Blame.QUEUE, Blame.PREFILL]


def test_a_first_token_in_time_leaves_the_gaps() -> None:
    assert flipped(SLOW_FIRST, ttft_p99="900ms", tpot_p99="250ms").phase is Blame.DECODE


def test_both_numbers_well_are_no_case() -> None:
    found = flipped(SLOW_TOKENS, tpot_p99="30ms")

    assert (found.outcome, found.phase, found.steps) == (Outcome.WELL, None, ())


def test_whichever_of_two_broken_numbers_is_worse_comes_first() -> None:
    assert flipped(DUMP, tpot_p99="400ms").first is Objective.TPOT
    assert flipped(DUMP, ttft_threshold="10s", tpot_threshold="40ms").first is Objective.TPOT


def test_a_load_that_the_gpus_can_bear_at_their_peak_is_no_cause() -> None:
    assert (flipped(DUMP, rate="2").cause, flipped(DUMP, gpus="32xH100").cause) == (None, None)


def test_a_full_cache_turns_the_queues_cause_to_memory() -> None:
    causes = [flipped(QUEUED, kv_usage=usage).cause for usage in ("97%", "60%")]
    first = [flipped(QUEUED, kv_usage=usage).steps[0].what.targets for usage in ("97%", "60%")]

    assert causes == [Cause.KV, Cause.SLOTS]
    assert ["kv" in first[0], "slots" in first[1]] == [True, True]


def test_in_a_spike_replicas_come_last_and_in_a_steady_state_shedding_does() -> None:
    spike, steady = (flipped(QUEUED, regime=regime).steps for regime in ("spike", "steady"))

    assert founded(spike)[-1].what.works_when == "steady"
    assert founded(steady)[-1].what.works_when == "spike"


def test_an_engine_that_is_known_has_its_flags_named() -> None:
    flags = {step.what.name: step.flag for step in flipped(QUEUED, engine="vllm").steps}

    assert flags["more-slots"] == "`--max-num-seqs`"
    assert {
        step.flag for step in flipped(QUEUED, engine="tgi").steps if step.what.name == "priority-for-a-lane"
    } == set()


# --- what cannot be said -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "asks"),
    [
        ({"e2e-p99": "8s"}, ["--ttft-p99", "--tpot-p99"]),
        ({"ttft-p99": "7s"}, ["--tpot-p99"]),
        ({"tpot-p99": "50ms", "queue-p99": "1s"}, ["--ttft-p99"]),
    ],
)
def test_a_single_number_is_refused_and_the_other_one_asked_for(flags: Mapping[str, str], asks: list[str]) -> None:
    found = told(flags)

    assert (found.outcome, found.phase, found.steps) == (Outcome.REFUSED, None, ())
    assert [missing.how for missing in found.missing] == asks


@pytest.mark.parametrize("changed", [{"queue_p99": "9s"}, {"e2e_p99": "2s"}, {"prefill_p99": "8s"}])
def test_a_part_that_exceeds_its_whole_is_a_contradiction(changed: Mapping[str, str]) -> None:
    found = flipped({"ttft-p99": "5s", "tpot-p99": "40ms"}, **changed)

    assert found.outcome is Outcome.REFUSED
    assert [missing.what.startswith("Sources disagree") for missing in found.missing] == [True]
