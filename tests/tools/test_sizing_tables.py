"""The tables of docs/sizing.md repeat the catalogue's sums."""

from sidecar.metrics.catalogue import series_ceiling, series_in_use
from tools.sizing_tables import blocks


def test_the_smallest_pod_has_the_series_that_the_page_of_metrics_states() -> None:
    """One lane and one model are two values of each label, because the fallback is one; six prompt buckets."""
    _, series = blocks()
    first = next(line for line in series.text.splitlines() if line.startswith("| 1 | 1 |"))

    assert first.split(" | ")[2:4] == [f"{series_in_use(2, 6, 2):,}", f"{series_ceiling(2, 6, 2):,}"]
