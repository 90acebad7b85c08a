"""The error budget: misses against allowed misses, over a window that the page states, and never over a month."""

import pytest

from sidecar.admin.page.anatomy import Anatomy, anatomy_of
from sidecar.admin.page.budget import Budget, Tally
from sidecar.admin.page.error_budget import error_budget
from sidecar.history.ring import History
from sidecar.history.slices import run_now
from sidecar.objectives.objective import Objective, Objectives
from tests.support.page_reader import Reader
from tests.support.slo_harness import SloHarness


def anatomy(history: History, at: float) -> Anatomy:
    return run_now(anatomy_of(history, run_now(history.now(at))))


def budgets(history: History, at: float) -> dict[tuple[str, str], Budget]:
    return {(one.lane, one.objective.value): one for one in anatomy(history, at).budgets}


def shown(history: History, at: float, *lanes: str) -> str:
    return Reader(error_budget(anatomy(history, at), lanes, uptime_seconds=at)).text


def test_a_budget_burns_and_what_is_left_is_of_the_time_that_was_seen() -> None:
    """A target of 90 % allows one miss in ten requests. Two misses burn twice as fast, and no budget is left."""
    harness = SloHarness()
    history = History(harness.metrics, at=harness.now)
    for late in (5.0, 5.0, *[0.1] * 8):
        request = harness.comes().speaks(after=late)
        request.settles(request.ends(tokens=1))

    found = budgets(history, harness.now)["chat", "ttft"]

    assert (found.now.requests, found.now.misses) == (10, 2)
    assert found.now.burn == pytest.approx(2.0)
    assert (found.thresholds, found.targets) == ((1.0, 10.0), (0.5, 0.9))
    text = shown(history, harness.now, "chat", "other")
    assert (
        "chat, time to first token 50 % to 90 % ≤ 1.00 s to 10.0 s 20 % 2 x none: spent 2 x 2 missed, 1.0 allowed"
        in text
    )


def test_a_promise_of_which_nothing_was_decided_says_so() -> None:
    """Without any decided request the page says so, and does not say that all of the budget is left."""
    harness = SloHarness()
    history = History(harness.metrics, at=harness.now)

    found = budgets(history, harness.now)["chat", "ttft"]

    assert (found.now.burn, found.now.missed) == (None, None)
    text = shown(history, 1.0, "chat")
    assert "No request decided yet: chat, whole answer; chat, time between tokens; chat, time to first token." in text
    assert "left of" not in text


def test_what_was_missed_before_the_window_is_in_the_budget_and_not_in_the_burn() -> None:
    harness = SloHarness()
    history = History(harness.metrics, at=harness.now)
    request = harness.comes().speaks(after=5.0)
    request.settles(request.ends(tokens=1))
    for _ in range(62):
        harness.now += 5.0
        run_now(history.tick(harness.now))

    found = budgets(history, harness.now)["chat", "ttft"]

    assert (found.now, found.ever.misses) == (Tally(), 1)


def test_lanes_that_can_never_page_are_named() -> None:
    harness = SloHarness()
    history = History(harness.metrics, at=harness.now)

    text = shown(history, 1.0, "chat", "night", "other")

    assert "This lane has no objective and never pages: night." in text
    assert "Lane other holds requests whose lane is not in the config; it never pages." in text


def test_a_reload_takes_a_promise_off_the_page() -> None:
    harness = SloHarness()
    history = History(harness.metrics, at=harness.now)
    assert {of for _, of in budgets(history, 0.0)} >= {Objective.TTFT.value}

    harness.slo.replace(Objectives())

    assert budgets(history, 0.0) == {}
