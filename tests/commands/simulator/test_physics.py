"""The constants of a simulated replica: limits that vLLM would accept, and the cost of a step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.commands.simulator.physics import Costs, Knobs, Limits


def test_limits_that_vllm_would_not_start_with_are_refused() -> None:
    with pytest.raises(ValueError, match="kv_blocks"):
        Limits(max_num_seqs=1, max_num_batched_tokens=512, max_model_len=4096, kv_blocks=10)
    with pytest.raises(ValueError, match="chunked"):
        Limits(max_num_seqs=1, max_num_batched_tokens=512, max_model_len=4096, kv_blocks=256, chunked_prefill=False)


COSTS = Costs(
    step_seconds=0.02,
    per_sequence_seconds=1e-4,
    per_kv_token_seconds=1e-8,
    per_prompt_token_seconds=1e-4,
    per_prompt_token_context_seconds=1e-9,
)


@given(st.lists(st.integers(1, 4096), min_size=1, max_size=12))
def test_a_prompt_costs_the_same_in_any_chunks(chunks: list[int]) -> None:
    """Its tokens' own cost, and half the coefficient times the square of its length: only the steps are more."""
    tokens = sum(chunks)

    cost = sum(COSTS.chunk(size, sum(chunks[:number])) for number, size in enumerate(chunks))

    assert cost == pytest.approx(1e-4 * tokens + 1e-9 * tokens**2 / 2)


def test_a_step_of_decodes_costs_its_weights_its_sequences_and_their_context() -> None:
    assert COSTS.decode(10, 40_000) == pytest.approx(0.02 + 0.001 + 0.0004)


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2)])
def test_a_block_that_is_begun_is_held_whole(tokens: int, blocks: int) -> None:
    limits = Limits(max_num_seqs=1, max_num_batched_tokens=512, max_model_len=512, kv_blocks=32)

    assert limits.blocks_for(tokens) == blocks


def test_a_fault_cannot_be_less_than_none() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        Knobs(prefill_factor=-1.0)
