"""Longest turns of the event loop for the status page: a full page, and the ticks of the history behind it.

Measured as in `loop_stalls.py` by the thread's own CPU clock, between two turns of an always ready callback. The
registry is full, all children have grown since the last tick, a hundred requests were slow, and the ring of closed requests is full.
"""

import asyncio
import time
from statistics import median

from bench.bounds.bound import Bound, spread
from bench.bounds.full_page import QuietApp, filled, longest_turn
from sidecar.accounts.account_ring import AccountRing
from sidecar.accounts.slowest import SlowestQuestion
from sidecar.admin.diagnosis import Diagnoses
from sidecar.admin.page.status import StatusPage
from sidecar.budgets.budgets import ACCOUNTS_BYTES
from sidecar.history.ring import History
from sidecar.history.slices import run_sliced
from sidecar.ledger.account import Account
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Aim, Aims, Objective, Objectives
from sidecar.observe.slo_counters import Slo
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome


SERIES = 10_000
PAGES = 9
BOUND_MS = 2.0
AIMS = Aims(ttft=Aim(1.0, 0.95), tpot=Aim(0.05, 0.9))
MARKS = Marks(0.0, 0.0, 0.0, 0.1, 5.0, 6.0, 6.0, 6.5, choices=1)


def _grown(metrics: Metrics) -> None:
    """Increment every child once more."""
    for histogram in (c.REQUEST_PHASE_SECONDS, c.REQUEST_SECONDS, c.TIME_TO_FIRST_TOKEN_SECONDS, c.INTER_TOKEN_SECONDS):
        for child in metrics.histogram(histogram).children.values():
            child.observe(0.2)
    for counter in (
        c.REQUESTS_RECEIVED_TOTAL,
        c.SLO_REQUESTS_TOTAL,
        c.SLO_MISSES_TOTAL,
        c.SLO_BLAMED_MISSES_TOTAL,
        c.SLO_ROOT_MISSES_TOTAL,
        c.SLO_ROOT_CAUSE_MISSES_TOTAL,
    ):
        for counted in metrics.counter(counter).children.values():
            counted.inc(20)


async def status_page_stalls() -> list[Bound]:
    """The longest turn of the loop while the page is drawn, and while the history ticks."""
    metrics = filled(SERIES)
    app = QuietApp(metrics)
    buckets = metrics.prompt_buckets.shown()
    Slo(metrics, Objectives({lane: dict.fromkeys(buckets, AIMS) for lane in ("interactive", "batch")}))
    for labels in list(metrics.histogram(c.REQUEST_PHASE_SECONDS).children):
        metrics.histogram(c.REQUEST_SECONDS).child(*labels[:4]).observe(1.0)
        metrics.histogram(c.TIME_TO_FIRST_TOKEN_SECONDS).child(*labels[:3]).observe(1.0)
    ledger = close_ledger(MARKS, streaming=True, report=EngineReport(3.0, 1.0, 1.0))
    labels = RequestLabels("other", "batch", "0-512")
    for number in range(100):
        account = Account(labels, True, Outcome.OK, MARKS, ledger, key=number)
        app.recent_failures.missed(account, {Objective.TTFT: Blame.QUEUE})
    ring = AccountRing(ACCOUNTS_BYTES)
    for _ in range(ring.capacity):
        ring.add(account, 0.0, ())
    history = History(metrics, at=time.monotonic())
    slowest = SlowestQuestion(ring)
    diagnoses = Diagnoses(history, time.monotonic, app.facts, slowest)
    page = StatusPage(app, history, time.monotonic, diagnoses.of, slowest=slowest)

    async def drawn() -> None:
        page._drawn.clear()  # noqa: SLF001  empties the cache, so that the page is drawn each time
        await page._page(refresh=True)  # noqa: SLF001  without the socket

    async def ticked() -> None:
        diagnoses.learn(await run_sliced(history.tick(time.monotonic())))

    async def nothing() -> None:
        await asyncio.sleep(0.02)

    turns: dict[str, list[float]] = {}
    for name, work in (("nothing", nothing), ("drawn", drawn), ("ticked", ticked)):
        turns[name] = []
        for _ in range(PAGES):
            _grown(metrics)
            stop = asyncio.Event()
            turning = asyncio.create_task(longest_turn(stop))
            await work()
            stop.set()
            turns[name].append((await turning)[1] * 1e3)
    floor = f"{median(turns['nothing']):.3f} ms without these"
    words = {
        "drawn": f"longest turn while the status page of {SERIES:,} series is drawn",
        "ticked": f"longest turn while the history of {SERIES:,} series ticks",
    }
    return [Bound(words[name], BOUND_MS, median(turns[name]), "ms", spread(turns[name]), floor) for name in words]
