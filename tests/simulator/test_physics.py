"""The constants of a simulated replica: limits that vLLM would accept, and the cost of a step."""

import pytest

from sidecar.simulator.physics import Limits


def test_limits_that_vllm_would_not_start_with_are_refused() -> None:
    with pytest.raises(ValueError, match="kv_blocks"):
        Limits(max_num_seqs=1, max_num_batched_tokens=512, max_model_len=4096, kv_blocks=10)
    with pytest.raises(ValueError, match="chunked"):
        Limits(max_num_seqs=1, max_num_batched_tokens=512, max_model_len=4096, kv_blocks=256, chunked_prefill=False)
