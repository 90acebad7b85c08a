"""The types that declare a metric know how many series it can reach."""

from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.declaration import Sizes
from sidecar.metrics.vocabulary import (
    LATENCY_SECONDS,
)


def test_a_series_count_is_its_lines() -> None:
    """29 edges, +Inf, sum and count, for each of 2 lanes."""
    upload = next(metric for metric in CATALOGUE if metric.name == "llm_request_upload_seconds")

    assert len(LATENCY_SECONDS) == 29
    assert upload.series(Sizes(2, 6, 2)) == 2 * 32
