"""The sidecar of one pod among several: its own requests, its restart in mid-run, and its lag under a CPU quota."""

from bench.incidents.engines import CHUNKS_2048
from bench.incidents.product import Product
from bench.incidents.samples import Column, Samples
from bench.incidents.world import Mode, Throttle
from tests.incidents.made_up_runs import answered, run_of


NAMES = frozenset(
    {
        "llm_requests_received_total",
        "llm_requests_total",
        "llm_slo_requests_total",
        "llm_requests_in_flight",
        "llm_engine_up",
        "llm_engine_prefix_cache_queries_total",
        "llm_phase_attribution_total",
        "llm_sidecar_dropped_total",
        "llm_sidecar_event_loop_checks_total",
    }
)


def sums(samples: Samples, metric: str, **labels: str) -> Column:
    """The sum at each scrape over all series of the metric with these labels; None where all are stale."""
    found = [
        column
        for (name, each), column in samples.columns.items()
        if name == metric and labels.items() <= dict(each).items()
    ]
    known = [[value for value in at if value is not None] for at in zip(*found, strict=True)]
    return [sum(values) if values else None for values in known]


def test_each_sidecar_sees_the_requests_and_the_engine_of_its_own_pod() -> None:
    """Numbers are those of the whole run: pod 1 has every third request."""
    requests = [answered(number, number + 0.5, pod=int(number % 3 == 0)) for number in range(60)]
    run = run_of(requests, pods=2)
    run.states = [state for state in run.states if state.pod == 0]

    first, second = (Product(CHUNKS_2048, run, mode=Mode.REPORTS, pod=pod).play(NAMES) for pod in (0, 1))

    assert sums(first, "llm_requests_received_total")[-1] == 40
    assert sums(second, "llm_requests_received_total")[-1] == 20
    assert sums(second, "llm_phase_attribution_total", source="engine")[-1] == 20
    assert ("llm_engine_up", ()) in first.columns
    assert ("llm_engine_up", ()) not in second.columns
    assert all('pod="llm-1"' in series for series, _ in second.written())


def test_a_sidecar_that_restarts_begins_anew_and_misses_a_scrape() -> None:
    """The request that is in flight at 62 s is forgotten: it neither ends nor leaves. Later ones count from 0."""
    requests = [answered(number, number + 0.5) for number in range(100)]
    requests[61].flushed_at = requests[61].ended_at = requests[61].reads[-1] = 65.0
    run = run_of(requests)
    run.sidecar_restarts_at = {0: 62.0}

    samples = Product(CHUNKS_2048, run, mode=Mode.REPORTS).play(NAMES)

    # Scrapes at 0, 15, 30, 45, 60, (75), 90, 105 and 120 s.
    received = sums(samples, "llm_requests_received_total")
    assert received == [0, 15, 30, 45, 60, None, 28, 38, 38]
    assert sums(samples, "llm_requests_total", outcome="ok")[-1] == 38
    assert sums(samples, "llm_requests_in_flight")[-1] == 0
    assert sums(samples, "llm_sidecar_dropped_total")[-1] == 0
    # The new process counts the engine's growth from its own first reading on, which is at 65 s.
    assert sums(samples, "llm_engine_prefix_cache_queries_total")[-1] == 115 - 65


def test_reports_that_come_late_find_the_new_process() -> None:
    """It does not know the requests that had ended before, so their reports are dropped and counted."""
    requests = [answered(number, number + 0.5) for number in range(60)]
    for request in requests:
        request.report_late_seconds = 10.0
    run = run_of(requests, 240.0)
    run.sidecar_restarts_at = {0: 32.2}

    samples = Product(CHUNKS_2048, run, mode=Mode.REPORTS).play(NAMES)

    # Those of 22.0 to 31.3 s; the one of 31.5 s was in flight, so its engine has dropped it.
    assert sums(samples, "llm_sidecar_dropped_total", reason="report_unmatched")[-1] == 10
    assert sums(samples, "llm_phase_attribution_total", source="engine")[-1] == 28


def test_the_event_loop_of_a_throttled_sidecar_lags_during_the_fault() -> None:
    """The fault lasts from 40 to 80 s. Without a quota no timer is looked at."""
    run = run_of([answered(0, 1.0)])
    run.throttled = {0: Throttle(0.02)}

    samples = Product(CHUNKS_2048, run, mode=Mode.REPORTS).play(NAMES)

    name = "llm_sidecar_event_loop_checks_total"
    late = [value or 0.0 for value in sums(samples, name, result="late")]
    assert late[2] == 0
    assert late[6] > 40
    assert late[6] == late[-1]
    run.throttled = {1: Throttle(0.02)}
    unthrottled = Product(CHUNKS_2048, run, mode=Mode.REPORTS).play(NAMES)
    assert sums(unthrottled, name)[-1] == 0
