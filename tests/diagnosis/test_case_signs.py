"""The signs of a case: each is shown by one number, and an unknown number shows none."""

from dataclasses import replace

import pytest

from sidecar.diagnosis.case_signs import signs
from sidecar.diagnosis.findings import Number, State
from sidecar.diagnosis.levers import Sign
from sidecar.diagnosis.measured import CostRatio, DecodeFloor, Latency, Load, Machine, Measured, PodShare
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause


FLOOR = DecodeFloor("2 x A100 (80 GB)", 26e9, 0.006, 144e9, 0.035)
CARD = Machine(parameters=13e9, gpus=2, gpu="a100")


def number(state: State, over: float | None = None) -> Number:
    return Number(Latency(), state, over)


TIGHT = number(State.MET, 0.9)


def shown(measured: Measured, ttft: Number = TIGHT, tokens: Number = TIGHT) -> set[str]:
    return {*signs(measured, {Objective.TTFT: ttft, Objective.TPOT: tokens})}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, set()),
        ({"load": Load(kv_usage=0.95)}, {Sign.KV_FULL}),
        ({"load": Load(kv_usage=0.94)}, set()),
        ({"load": Load(kv_usage=0.79)}, {Sign.KV_ROOM}),
        ({"load": Load(running=96.0, slots=96.0)}, {Sign.SLOTS_FULL}),
        ({"load": Load(running=40.0, slots=96.0)}, {Sign.SLOTS_FREE}),
        ({"load": Load(running=40.0)}, set()),
        ({"load": Load(preempted=0.01)}, {Sign.PREEMPTING}),
        ({"load": Load(preemptions_per_second=2.0)}, {Sign.PREEMPTING}),
        ({"load": Load(preempted=0.0)}, set()),
        ({"load": Load(cached=0.8)}, {Sign.CACHED_MOST}),
        ({"rejected": 1.0}, {Sign.REJECTING}),
        ({"ratios": {Cause.PROMPT_MIX: 3.0}}, {Sign.PROMPTS_GREW}),
        ({"ratios": {Cause.PROMPT_MIX: 1.0}}, set()),
        ({"ratios": {Cause.KV_TRANSFER: 1.0}}, {Sign.SEPARATE_PREFILL}),
        ({"pods": {Objective.TTFT: (PodShare("a", 9.0, 0.9, 0.5, True),)}}, {Sign.ODD_POD}),
        ({"pods": {Objective.TTFT: (PodShare("a", 9.0, 0.9, 0.5, False),)}}, set()),
        ({"costs": {"decode": CostRatio(1.8, 1.6, 2.0), "prefill": CostRatio(1.8, 1.6, 2.0)}}, {Sign.BOTH_COSTS}),
        ({"costs": {"decode": CostRatio(1.8, 1.6, 2.0), "prefill": CostRatio(1.3, 1.1, 2.0)}}, set()),
        ({"costs": {"decode": CostRatio(1.8, 1.6, 2.0)}}, set()),
        ({"machine": CARD}, {Sign.NO_8_BIT_UNITS}),
        ({"machine": replace(CARD, gpu="h100")}, set()),
        (
            {"machine": CARD, "load": Load(arrivals_per_second=60.0, prompt_mean_tokens=2200.0)},
            {Sign.NO_8_BIT_UNITS, Sign.OVERFULL},
        ),
    ],
)
def test_each_number_shows_its_sign(told: dict[str, object], expected: set[Sign]) -> None:
    assert shown(Measured(source="hand", **told)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ttft", "tokens", "expected"),
    [
        (number(State.BROKEN, 2.0), number(State.MET, 0.9), {Sign.TTFT_BROKEN}),
        (number(State.BROKEN, 2.0), number(State.BROKEN, 2.0), {Sign.TTFT_BROKEN, Sign.BOTH_BROKEN}),
        (number(State.MET, 0.4), number(State.BROKEN, 2.0), {Sign.TTFT_HAS_ROOM}),
        (number(State.UNKNOWN), number(State.UNKNOWN), set()),
    ],
)
def test_the_two_latencies_show_theirs(ttft: Number, tokens: Number, expected: set[Sign]) -> None:
    assert shown(Measured(source="hand"), ttft, tokens) == expected


@pytest.mark.parametrize(
    ("p99", "floor", "expected"),
    [
        (0.008, FLOOR, {Sign.NEAR_FLOOR}),
        (0.020, FLOOR, set()),
        (0.080, FLOOR, {Sign.ABOVE_FLOOR}),
        (0.080, FLOOR._replace(most_bytes=None, most_seconds=None), set()),
        (None, FLOOR, set()),
    ],
)
def test_a_token_is_near_the_least_time_or_above_all_that_reading_takes(
    p99: float | None, floor: DecodeFloor, expected: set[Sign]
) -> None:
    machine = Machine(floor=floor)

    assert shown(Measured(source="hand", machine=machine, inter_token=Latency(p99_seconds=p99))) == expected
