"""The KV cache bytes of a sequence: figures of well-known models; effects of rounding, windows, latents and copies."""

import pytest

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.geometry import Geometry, attention, latent


LLAMA_70B = attention(80, 8, 128)


def test_grouped_query_attention_keeps_key_value_heads_and_not_query_heads() -> None:
    """70B: 1.34 GB for 4,096 tokens with its 8 KV heads; with its 64 query heads it would be eight times as much."""
    by_kv_heads = Geometry((LLAMA_70B,)).sequence_bytes(4096)
    by_query_heads = Geometry((attention(80, 64, 128),)).sequence_bytes(4096)

    assert (by_kv_heads, by_query_heads) == (1_342_177_280, 10_737_418_240)


def test_a_sequence_takes_whole_blocks() -> None:
    geometry = Geometry((LLAMA_70B,))

    assert [geometry.sequence_bytes(tokens) / geometry.token_bytes() for tokens in (1, 16, 17)] == [16, 16, 32]


def test_what_is_read_is_not_rounded() -> None:
    geometry = Geometry((LLAMA_70B,))

    assert geometry.read_bytes(17) == 17 * 327_680


def test_fewer_bits_keep_less() -> None:
    assert Geometry((LLAMA_70B,), bits=8).token_bytes() == 163_840


def test_a_window_stops_growing() -> None:
    """gpt-oss: half of the layers keep the last 128 tokens. One block more than the window fills may be in use."""
    full, sliding = attention(18, 8, 64), attention(18, 8, 64, window=128)
    each = 18 * 2 * 8 * 64 * 2
    geometry = Geometry((full, sliding))

    assert geometry.sequence_bytes(128) == 128 * 2 * each
    assert geometry.sequence_bytes(8192) == (8192 + 144) * each
    assert geometry.read_bytes(8192) == (8192 + 128) * each
    assert (geometry.uniform, geometry.token_bytes(), geometry.token_bytes(of_windows=False)) == (False, 2 * each, each)


def test_a_latent_is_kept_whole_by_every_gpu() -> None:
    """DeepSeek-V3: 70 kB a token on one GPU; with eight of tensor parallelism each keeps all of it."""
    mla = latent(61, 512, 64)

    assert Geometry((mla,)).token_bytes() == 61 * 576 * 2
    assert Geometry((mla,), gpus=8).token_bytes() == 8 * 61 * 576 * 2


@pytest.mark.parametrize(("gpus", "copies"), [(1, 1), (4, 1), (8, 1), (16, 2)])
def test_heads_are_shared_among_gpus_until_there_are_none_left_to_share(gpus: int, copies: int) -> None:
    assert Geometry((LLAMA_70B,), gpus=gpus).token_bytes() == copies * 327_680


def test_a_split_that_no_engine_starts_with_is_refused() -> None:
    with pytest.raises(RefusedError, match="8 KV heads cannot be shared evenly by 6 GPUs"):
        Geometry((LLAMA_70B,), gpus=6)
