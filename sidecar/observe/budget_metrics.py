"""The budgets of the process in its metrics, the watch for files that ran out, and for bursts that are over.

Brings those budgets up to date that other rooms keep: files, ledgers, spans and accounts. Refuses to know what a budget means
(`sidecar/budgets/budgets.py`), and who is ended for room.
"""

import asyncio
from collections.abc import Callable

import structlog

from sidecar.budgets.budgets import Budgets, Kind
from sidecar.budgets.burst import Burst
from sidecar.budgets.heap import trim
from sidecar.budgets.machine import out_of_files
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.observe.settlement import SPAN_KEPT_SECONDS


WATCH_SECONDS = 0.25
"""Interval at which the process looks whether it can still open a file: libuv closes what comes then without a word."""
EXPIRY_SECONDS = 5.0
"""In which everything that is due to be forgotten has been, a part in each turn."""

log = structlog.get_logger()


class BudgetMetrics:
    """`sockets`: number of open sockets of traffic; `ledgers`, `spans`: use of those budgets, and what found no room;
    `accounts_bytes`: memory of closed requests.
    """

    def __init__(
        self,
        metrics: Metrics,
        budgets: Budgets,
        *,
        sockets: Callable[[], int],
        ledgers: Callable[[], tuple[int, int]],
        spans: Callable[[], tuple[int, int]],
        accounts_bytes: Callable[[], int],
        clock: Callable[[], float],
        trim: Callable[[], object] = trim,
    ) -> None:
        self._clock = clock
        self._trim = trim
        self._burst = Burst(SPAN_KEPT_SECONDS + EXPIRY_SECONDS)
        self._budgets = budgets
        self._sockets = sockets
        self._ledgers = ledgers
        self._spans = spans
        self._accounts_bytes = accounts_bytes
        self._limit = metrics.gauge(c.BUDGET_LIMIT)
        self._used = metrics.gauge(c.BUDGET_USED)
        self._exceeded = metrics.counter(c.BUDGET_EXCEEDED_TOTAL)
        self._exceeded.begin()
        metrics.before_scrape(self._set)

    def _set(self, _at: float) -> None:
        budgets = self._budgets
        budgets.files.used = self._sockets()
        budgets[Kind.ACCOUNTS].used = self._accounts_bytes()
        for kind, (used, exceeded) in ((Kind.LEDGERS, self._ledgers()), (Kind.SPANS, self._spans())):
            budgets[kind].used, budgets[kind].exceeded = used, exceeded
        for budget in budgets.rows():
            label = budget.kind.label
            self._limit.child(label).set(budget.limit)
            self._used.child(label).set(budget.used)
            found_no_room = self._exceeded.child(label)
            found_no_room.inc(budget.exceeded - found_no_room.value)

    async def watch(self) -> None:
        """Look at files and memory for as long as it runs."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            self.look_at_files()
            self.look_at_memory()

    def look_at_memory(self) -> None:
        """Give memory back to the system once a burst of clients is over."""
        budgets = self._budgets
        if self._burst.over(self._clock(), budgets.memory_bytes, busy=budgets.requests.used > 0):
            self._trim()

    def look_at_files(self) -> None:
        """Count and log that no file can be opened, if so. The log holds back what comes too often."""
        if out_of_files():
            self._budgets.files.exceeded += 1
            log.error(
                "out_of_files",
                limit=self._budgets.files.limit,
                hint="New connections are closed unseen. Raise the limit of open files, or lower proxy.max_connections.",
            )
