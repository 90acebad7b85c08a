"""`/`: the status page, drawn on request, at most once a second, in slices.

The whole page is made of one snapshot, and a drawn page is cached: ten people who watch cost as much as one. It refuses
to know the page's look (`page.py`) and how verdicts are found (`sidecar/diagnosis/`).
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from aiohttp import web

from sidecar.accounts.slowest import SlowestQuestion
from sidecar.admin.page.anatomy import anatomy_of
from sidecar.admin.page.engine_now import engine_now
from sidecar.admin.page.first_facts import Around
from sidecar.admin.page.headline import worst
from sidecar.admin.page.in_flight_table import OLDEST
from sidecar.admin.page.page import STATUS_HEADERS, Facts, Status, status_page
from sidecar.admin.page.recent_failures import RecentFailures
from sidecar.budgets.budgets import Budgets
from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.live import missed_since
from sidecar.diagnosis.measured import EngineDown
from sidecar.diagnosis.order import worst_first
from sidecar.diagnosis.verdict import LaneObjective
from sidecar.history.phase_points import curves
from sidecar.history.ring import History
from sidecar.history.slices import Sliced, run_sliced
from sidecar.history.snapshot import Snapshot
from sidecar.metrics.catalogue import CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS, ENGINE_RESTARTS_TOTAL
from sidecar.observe.in_flight import InFlight


FRESH_SECONDS = 1.0


class StatusSource(Protocol):
    """The rest of the process, as far as the page needs it."""

    @property
    def inside(self) -> InFlight:
        """The requests in flight now."""

    @property
    def budgets(self) -> Budgets:
        """The budgets of this process."""

    @property
    def recent_failures(self) -> RecentFailures:
        """The last slow or failed requests."""

    def ready(self) -> tuple[bool, str]:
        """Whether traffic may come, and why (or why not)."""

    def healthy(self) -> tuple[bool, str]:
        """Whether this process works, and why (or why not). The engine's health does not count."""

    def facts(self) -> Facts:
        """Facts of the process for the page."""


class StatusPage:
    """The status page of one process. `clock`: monotonic seconds; `diagnoses`: one per lane, as of a snapshot;
    `engine_down`: the engine, if it is down as of a snapshot; `slowest`: the question for the slowest requests; `unix`: Unix seconds.
    """

    def __init__(
        self,
        app: StatusSource,
        history: History,
        clock: Callable[[], float],
        diagnoses: Callable[[Snapshot], Sliced[Sequence[Diagnosis]]],
        engine_down: Callable[[Snapshot], EngineDown | None] = lambda _now: None,
        *,
        slowest: SlowestQuestion | None = None,
        unix: Callable[[], float] = time.time,  # noqa: TID251  an incident began at an instant that people compare
    ) -> None:
        self._app = app
        self._history = history
        self._clock = clock
        self._diagnoses = diagnoses
        self._engine_down = engine_down
        self._slowest = slowest
        self._unix = unix
        self._drawn: dict[bool, tuple[float, bytes]] = {}
        self._drawing: dict[bool, asyncio.Task[bytes]] = {}

    def routes(self) -> list[web.RouteDef]:
        """The paths, for GET and HEAD. Browsers always request an icon; it is answered 204."""
        return [web.get("/", self._answer), web.get("/favicon.ico", self._no_icon)]

    async def _answer(self, request: web.Request) -> web.Response:
        body = await self._page(refresh=request.query.get("refresh") != "off")
        return web.Response(body=body, content_type="text/html", charset="utf-8", headers=STATUS_HEADERS)

    async def _no_icon(self, _request: web.Request) -> web.Response:
        return web.Response(status=204, headers={"Cache-Control": "max-age=86400"})

    async def _page(self, *, refresh: bool) -> bytes:
        drawn = self._drawn.get(refresh)
        if drawn is not None and self._clock() - drawn[0] < FRESH_SECONDS:
            return drawn[1]
        drawing = self._drawing.get(refresh)
        if drawing is None:
            drawing = self._drawing[refresh] = asyncio.create_task(self._draw(refresh=refresh), name="admin.status")
            drawing.add_done_callback(lambda _task: self._drawing.pop(refresh, None))
        # Shielded: the client that asked first may disconnect while others still wait for the page.
        return await asyncio.shield(drawing)

    async def _draw(self, *, refresh: bool) -> bytes:
        at = self._clock()
        page = await run_sliced(self._told(at, refresh=refresh))
        body = page.encode("utf-8", "replace")
        self._drawn[refresh] = (at, body)
        return body

    def _told(self, at: float, *, refresh: bool) -> Sliced[str]:
        app, metrics = self._app, self._history.metrics
        now = yield from self._history.now(at)
        diagnoses = yield from self._diagnoses(now)
        anatomy = yield from anatomy_of(self._history, now)
        slowest = None if self._slowest is None else (yield from self._slowest.ask(at))
        points = yield from self._history.points(now)
        drawn = yield from curves(points)
        yield
        facts = app.facts()
        status = Status(
            at=at,
            facts=facts,
            anatomy=anatomy,
            ready=app.ready(),
            healthy=app.healthy(),
            diagnoses=diagnoses,
            engine_down=self._engine_down(now),
            lanes=metrics.lanes.shown(),
            models=[model for model in metrics.models.shown() if model != metrics.models.fallback],
            around=self._around(now, facts, worst(worst_first(diagnoses))),
            curves=drawn,
            by_lane=app.inside.by_lane(at) if app.inside.is_known else None,
            oldest=app.inside.oldest(at, OLDEST),
            engine=engine_now(metrics),
            budgets=app.budgets.rows(),
            recent_failures=app.recent_failures.latest(),
            slowest=slowest,
        )
        yield
        return (yield from status_page(status, refresh=refresh))

    def _around(self, now: Snapshot, facts: Facts, first: Diagnosis | None) -> Around:
        restarted_at, at_unix, since_at = self._history.grew_at(now, ENGINE_RESTARTS_TOTAL), self._unix(), None
        if first is not None and first.since_at is None and first.first is not None:
            who = LaneObjective(first.measured.model or "", first.measured.lane or "", first.first)
            since_at = missed_since(self._history, now, who)
        return Around(
            at_unix=at_unix,
            missed_since_at_unix=None if since_at is None else at_unix - (now.at - since_at),
            uptime_seconds=facts.uptime_seconds,
            engine_restarted_seconds=None if restarted_at is None else now.at - restarted_at,
            config_loaded_at_unix=now.gauges[CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS.name].get(()),
        )
