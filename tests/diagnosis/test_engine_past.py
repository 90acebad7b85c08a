"""The fault by the past of an engine's page: a queue with the same costs is load's, and one behind dearer work is that work's."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.diagnosis.engine_past import WINDOW_SLICES, Slice, below, between_edges, calm, found
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause, Unknown


THRESHOLDS = {Objective.TTFT: 1.5, Objective.TPOT: 0.08}
FIRST_EDGES = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 40.0, inf)
GAP_EDGES = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.5, 1.0, inf)
PAST, LUCK = 40, Random(1)


def buckets(edges: tuple[float, ...], count: float, seconds: float) -> Mapping[float, float]:
    """All of them take so long."""
    return {edge: count if seconds <= edge else 0.0 for edge in edges}


def of(  # noqa: PLR0917  what a page has
    rate: float = 2.0,
    queue: float = 0.02,
    prefill: float = 0.2,
    gap: float = 0.03,
    running: float = 12.0,
    waiting: float = 0.0,
    uncached: float = 1000.0,
    front_end: float = 0.01,
    **more: Any,
) -> Slice:
    """Thirty seconds of an engine with so many requests a second: prompts of 2,000 tokens, answers of 200."""
    firsts = 30.0 * rate * LUCK.uniform(0.97, 1.03)
    first = front_end + queue + prefill
    return replace(
        Slice(
            seconds=30.0,
            firsts=firsts,
            first_seconds=firsts * first,
            first_buckets=buckets(FIRST_EDGES, firsts, first),
            gaps=200.0 * firsts,
            gap_seconds=200.0 * firsts * gap,
            gap_buckets=buckets(GAP_EDGES, 200.0 * firsts, gap),
            ended=firsts,
            whole_seconds=firsts * (first + 200.0 * gap),
            queued=firsts,
            queue_seconds=firsts * queue,
            prefilled=firsts,
            prefill_seconds=firsts * prefill,
            decode_seconds=firsts * 200.0 * gap,
            prompt_tokens=2000.0 * firsts,
            cached_tokens=(2000.0 - uncached) * firsts,
            waiting=waiting,
            waiting_after=waiting,
            running=running,
            least_running=running,
            least_tokens=100.0,
            kv_usage=0.4,
        ),
        **more,
    )


def usual() -> list[Slice]:
    """Twenty minutes in which the batch goes up and down, and a step with it: 1 ms a request."""
    return [of(running=each, gap=0.018 + 0.001 * each) for each in (LUCK.uniform(6.0, 18.0) for _ in range(PAST))]


def without_prefill(one: Slice) -> Slice:
    """The same on a page as SGLang's."""
    return replace(one, prefilled=None, prefill_seconds=0.0, decode_seconds=None)


FAULTS: dict[str, tuple[tuple[str, str], list[Slice]]] = {
    "twice the load": (
        ("queue", "load"),
        [
            of(rate=4.0, queue=4.0, running=30.0, gap=0.048, waiting=10.0 + 5 * number)
            for number in range(WINDOW_SLICES)
        ],
    ),
    "dearer decodes fill batch and queue": (
        ("decode", "decode_cost"),
        [of(queue=4.0, running=32.0, gap=0.15, waiting=10.0 + 5 * number) for number in range(WINDOW_SLICES)],
    ),
    "dearer decodes without a queue": (("decode", "decode_cost"), [of(running=40.0, gap=0.16)] * WINDOW_SLICES),
    "dearer prompts": (
        ("prefill", "prefill_cost"),
        [of(queue=4.0, prefill=1.2, running=14.0, waiting=8.0) for _ in range(WINDOW_SLICES)],
    ),
    "a cache that is lost": (
        ("prefill", "uncached"),
        [of(queue=4.0, prefill=0.8, uncached=2000.0, running=14.0, waiting=8.0) for _ in range(WINDOW_SLICES)],
    ),
    "requests wait in front of an engine that has room": (
        ("first_token", "front_end"),
        [of(front_end=3.0) for _ in range(WINDOW_SLICES)],
    ),
    "preemptions": (
        ("queue", "preemption"),
        [of(queue=3.0, preempted=20.0, waiting=6.0, kv_usage=0.97) for _ in range(WINDOW_SLICES)],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_queue_is_the_fault_of_what_grew(name: str) -> None:
    """In each of them first tokens wait in the queue, or gaps grow; what else has grown beside the past of the same page is what broke."""
    (phase, cause), now = FAULTS[name]

    verdict = found([[*usual(), *now]], THRESHOLDS).verdicts[Objective.TTFT]

    assert (str(verdict.phase), str(verdict.cause)) == (phase, cause)


@pytest.mark.parametrize("name", ["twice the load", "dearer decodes fill batch and queue"])
def test_a_page_without_the_time_of_prefills_tells_load_from_a_slow_engine(name: str) -> None:
    (phase, _), now = FAULTS[name]

    verdict = found([[without_prefill(each) for each in (*usual(), *now)]], THRESHOLDS).verdicts[Objective.TTFT]

    assert str(verdict.phase) == phase


def test_a_fuller_batch_with_the_steps_of_a_fuller_batch_is_no_dearer_decode() -> None:
    """A step of this engine takes 1 ms more for each request: 40 of them take 58 ms, and 90 take 108 ms, which is more than is promised."""
    long_answers = [of(running=90.0, gap=0.108) for _ in range(WINDOW_SLICES)]

    told = found([[*usual(), *long_answers]], THRESHOLDS)

    assert told.ratios.get(Cause.DECODE_COST, 1.0) < 1.2
    assert told.verdicts[Objective.TPOT].phase == Blame.UNATTRIBUTED


DOWN = Slice(seconds=30.0, up=False)
SILENT = of(rate=0.0, waiting=20.0, least_tokens=0.0)
BACKLOG = of(rate=3.0, queue=20.0, running=30.0, gap=0.048, waiting=30.0)


@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        ([DOWN] * 3, Cause.DOWN),
        ([SILENT] * 3, Cause.SILENCE),
    ],
)
def test_the_queue_that_a_dead_or_silent_engine_left_is_not_loads(broken: list[Slice], cause: Cause) -> None:
    """Minutes later the queue is all that stands on the page."""
    restarted = replace(BACKLOG, restarts=1.0) if cause is Cause.DOWN else BACKLOG
    now = [*broken, restarted, *[BACKLOG] * 3, *[of()] * 3]

    verdict = found([[*usual(), *now]], THRESHOLDS).verdicts[Objective.TTFT]

    assert verdict.phase == Blame.ENGINE
    assert verdict.cause in (cause, Cause.RESTART)


