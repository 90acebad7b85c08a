"""The cache from an engine's page of metrics; nothing is guessed."""

import pytest

from sidecar.commands.capacity.engine_cache import Cache, read_cache


@pytest.mark.parametrize(
    ("labels", "cache"),
    [
        ('block_size="16",num_gpu_blocks="45000",cache_dtype="auto"', Cache(45_000, 16, None)),
        ('block_size="32",num_gpu_blocks="100",cache_dtype="fp8_e4m3"', Cache(100, 32, 8)),
        ('block_size="16",num_gpu_blocks="None"', None),
        ('block_size="0",num_gpu_blocks="7"', None),
    ],
)
def test_a_vllm_says_what_its_cache_is(labels: str, cache: Cache | None) -> None:
    """Labels of vllm:cache_config_info. Before the cache is allocated, num_gpu_blocks is the text "None"."""
    assert read_cache(f'vllm:cache_config_info{{engine="0",{labels}}} 1.0\n') == cache


def test_ranks_add_up() -> None:
    pages = "".join(
        f'vllm:cache_config_info{{engine="{rank}",block_size="16",num_gpu_blocks="100"}} 1.0\n' for rank in range(2)
    )

    assert read_cache(pages) == Cache(200, 16, None)
