"""The phases within a latency add up to it, whatever the ledger of the whole request holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.ledger.account import Phase
from sidecar.objectives.latency_parts import PARTS, latency_parts
from sidecar.objectives.objective import Objective


DURATIONS = st.floats(0, 1e4)
LEDGERS = st.dictionaries(st.sampled_from(Phase), st.floats(-1e-9, 1e4))


@given(st.sampled_from([Objective.TTFT, Objective.TPOT]), LEDGERS, DURATIONS, DURATIONS)
def test_they_add_up_and_none_is_negative(
    objective: Objective, phases: dict[Phase, float], ttft: float, output: float
) -> None:
    parts = latency_parts(objective, phases, ttft, output)

    assert sum(parts.values()) == pytest.approx(ttft if objective is Objective.TTFT else output, rel=1e-5, abs=1e-9)
    assert min(parts.values()) >= 0
    assert set(parts) <= set(PARTS[objective])


@given(LEDGERS)
def test_a_whole_answer_is_its_ledger(phases: dict[Phase, float]) -> None:
    """A phase that is a rounding below 0 is 0."""
    parts = latency_parts(Objective.E2E, phases, None, None)

    assert parts == {phase: max(0.0, part) for phase, part in phases.items()}


@given(LEDGERS, DURATIONS, DURATIONS)
def test_a_gap_has_no_parts(phases: dict[Phase, float], ttft: float, output: float) -> None:
    assert latency_parts(Objective.STALL, phases, ttft, output) == {}


@pytest.mark.parametrize("objective", [Objective.TTFT, Objective.TPOT])
def test_a_request_without_this_latency_has_no_parts(objective: Objective) -> None:
    assert latency_parts(objective, {Phase.QUEUE: 1.0, Phase.DECODE: 1.0}, None, None) == {}


def test_a_latency_without_any_phase_is_unattributed() -> None:
    assert latency_parts(Objective.TPOT, {Phase.STREAM: 9.0}, 1.0, 2.0) == {Phase.UNATTRIBUTED: 2.0}
