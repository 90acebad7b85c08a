"""The count of series in both forms of histograms is that of the registry behind the page."""

from bench.native_series import Counted, counted
from sidecar.metrics import catalogue as c
from sidecar.metrics.exposition import slices
from sidecar.metrics.registry import Metrics


def test_a_native_histogram_is_one_series_and_a_classic_one_its_edges_and_three_more() -> None:
    """Two histograms of one family, and two counters."""
    metrics = Metrics(lanes=["chat", "batch"], prompt_buckets=(), models=["m"])
    for lane in ("chat", "batch"):
        metrics.histogram(c.STREAM_EVENTS_PER_READ).child(lane).observe(3)
        metrics.counter(c.STREAM_PAUSED_SECONDS_TOTAL).child(lane).inc(1.5)
    others = metrics.series - 2 * c.STREAM_EVENTS_PER_READ.series_per_child

    metrics.refresh(1.0)
    page = b"".join(slices(metrics, openmetrics=False, at=1.0)).decode()

    found = counted(page)
    assert (found.histograms, found.classic, others) == (2, 2 * c.STREAM_EVENTS_PER_READ.series_per_child, 2)
    assert found.others == metrics.series - found.classic


def test_the_answer_says_how_many_times_fewer_series_there_are() -> None:
    """There is one line for histograms, and one for the whole page."""
    assert list(Counted(histograms=100, classic=3_000, others=1_000).told()) == [
        "histograms: 3,000 series, native 100: 30.0 times fewer",
        "counters and gauges: 1,000 series in both forms",
        "the whole page: 4,000 series, with native histograms 1,100: 3.6 times fewer",
    ]
