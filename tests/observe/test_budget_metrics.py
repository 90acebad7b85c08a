"""Limit, use and what found no room are on the page for every budget; files that ran out are counted and logged."""

from collections.abc import Callable

from structlog.testing import capture_logs

from sidecar.budgets.budgets import Budgets, Kind, limits_of
from sidecar.config.schema import ProxyConfig
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.observe.budget_metrics import BudgetMetrics
from tests.support.files import no_file_left
from tests.support.memory import Clock


def made(
    clock: Callable[[], float] = lambda: 0.0, trim: Callable[[], object] = lambda: None
) -> tuple[Metrics, Budgets, BudgetMetrics]:
    metrics = Metrics(lanes=("chat",), prompt_buckets=("0-512",))
    budgets = Budgets(limits_of(1 << 30, 4096, ProxyConfig()))
    return (
        metrics,
        budgets,
        BudgetMetrics(
            metrics,
            budgets,
            sockets=lambda: 12,
            ledgers=lambda: (3, 2),
            spans=lambda: (1, 0),
            accounts_bytes=lambda: 62,
            clock=clock,
            trim=trim,
        ),
    )


def test_every_budget_has_its_three_numbers() -> None:
    metrics, budgets, _ = made()
    budgets.requests.used, budgets.requests.exceeded = 9, 4

    metrics.refresh(0.0)

    limit, used = metrics.gauge(c.BUDGET_LIMIT), metrics.gauge(c.BUDGET_USED)
    shown = {kind: (limit.child(kind.label).value, used.child(kind.label).value) for kind in Kind}
    assert shown == {budget.kind: (budget.limit, budget.used) for budget in budgets.rows()}
    kept_elsewhere = (Kind.FILES, Kind.LEDGERS, Kind.SPANS, Kind.ACCOUNTS)
    assert [budgets[kind].used for kind in kept_elsewhere] == [12, 3, 1, 62]
    exceeded = metrics.counter(c.BUDGET_EXCEEDED_TOTAL)
    assert [exceeded.child(kind.label).value for kind in (Kind.REQUESTS, Kind.LEDGERS, Kind.SPANS)] == [4, 2, 0]


def test_files_that_ran_out_are_counted_and_logged() -> None:
    """libuv closes the connections that come then without a word."""
    _, budgets, seen = made()
    with capture_logs() as lines:
        seen.look_at_files()
        assert lines == []
        with no_file_left():
            seen.look_at_files()

    assert [line["event"] for line in lines] == ["out_of_files"]
    assert budgets.files.exceeded == 1


def test_memory_goes_back_once_after_a_burst() -> None:
    """Two seconds after half of it is gone, in an instant without requests."""
    clock, trims = Clock(), []
    _, budgets, seen = made(clock, lambda: trims.append(clock.now))
    budgets.held.used, budgets.requests.used = 100 << 20, 3
    seen.look_at_memory()
    budgets.held.used = 0
    for _ in range(4):
        clock.later(1)
        seen.look_at_memory()
    assert trims == []
    budgets.requests.used = 0
    for _ in range(4):
        clock.later(1)
        seen.look_at_memory()

    assert trims == [105.0]
