"""Healthy stretches: how pods become one run, what a line says, and no page while nothing is broken."""

from dataclasses import replace

import pytest

from bench.incidents.engines import UNCHUNKED
from bench.incidents.fault import NOTHING
from bench.incidents.healthy import (
    BUSY,
    RESTARTED_PODS,
    HealthyDay,
    drained,
    healthy_day,
    merged,
    quiet_batches,
    quiet_days,
    rolling_restart,
    summed,
    told,
)
from bench.incidents.prometheus import Firing
from bench.incidents.request import Request, Run, State
from bench.incidents.world import Mode
from tests.support.tools import need_tool


def pod_run(*received_at: float) -> Run:
    requests = [Request(number, "code", 100, 3, True, at) for number, at in enumerate(received_at)]
    return Run(requests, [State(0.0, True, 0, 0, 0.0, 0, 0, 0, 0)], 5.0, 6.0, 9.0)


def test_the_pods_of_a_rolling_restart_become_one_run() -> None:
    """Requests are in order of their arrival, with the pod that served them and numbers that count all of them."""
    whole = merged([pod_run(1.0, 4.0), pod_run(2.0)])

    assert [(each.received_at, each.pod, each.number) for each in whole.requests] == [(1, 0, 0), (2, 1, 1), (4, 0, 2)]
    assert [state.pod for state in whole.states] == [0, 1]
    assert (whole.pods, whole.at_fault, whole.ends_at) == (2, (0, 1), 9.0)


@pytest.mark.parametrize("pods", RESTARTED_PODS)
def test_in_a_drain_the_others_take_all_that_one_pod_had(pods: int) -> None:
    """One pod gets next to nothing from then on, to the end, and the traffic of all pods together stays."""
    found = [drained(UNCHUNKED, pod, pods) for pod in range(pods)]
    loads = [each.episodes[0].fault.load for each in found]

    assert {len(each.episodes) for each in found} == {1}
    assert {(each.episodes[0].begins, each.episodes[0].ends) for each in found} == {(0.0, None)}
    assert max(loads[0].values()) < 1e-6
    for lane in ("interactive", "batch", "code"):
        assert sum(load[lane] for load in loads) == pytest.approx(pods)


def test_on_a_busy_machine_reads_are_merged_and_late_and_the_engine_is_well() -> None:
    assert replace(BUSY, merged=0.0, throttle=None) == NOTHING
    assert BUSY.merged > 0.5
    assert BUSY.throttle is not None
    assert BUSY.throttle.run_seconds < 0.5 * BUSY.throttle.period_seconds


def test_a_line_counts_pages_and_tickets() -> None:
    page = {"alertname": "LLMQueueBurn", "severity": "page", "lane": "code", "objective": "ttft"}
    day = HealthyDay(
        *(2, "unchunked", 1234, [Firing(60.0, page), Firing(90.0, page)], []),
        stretch="quiet day",
        mode=Mode.BLIND,
    )

    assert told(day) == (
        "quiet day 3 on unchunked (blind): 1,234 requests, pages: 2, LLMQueueBurn code/ttft 2; tickets: 0"
    )


def test_stretches_of_one_kind_are_added_up() -> None:
    page = Firing(60.0, {"alertname": "LLMQueueBurn", "severity": "page", "lane": "code", "objective": "ttft"})
    ticket = Firing(90.0, {"alertname": "LLMAttributionLow", "severity": "ticket"})
    days = [
        HealthyDay(0, "unchunked", 1_200, [page], [ticket]),
        HealthyDay(1, "held-out", 34, [], [ticket]),
        HealthyDay(0, "unchunked", 7, [], [], "quiet day"),
    ]

    assert summed(days).splitlines()[2:] == [
        "| healthy day | 2 | 1,234 | 1, LLMQueueBurn code/ttft 1 | 2, LLMAttributionLow 2 |",
        "| quiet day | 1 | 7 | 0 | 0 |",
    ]


@pytest.mark.bench
def test_a_restart_of_pods_one_by_one_as_planned_sends_no_page() -> None:
    need_tool("promtool")

    found = rolling_restart(0)

    assert found.stretch == "rolling restart of 2 pods"
    assert found.requests > 1000
    assert found.pages == []


def test_quiet_days_are_evaluated_ten_at_a_time() -> None:
    assert quiet_batches(13) == [tuple(range(10)), (10, 11, 12)]
    assert quiet_batches(0) == []


@pytest.mark.bench
def test_a_few_hours_with_one_request_a_minute_send_no_page() -> None:
    """Both are evaluated at once, and each is told apart."""
    need_tool("promtool")

    found = quiet_days((0, 1), 3 * 3600.0)

    assert [day.engine for day in found] == ["chunks-2048", "drawn-healthy-1"]
    assert [120 < day.requests < 250 for day in found] == [True, True]
    assert [day.pages for day in found] == [[], []]


@pytest.mark.bench
def test_a_night_on_a_drawn_engine_sends_no_page() -> None:
    """The first hours of a day, when there is no baseline yet."""
    need_tool("promtool")

    found = healthy_day(3, 5400.0)

    assert found.requests > 300
    assert found.pages == []
