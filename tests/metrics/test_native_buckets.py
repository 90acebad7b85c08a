"""Native buckets hold each value where Prometheus looks for it, stay few, and cost nothing where they are off."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.metrics.children import HistogramChild
from sidecar.metrics.native_buckets import FINEST_SCHEMA, LARGEST_VALUE, MOST_BUCKETS, ZERO_THRESHOLD, NativeBuckets


def edge(buckets: NativeBuckets, key: int) -> float:
    """The upper edge of a bucket, as Prometheus' documentation of native histograms defines it."""
    return float(2.0 ** (key * 2.0**-buckets.schema))


def found(buckets: NativeBuckets) -> dict[int, int]:
    """The buckets that are not empty: key to count."""
    return {key: count for key, count in enumerate(buckets.counts, buckets.first) if count}


def filled(values: list[float]) -> NativeBuckets:
    buckets = NativeBuckets()
    for value in values:
        buckets.add(value)
    return buckets


@given(st.floats(min_value=ZERO_THRESHOLD, max_value=LARGEST_VALUE, exclude_min=True))
def test_a_value_lies_between_the_edges_of_its_bucket(value: float) -> None:
    buckets = filled([value])

    (key,) = found(buckets)

    # Edges that are no power of two are rounded, by us and by Prometheus, to the last bit or so.
    assert edge(buckets, key - 1) * (1 - 1e-14) <= value <= edge(buckets, key) * (1 + 1e-14)


@pytest.mark.parametrize("exponent", [-20, -1, 0, 1, 12])
def test_an_edge_is_in_the_bucket_that_ends_with_it(exponent: int) -> None:
    """Powers of two are edges at every schema, and exact: 1.0 is in bucket 0, the next float in bucket 1."""
    value = 2.0**exponent
    last = exponent * 2**FINEST_SCHEMA

    assert {last: 1, last + 1: 1} == found(filled([value, value * (1 + 2**-52)]))


@given(st.lists(st.floats(min_value=0.0, allow_infinity=False), max_size=400))
def test_there_are_never_too_many_buckets_and_no_value_is_lost(values: list[float]) -> None:
    """After any observations: no more buckets than allowed, whose counts and the zeros add up to the observations."""
    buckets = filled(values)

    assert len(buckets.counts) <= MOST_BUCKETS
    assert buckets.zeros + sum(buckets.counts) == len(values)
    assert 3 <= buckets.schema <= FINEST_SCHEMA


def test_merged_buckets_are_those_of_the_coarser_schema() -> None:
    """Values too far apart for the finest buckets: the same counts as if every value had been counted at half the resolution."""
    rng = random.Random(1)
    values = [10 ** rng.uniform(-5, 2.5) for _ in range(3000)]
    buckets = filled(values)
    assert buckets.schema < FINEST_SCHEMA

    rebuilt: dict[int, int] = {}
    for value in values:
        key = next(iter(found(filled([value]))))
        for _ in range(FINEST_SCHEMA - buckets.schema):
            key = -(-key // 2)
        rebuilt[key] = rebuilt.get(key, 0) + 1
    assert rebuilt == found(buckets)


def test_a_child_counts_the_same_values_in_both_forms() -> None:
    """Refused values are in neither; a child without native buckets has the classic ones alone."""
    child = HistogramChild((), lambda: None, (0.1, 1.0), NativeBuckets())
    plain = HistogramChild((), lambda: None, (0.1, 1.0))

    for value in (0.0, 0.05, 0.5, float("nan"), -1.0, float("inf")):
        child.observe(value)
        plain.observe(value)

    assert child.native is not None
    assert (child.count, child.native.zeros + sum(child.native.counts)) == (3, 3)
    assert (plain.counts, plain.native) == (child.counts, None)


def test_a_bucket_counts_beyond_32_bits() -> None:
    """Four billion tokens in one bucket, and then one more, a merge, and one more."""
    buckets = filled([0.5])
    buckets.counts[0] = 2**32 - 1

    buckets.add(0.5)
    buckets.add(0.5 * 2**21)
    buckets.add(0.5)

    assert buckets.schema < FINEST_SCHEMA
    assert [count for count in buckets.counts if count] == [2**32 + 1, 1]
