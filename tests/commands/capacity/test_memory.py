"""The sequences that fit into memory: the figures of two worked cases, rounded to blocks and down."""

import pytest

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.geometry import Geometry, attention
from sidecar.commands.capacity.memory import Room, left_for_cache, room_of_blocks


LLAMA_70B = Geometry((attention(80, 8, 128),), gpus=4)
SEVEN_B = Geometry((attention(32, 8, 128),))


def test_fifty_users_of_a_70b_on_four_gpus_may_have_8544_tokens_each() -> None:
    """4 x 80 GB, 140 GB of weights, 40 GB of reserve."""
    room = Room(LLAMA_70B, left_for_cache(320e9, 1.0, 140e9, 40e9))

    assert (room.cache_bytes, room.longest(50, 131_072)) == (140e9, 8544)
    assert [room.fits(50, tokens) for tokens in (8544, 8545)] == [True, False]


@pytest.mark.parametrize(("reserve", "fits", "sequences"), [(8e9, True, 216), (16e9, False, 186)])
def test_two_hundred_users_of_a_7b_fit_with_a_small_reserve_only(reserve: float, fits: bool, sequences: int) -> None:
    """2,048 tokens each on 80 GB beside 14 GB of weights."""
    room = Room(SEVEN_B, left_for_cache(80e9, 1.0, 14e9, reserve))

    assert (room.fits(200, 2048), room.sequences(2048)) == (fits, sequences)


def test_a_context_is_never_longer_than_the_model_allows() -> None:
    room = Room(SEVEN_B, 50e9)

    assert room.longest(1, 32_768) == 32_768


def test_more_users_than_blocks_have_no_context_at_all() -> None:
    assert Room(SEVEN_B, 10 * 16 * 131_072).longest(11, 32_768) == 0


def test_weights_that_do_not_fit_leave_no_cache() -> None:
    with pytest.raises(RefusedError, match="ask for 141 GB of the 72 GB"):
        left_for_cache(80e9, 0.9, 141e9, 0.0)


def test_the_engines_own_blocks_are_its_cache() -> None:
    """45,000 blocks of 16 tokens hold exactly 87 sequences of 8,192 tokens, since both are whole blocks."""
    assert room_of_blocks(45_000, LLAMA_70B).sequences(8192) == 45_000 // 512


def test_blocks_of_several_kinds_of_layers_are_not_converted() -> None:
    hybrid = Geometry((attention(16, 8, 64), attention(16, 8, 64, window=128)))

    with pytest.raises(RefusedError, match="num_gpu_blocks is unknown"):
        room_of_blocks(1000, hybrid)
