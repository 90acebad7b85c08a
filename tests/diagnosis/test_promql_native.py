"""A fleet's native histograms become the counts between edges that diagnosis reads; those of classic pods are added to them."""

import pytest

from sidecar.diagnosis import promql
from sidecar.history.growth import quantile
from sidecar.history.series import SHOWN_SECONDS
from sidecar.metrics.catalogue import TIME_TO_FIRST_TOKEN_SECONDS as TTFT


WHO = {"model": "llama", "lane": "chat"}
EDGES = TTFT.buckets


def told(*buckets: tuple[float, float, float]) -> promql.Samples:
    """The answer of Prometheus' API for one native histogram, as samples; each bucket is its edges and its count."""
    count = str(sum(one[2] for one in buckets))
    histogram = {
        "count": count,
        "sum": "1.5",
        "buckets": [[0, str(low), str(high), str(of)] for low, high, of in buckets],
    }
    row = {"metric": WHO, "histogram": [1_700_000_000, histogram]}
    return promql.samples({"status": "success", "data": {"resultType": "vector", "result": [row]}})


def grown(native: promql.Samples, classic: promql.Samples | None = None) -> tuple[float, ...]:
    """Counts between the edges, of ten samples."""
    answers: dict[tuple[str, float], promql.Samples] = {
        (TTFT.name, SHOWN_SECONDS): native,
        (f"{TTFT.name}_count", SHOWN_SECONDS): [(WHO, 10.0)],
        (f"{TTFT.name}_sum", SHOWN_SECONDS): [(WHO, 1.5)],
        (f"{TTFT.name}_bucket", SHOWN_SECONDS): classic or [],
    }
    windows = promql.windows_of(answers, {}, {}, SHOWN_SECONDS)
    observed = windows.growth[SHOWN_SECONDS].observed(TTFT, "llama", "chat")
    assert observed is not None
    return observed.counts


def test_a_native_bucket_within_two_edges_is_counted_between_them() -> None:
    """And one beyond the last edge above it."""
    low, high = EDGES[3], EDGES[4]
    third = (high - low) / 3

    counts = grown(told((low + third, high - third, 7.0), (EDGES[-1] * 2, EDGES[-1] * 3, 3.0)))

    assert counts[4] == pytest.approx(7.0)
    assert counts[-1] == pytest.approx(3.0)
    assert sum(counts) == pytest.approx(10.0)


def test_the_samples_of_a_native_bucket_across_an_edge_are_shared_out_evenly() -> None:
    low, edge, high = EDGES[3], EDGES[4], EDGES[5]

    counts = grown(told((low, high, 10.0)))

    assert counts[4] == pytest.approx(10.0 * (edge - low) / (high - low))
    assert counts[5] == pytest.approx(10.0 * (high - edge) / (high - low))


def test_the_pods_of_both_forms_are_added() -> None:
    """Classic ones all below the first edge, native ones within the fifth bucket."""
    classic: promql.Samples = [({**WHO, "le": str(edge)}, 5.0) for edge in (*EDGES, float("inf"))]

    counts = grown(told((EDGES[3], EDGES[4], 5.0)), classic)

    assert (counts[0], counts[4], sum(counts)) == pytest.approx((5.0, 5.0, 10.0))
    assert quantile(0.75, counts, EDGES) == pytest.approx((EDGES[3] + EDGES[4]) / 2)


def test_a_histogram_without_samples_has_no_buckets() -> None:
    assert told() == [({**WHO, "le": "+Inf"}, 0.0)]
