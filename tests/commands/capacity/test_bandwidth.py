"""The bandwidth bound of decoding: per step, the weights once and every sequence's cache, by the memory bandwidth."""

import pytest

from sidecar.commands.capacity.bandwidth import Decode
from sidecar.commands.capacity.geometry import Geometry, attention
from sidecar.commands.capacity.gpus import GPUS


FOUR_H100 = Decode(140e9, 4 * GPUS["h100"].bytes_per_second, Geometry((attention(80, 8, 128),), gpus=4))


def test_four_h100_read_a_70b_95_7_times_a_second() -> None:
    assert FOUR_H100.row(1, 0).user_tokens_per_second == pytest.approx(95.7, abs=0.05)


def test_a_batch_shares_the_weights_and_not_the_caches() -> None:
    """Fifty sequences of 4,096 tokens: 140 GB + 50 x 1.342 GB at 13.4 TB/s."""
    row = FOUR_H100.row(50, 4096)

    assert row.step_seconds == pytest.approx((140e9 + 50 * 1_342_177_280) / 13.4e12)
    assert row.total_tokens_per_second == pytest.approx(50 * row.user_tokens_per_second)


def test_the_table_doubles_up_to_the_most() -> None:
    assert [row.batch for row in FOUR_H100.rows(4096, 50)] == [1, 2, 4, 8, 16, 32, 50]
    assert [row.batch for row in FOUR_H100.rows(4096, 1)] == [1]


def test_the_largest_batch_within_a_time_is_the_last_that_keeps_it() -> None:
    batch = FOUR_H100.batch_within(4096, 0.015)

    assert FOUR_H100.row(batch, 4096).step_seconds <= 0.015 < FOUR_H100.row(batch + 1, 4096).step_seconds


def test_a_time_shorter_than_reading_the_weights_has_no_batch() -> None:
    assert FOUR_H100.batch_within(4096, 0.010) == 0
