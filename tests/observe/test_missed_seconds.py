"""Counters take misses apart and add up over pods: seconds of the latency that missed, by phase."""

from sidecar.ledger.report import EngineReport
from sidecar.metrics import catalogue as c
from sidecar.objectives.latency_parts import PARTS
from sidecar.observe.missed_seconds import MissedSeconds
from sidecar.timeline.outcome import Outcome
from tests.support.slo_harness import SloHarness


def missed_seconds(harness: SloHarness) -> dict[str, dict[str, float]]:
    """Objective to phase to seconds of the requests that missed it, without phases that have none."""
    harness.page()
    found: dict[str, dict[str, float]] = {}
    for (_, _, objective, phase), child in harness.metrics.counter(c.SLO_MISSED_PHASE_SECONDS_TOTAL).children.items():
        if child.value:
            found.setdefault(objective, {})[phase] = child.value
    return found


def test_each_phase_of_each_objective_stands_at_0_before_a_first_miss() -> None:
    """A first miss may long be the only one, and a series that appears with it has not grown for Prometheus."""
    harness = SloHarness()
    harness.page()

    counted = harness.metrics.counter(c.SLO_MISSED_PHASE_SECONDS_TOTAL).children
    assert {*counted} == {
        ("llama", "chat", objective, phase) for objective, phases in PARTS.items() for phase in phases
    }
    assert missed_seconds(harness) == {}


def test_the_seconds_of_missed_requests_are_counted_by_phase() -> None:
    """They are of the latency that missed alone: slow tokens do not count into a late first one, nor the other way round."""
    harness = SloHarness()
    late, slow, good, failed = (harness.comes() for _ in range(4))
    good.settles(good.speaks(after=0.5).ends(tokens=1), EngineReport(0.25, 0.25, 0.0))
    slow.speaks(after=0.25)
    late.settles(late.speaks(after=3.25).ends(tokens=1), EngineReport(3.0, 0.5, 0.0))
    failed.ends(Outcome.ENGINE_TIMEOUT)
    slow.settles(slow.speaks(after=4.0).ends(tokens=9), EngineReport(0.25, 0.25, 5.0))

    assert missed_seconds(harness) == {
        "ttft": {"queue": 3.0, "prefill": 0.5, "first_token": 0.5},
        "tpot": {"decode": 5.0, "stream": 2.25},
    }


def test_a_missed_whole_answer_counts_all_its_phases() -> None:
    harness = SloHarness()
    for _ in range(2):
        request = harness.comes(streaming=False)
        request.settles(request.ends(after=9.0, tokens=9), EngineReport(1.0, 2.0, 4.0))

    assert missed_seconds(harness) == {"e2e": {"queue": 2.0, "prefill": 4.0, "decode": 8.0, "unattributed": 4.0}}


def test_a_ledger_that_is_closed_twice_counts_once_and_a_scrape_counts_nothing_again() -> None:
    harness = SloHarness()
    request = harness.comes().speaks(after=2.0)
    account = request.ends(tokens=1)

    request.settles(account)
    request.settles(account)

    assert missed_seconds(harness) == missed_seconds(harness) == {"ttft": {"unattributed": 2.0}}


def test_nothing_is_held_between_scrapes_but_the_sums_of_each_lane() -> None:
    """A process that no one scrapes holds no more of a thousand misses than of one."""
    harness = SloHarness()
    sums: MissedSeconds = harness.slo._missed_seconds
    for _ in range(50):
        request = harness.comes().speaks(after=2.0)
        request.settles(request.ends(tokens=1))

    assert len(sums._sums) == 1
    assert missed_seconds(harness) == {"ttft": {"unattributed": 100.0}}
    assert sums._sums == {}
