"""The demo's pager: what Alertmanager has told, receiver by receiver. `Pager` is pure; `listening` gives it ears.

It knows the body of Alertmanager's webhooks. It refuses to know rules: which receiver was told what is taken as it comes, so that a
wrong route would be seen here.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from sidecar.demo.processes import HOST


REMEMBERED_SECONDS = 30.0
"""So long after its end an alert is still shown, as resolved."""


@dataclass(slots=True)
class Told:
    """One alert, as one receiver was told of it."""

    receiver: str
    name: str
    phase: str
    severity: str
    summary: str
    runbook_url: str
    resolved_at: float | None = None
    """In the seconds of the clock that `hear` is told; None while it fires."""

    @property
    def firing(self) -> bool:
        return self.resolved_at is None


class Pager:
    """All receivers of one Alertmanager."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], Told] = {}
        self.watchdogs = 0
        """How often it was told that alerting works."""

    def hear(self, body: Mapping[str, Any], at: float) -> None:
        """A webhook was called, at `at` seconds of any monotonic clock."""
        for alert in body["alerts"]:
            labels, annotations = alert["labels"], alert["annotations"]
            if labels["alertname"] == "Watchdog":
                self.watchdogs += 1
                continue
            place = (body["receiver"], alert["fingerprint"])
            firing = alert["status"] == "firing"
            if not firing and place not in self._told:
                continue
            self._told[place] = Told(
                body["receiver"],
                labels["alertname"],
                labels.get("phase", ""),
                labels.get("severity", ""),
                annotations.get("summary", ""),
                annotations.get("runbook_url", ""),
                None if firing else at,
            )

    def shown(self, at: float) -> Sequence[Told]:
        """What fires, pages first, and what has ended lately."""
        self._told = {
            place: told
            for place, told in self._told.items()
            if told.resolved_at is None or at - told.resolved_at < REMEMBERED_SECONDS
        }
        return sorted(
            self._told.values(), key=lambda told: (not told.firing, told.severity != "page", told.name, told.summary)
        )


@asynccontextmanager
async def listening(pager: Pager) -> AsyncIterator[str]:
    """The URL, on loopback and any free port, below which every webhook reaches `pager`."""
    loop = asyncio.get_running_loop()

    async def heard(request: web.Request) -> web.Response:
        body = await request.json()
        # Slack's and PagerDuty's messages say the same in their own words.
        if "alerts" in body:
            pager.hear(body, loop.time())
        return web.Response(status=202 if request.path == "/pagerduty" else 200)

    app = web.Application()
    app.add_routes([web.post("/{path:.*}", heard)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        yield f"http://{HOST}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