def test_a_new_process_whose_work_is_all_dearer_is_cold() -> None:
    cold = of(queue=2.0, prefill=0.4, running=36.0, gap=0.3, waiting=6.0)
    now = [replace(cold, restarts=1.0), *[cold] * 4, *[of()] * 5]

    verdict = found([[*usual(), *now]], THRESHOLDS).verdicts[Objective.TTFT]

    assert (verdict.phase, verdict.cause) == (Blame.ENGINE, Cause.RESTART)


def test_without_a_past_no_cause_is_named() -> None:
    """A Prometheus that began with the fault: the page shows a queue, and not whose it is."""
    told = found([FAULTS["twice the load"][1]], THRESHOLDS)

    assert told.young
    assert told.verdicts[Objective.TTFT].phase == Blame.UNATTRIBUTED
    assert told.verdicts[Objective.TTFT].reason is Unknown.YOUNG


def test_each_engine_of_a_job_is_decided_alone() -> None:
    """One of four has dearer decodes. Together their gaps have hardly grown."""
    well = [*usual(), *(of() for _ in range(WINDOW_SLICES))]

    verdict = found([well, well, [*usual(), *FAULTS["dearer decodes without a queue"][1]], well], THRESHOLDS).verdicts

    assert verdict[Objective.TPOT].phase == Blame.DECODE


def test_what_is_as_slow_as_it_always_was_has_no_verdict() -> None:
    """Long prompts alone may take longer than the assumed threshold, all day."""
    slow = [of(queue=3.0, gap=0.09) for _ in range(PAST + WINDOW_SLICES)]

    assert found([slow], THRESHOLDS).verdicts == {}


def test_no_engine_and_no_slice_say_nothing() -> None:
    assert (found([], THRESHOLDS).verdicts, found([[]], THRESHOLDS).verdicts) == ({}, {})


def test_a_slice_is_calm_beside_the_middle_of_those_before_the_window() -> None:
    """Three slices count together: one request that takes long is no fault."""
    told = calm([*usual(), of(queue=3.0), of(queue=3.0), DOWN, *[of()] * (WINDOW_SLICES - 3)])

    assert (told[:PAST], told[PAST + 1], told[PAST + 2], told[-1]) == ([True] * PAST, False, False, True)


def test_first_tokens_that_scatter_by_themselves_are_calm_and_teach() -> None:
    """A third of the half minutes has long prompts of a batch lane: a fault is what is slower than those, and the load is still known."""
    scattered = [of(queue=3.0 if number % 3 == 0 else 0.02) for number in range(PAST)]

    told = found([[*scattered, *(of(rate=4.0, queue=15.0, waiting=30.0) for _ in range(WINDOW_SLICES))]], THRESHOLDS)

    assert all(calm([*scattered, *scattered[:WINDOW_SLICES]]))
    assert (told.young, told.verdicts[Objective.TTFT].cause) == (False, Cause.LOAD)


def test_observations_up_to_an_edge_lie_evenly_in_their_bucket() -> None:
    told = {0.5: 10.0, 1.0: 30.0, inf: 40.0}

    assert [below(edge, told) for edge in (0.25, 0.5, 0.75, 1.0, 2.0)] == [5.0, 10.0, 20.0, 30.0, 40.0]
    assert between_edges(told) == [(0.0, 0.5, 10.0), (0.5, 1.0, 20.0), (1.0, inf, 10.0)]


amounts = st.floats(min_value=0.0, max_value=1e6)
pages_drawn = st.builds(
    Slice,
    seconds=st.just(30.0),
    firsts=amounts,
    first_buckets=st.just(buckets(FIRST_EDGES, 60.0, 3.0)),
    gaps=amounts,
    gap_seconds=amounts,
    gap_buckets=st.just(buckets(GAP_EDGES, 600.0, 0.2)),
    queued=amounts | st.none(),
    prefilled=amounts | st.none(),
    prefill_seconds=amounts,
    prompt_tokens=amounts | st.none(),
    running=amounts | st.none(),
    waiting=amounts | st.none(),
)


@given(st.lists(pages_drawn, max_size=60))
def test_no_page_is_too_odd(slices: list[Slice]) -> None:
    """A page that lacks numbers, or has some without others, has an answer, and its roots add up to no less than nothing."""
    told = found([slices], THRESHOLDS)

    assert all(verdict.decided > 0.0 and 0.0 <= verdict.confidence <= 1.0 for verdict in told.verdicts.values())
