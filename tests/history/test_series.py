"""The table of the series that pages and diagnoses are made of."""

from sidecar.history.series import GROWTH_SERIES, LONG_SECONDS, WINDOWS
from sidecar.metrics.declaration import Histogram


def test_the_long_window_is_read_from_counters_alone() -> None:
    """Snapshots older than the shown window have no histograms."""
    long = [series.metric for series in GROWTH_SERIES if LONG_SECONDS in series.windows]

    assert [metric.name for metric in long if isinstance(metric, Histogram)] == []
    assert {window for series in GROWTH_SERIES for window in series.windows} == set(WINDOWS)
