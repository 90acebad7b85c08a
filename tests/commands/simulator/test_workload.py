"""A load is a mix of requests at a rate, and the same seed gives the same load."""

from collections import Counter
from itertools import islice
from random import Random

import pytest

from sidecar.commands.demo.load import MIXED
from sidecar.commands.simulator.workload import Arrival


def some(rate: float, seed: int = 1, count: int = 20_000) -> list[Arrival]:
    return list(islice(MIXED.arrivals(rate, Random(seed)), count))


def test_arrivals_come_at_the_rate_and_in_the_shares_that_were_asked() -> None:
    """With twenty thousand arrivals, four standard errors of a Poisson count are 3 %."""
    arrivals = some(5.0)

    assert len(arrivals) / arrivals[-1].at == pytest.approx(5.0, rel=0.03)
    lanes = Counter(arrival.lane for arrival in arrivals)
    for shape in MIXED.shapes:
        assert lanes[shape.lane] / len(arrivals) == pytest.approx(shape.share, abs=0.015)


def test_the_same_seed_at_twice_the_rate_is_the_same_load_in_half_the_time() -> None:
    slow, fast = some(1.0, count=100), some(2.0, count=100)

    assert [arrival.at / 2 for arrival in slow] == pytest.approx([arrival.at for arrival in fast])
    assert [arrival.prompt_tokens for arrival in slow] == [arrival.prompt_tokens for arrival in fast]


def test_lengths_stay_within_their_spread() -> None:
    shape = MIXED.shapes[2]
    lengths = [arrival.prompt_tokens for arrival in some(1.0, count=3000) if arrival.lane == shape.lane]

    assert 0.7 * shape.prompt_tokens <= min(lengths)
    assert max(lengths) <= 1.3 * shape.prompt_tokens
