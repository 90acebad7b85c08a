"""Healthy stretches: how pods become one run, what a line says, and no page while nothing is broken."""

from dataclasses import replace
from itertools import pairwise

import pytest

from bench.incidents.engines import UNCHUNKED
from bench.incidents.fault import NOTHING
from bench.incidents.healthy import (
    BUSY,
    DEPLOYS,
    FLEET_LANES,
    HEALTH,
    RESTARTED_PODS,
    WARMING,
    HealthyDay,
    added,
    curve,
    drained,
    fleet_day,
    healthy_day,
    lunch_peak,
    merged,
    of_long_prompts,
    quiet_batches,
    quiet_days,
    restart,
    rolling_restart,
    summed,
    told,
)
from bench.incidents.play import HEALTHY_SECONDS
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


@pytest.mark.parametrize("pods", RESTARTED_PODS)
def test_pods_are_replaced_one_after_the_other_each_by_a_cold_process_that_is_warm_before_the_next(pods: int) -> None:
    """Its cache is empty, and it still compiles its kernels. The stretch lasts until the last one is warm."""
    found = [restart(pod, pods) for pod in range(pods)]
    turns = [(each.episodes[0].begins, each.episodes[0].ends or 0.0) for each in found]

    assert [(len(each.episodes), each.episodes[0].fault.fresh) for each in found] == [(1, True)] * pods
    assert [each.episodes[0].fault.knobs for each in found] == [WARMING] * pods
    assert all(ends < begins for (_, ends), (begins, _) in pairwise(turns))
    assert {each.seconds > turns[-1][1] for each in found} == {True}


@pytest.mark.parametrize("pods", RESTARTED_PODS)
def test_a_pod_that_is_added_is_cold_and_takes_its_share_at_once(pods: int) -> None:
    """Until then the others had its traffic, and the traffic of all pods together stays."""
    first, *others = [added(UNCHUNKED, pod, pods) for pod in range(pods)]
    before, coming = first.episodes

    assert (before.begins, before.ends, coming.begins) == (-HEALTHY_SECONDS, 0.0, 0.0)
    assert (coming.fault.fresh, coming.fault.knobs, coming.fault.load) == (True, WARMING, {})
    assert {(len(each.episodes), each.episodes[0].ends) for each in others} == {(1, 0.0)}
    for lane in ("interactive", "batch", "code"):
        assert sum(each.episodes[0].fault.load[lane] for each in (first, *others)) == pytest.approx(pods)


def test_the_deploys_of_make_thorough_have_every_way_with_every_number_of_pods() -> None:
    ways = {
        (number // len(RESTARTED_PODS) % len(DEPLOYS), number % len(RESTARTED_PODS))
        for number in range(HEALTH["rolling_restarts"])
    }

    assert len(ways) == len(DEPLOYS) * len(RESTARTED_PODS)


def test_a_fleet_is_busiest_at_lunch_and_rises_to_it_in_minutes() -> None:
    """From under half of it: before and after lunch it has the daily curve of all days, lower."""
    day, usual = lunch_peak(), curve()
    loads = {minute: day.at(60.0 * minute) for minute in range(1440)}
    busiest = [minute for minute, load in loads.items() if load == max(loads.values())]
    outside = [minute for minute in loads if not 11.5 * 60 <= minute <= 13.5 * 60]

    assert max(loads.values()) == pytest.approx(1.0)
    assert 30 <= len(busiest) == busiest[-1] - busiest[0] + 1 <= 60
    assert 12 * 60 <= busiest[0] <= 12.5 * 60
    assert max(loads[busiest[0] - 30], loads[busiest[-1] + 30]) < 0.5
    assert {round(loads[minute] / usual.at(60.0 * minute), 9) for minute in outside} == {0.45}


def test_the_lanes_of_a_fleet_have_long_prompts_and_keep_their_rates() -> None:
    found = of_long_prompts(UNCHUNKED, 9000)

    assert [load.lane for load in found.lanes] == list(FLEET_LANES)
    assert {(load.prompt_tokens, load.shared_tokens) for load in found.lanes} == {(9000, 0)}
    assert [load.per_second for load in found.lanes] == [UNCHUNKED.lane(lane).per_second for lane in FLEET_LANES]


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
@pytest.mark.parametrize(
    ("number", "stretch"),
    [(0, "rolling restart of 2 pods"), (4, "rolling deploy of 2 pods"), (8, "scale-out to 2 pods")],
)
def test_a_deploy_as_planned_sends_no_page(number: int, stretch: str) -> None:
    need_tool("promtool")

    found = rolling_restart(number)

    assert found.stretch == stretch
    assert found.requests > 1000
    assert found.pages == []


@pytest.mark.bench
def test_half_an_hour_of_a_fleet_sends_no_page() -> None:
    need_tool("promtool")

    found = fleet_day(0, 1800.0, 3)

    assert found.stretch == "day of a fleet of 3 pods"
    assert found.requests > 30
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
