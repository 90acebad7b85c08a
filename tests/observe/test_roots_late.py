"""A request that was measured while the sidecar's own loop was late blames the sidecar, and no phase of the engine."""

import pytest

from sidecar.ledger.report import EngineReport
from sidecar.metrics.catalogue import EVENT_LOOP_LAG_SECONDS
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.pod.open_misses import WAIT_SECONDS
from tests.observe.pod_story import OUTPUT_TOKENS, PodStory, calm_pod, decodes_dearly, leader


def is_late(pod: PodStory, seconds: float, of: int = 3) -> None:
    """The loop is late by so many seconds of so many, and nothing else happens."""
    for _ in range(of):
        pod.metrics.histogram(EVENT_LOOP_LAG_SECONDS).child().observe(seconds / of)
        pod.harness.later(1.0)


def test_a_miss_of_a_late_time_is_the_sidecars_though_the_loop_is_well_again_when_it_is_decided() -> None:
    """Fifteen seconds without lateness have passed by then."""
    pod = calm_pod()
    pod.harness.comes()
    is_late(pod, 1.2)
    for _ in range(int(WAIT_SECONDS)):
        decodes_dearly(pod)

    assert pod.undecided("ttft") == 0
    assert leader(pod.roots("ttft")) == SIDECAR


def test_a_miss_of_a_long_life_is_not_the_sidecars_for_a_moment_in_it() -> None:
    """The answer takes twice its eight seconds; the loop was late by one of them."""
    pod = calm_pod()
    pod.harness.comes(streaming=False)
    is_late(pod, 0.6)
    for _ in range(int(WAIT_SECONDS) + 10):
        decodes_dearly(pod)

    assert pod.misses("e2e") >= 1
    assert pod.roots("e2e").get(SIDECAR, 0.0) < 0.25


@pytest.mark.parametrize(("late_seconds", "phase"), [(0.0, Blame.QUEUE), (1.2, Blame.UNATTRIBUTED)])
def test_where_a_request_waited_is_unknown_if_the_loop_was_late(late_seconds: float, phase: Blame) -> None:
    """The engine reports a queue; nothing tells how much of it was the sidecar's own."""
    pod = calm_pod()
    request = pod.harness.comes()
    is_late(pod, late_seconds)
    request.speaks()
    request.settles(request.ends(tokens=OUTPUT_TOKENS), EngineReport(2.5, 0.5))

    assert pod.harness.votes() == {("ttft", phase): 1}


def test_a_miss_is_the_sidecars_if_the_loop_is_late_before_its_root_is_decided() -> None:
    """The engine's signs come from the same loop."""
    pod = calm_pod()
    pod.harness.comes()
    for _ in range(3):
        decodes_dearly(pod)
    assert pod.misses("ttft") >= 1
    is_late(pod, 8.0, of=10)

    assert leader(pod.roots("ttft")) == SIDECAR


@pytest.mark.parametrize(("late_seconds", "phase"), [(0.0, Blame.QUEUE), (0.5, Blame.UNATTRIBUTED)])
def test_lateness_counts_though_the_loop_has_not_looked_since(late_seconds: float, phase: Blame) -> None:
    """The request begins and ends between two looks."""
    pod = calm_pod()
    request = pod.harness.comes()
    pod.metrics.histogram(EVENT_LOOP_LAG_SECONDS).child().observe(late_seconds)
    request.speaks(after=1.2)
    request.settles(request.ends(tokens=OUTPUT_TOKENS), EngineReport(1.0, 0.2))

    assert pod.harness.votes() == {("ttft", phase): 1}


def test_each_objective_asks_for_lateness_in_its_own_time() -> None:
    """The loop is late after the first token, so that where the first token waited is known."""
    pod = calm_pod()
    request = pod.harness.comes()
    pod.harness.later(1.5)
    request.speaks()
    is_late(pod, 1.8)
    request.speaks()
    request.settles(request.ends(tokens=OUTPUT_TOKENS), EngineReport(1.3, 0.2))

    assert pod.harness.votes() == {("ttft", Blame.QUEUE): 1, ("tpot", Blame.UNATTRIBUTED): 1}


def test_a_miss_of_tpot_is_not_the_sidecars_for_lateness_before_the_first_token() -> None:
    pod = calm_pod()
    request = pod.harness.comes()
    is_late(pod, 6.0, of=8)
    request.speaks()
    for _ in range(7):
        decodes_dearly(pod)
    before = pod.roots("tpot")[SIDECAR]
    request.speaks()
    request.settles(request.ends(tokens=OUTPUT_TOKENS), EngineReport(1.0, 0.2))
    pod.harness.later(1.0)

    assert leader(pod.roots("ttft")) == SIDECAR
    assert pod.roots("tpot")[SIDECAR] == before


def test_lateness_after_the_end_of_a_request_changes_nothing() -> None:
    """Its ledger is closed some seconds later."""
    pod = calm_pod()
    request = pod.harness.comes(streaming=False)
    pod.harness.later(9.0)
    ended = request.ends(tokens=OUTPUT_TOKENS)
    is_late(pod, 6.0, of=6)
    request.settles(ended, EngineReport(8.0, 0.5))

    assert pod.harness.votes() == {("e2e", Blame.QUEUE): 1}


def test_a_loop_that_is_often_late_by_little_hides_no_dear_decode() -> None:
    """It stands still for 50 ms at once, four times a second: too shortly to delay a token by its threshold times the answer."""
    pod = calm_pod()
    for _ in range(4):
        pod.harness.comes()
    for _ in range(30):
        for _ in range(4):
            pod.metrics.histogram(EVENT_LOOP_LAG_SECONDS).child().observe(0.05)
        decodes_dearly(pod)

    assert pod.misses("ttft") >= 1
    assert leader(pod.roots("ttft")) == Blame.DECODE
