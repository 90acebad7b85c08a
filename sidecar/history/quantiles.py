"""A quantile out of the buckets of a histogram, the same way that Prometheus has it. Pure arithmetic; knows no metric."""

from collections.abc import Sequence


def quantile(q: float, counts: Sequence[float], bounds: Sequence[float]) -> float | None:
    """The q-quantile as Prometheus' histogram_quantile computes it: linear within the bucket. None without samples.

    `counts` are not cumulative, one more than `bounds`. Infinite above the last edge, where the value is unknown.
    """
    rank = q * sum(counts)
    if not rank:
        return None
    seen = 0.0
    for index, count in enumerate(counts[:-1]):
        if count and seen + count >= rank:
            low = bounds[index - 1] if index else 0.0
            return low + (bounds[index] - low) * (rank - seen) / count
        seen += count
    return float("inf")
