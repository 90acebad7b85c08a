"""The demo's pager: the alerts that Alertmanager sent to each receiver. `Pager` is pure; `listening` is its server.

It reads the body of Alertmanager's webhooks. It contains no rules: alerts are recorded for the receiver to which they
were sent, so that a wrong route is visible here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from sidecar.commands.demo.event_log import EventLog
from sidecar.commands.demo.processes import LOOPBACK


RESOLVED_SHOWN_SECONDS = 30.0
"""Time for which an ended alert is still shown, as resolved."""


@dataclass(slots=True)
class Notification:
    """One alert, as sent to one receiver."""

    receiver: str
    name: str
    phase: str
    severity: str
    summary: str
    runbook_url: str
    cause: str
    """The cause that leads within the phase; empty for alerts that name none."""
    resolved_at: float | None = None
    """Instant in seconds on the clock of `hear`; None while the alert fires."""

    @property
    def firing(self) -> bool:
        return self.resolved_at is None


class Pager:
    def __init__(self, log: EventLog | None = None) -> None:
        self._log = log
        self._told: dict[tuple[str, str], Notification] = {}
        self.on_news: Callable[[], None] = lambda: None
        """Called when a receiver was told of anything but the watchdog."""
        self.watchdogs = 0
        """Number of Watchdog alerts received; each shows that alerting works."""

    def hear(self, body: Mapping[str, Any], at: float) -> None:
        """Record the body of one webhook call, made at `at` seconds on any monotonic clock."""
        self._write_down(body)
        for alert in body["alerts"]:
            labels, annotations = alert["labels"], alert["annotations"]
            if labels["alertname"] == "Watchdog":
                self.watchdogs += 1
                continue
            place = (body["receiver"], alert["fingerprint"])
            firing = alert["status"] == "firing"
            if not firing and place not in self._told:
                continue
            self._told[place] = Notification(
                body["receiver"],
                labels["alertname"],
                labels.get("phase", ""),
                labels.get("severity", ""),
                annotations.get("summary", ""),
                annotations.get("runbook_url", ""),
                annotations.get("cause", ""),
                None if firing else at,
            )
            self.on_news()

    def pages(self, phase: str | None = None) -> frozenset[tuple[str, str]]:
        """The pages that fire, as pairs of receiver and fingerprint; with `phase`, those of this phase."""
        return frozenset(
            place
            for place, told in self._told.items()
            if told.firing and told.severity == "page" and phase in (None, told.phase)
        )

    def _write_down(self, body: Mapping[str, Any]) -> None:
        if self._log is not None:
            alerts = [
                {"status": alert["status"], "fingerprint": alert["fingerprint"], "labels": alert["labels"]}
                | {"runbook_url": alert["annotations"].get("runbook_url", "")}
                for alert in body["alerts"]
            ]
            group = body.get("groupKey", "")
            self._log.tell("notification", receiver=body["receiver"], status=body["status"], group=group, alerts=alerts)

    def shown(self, at: float) -> Sequence[Notification]:
        """Firing alerts, pages first, then alerts that ended within the last 30 s."""
        self._told = {
            place: told
            for place, told in self._told.items()
            if told.resolved_at is None or at - told.resolved_at < RESOLVED_SHOWN_SECONDS
        }
        return sorted(
            self._told.values(), key=lambda told: (not told.firing, told.severity != "page", told.name, told.summary)
        )


@asynccontextmanager
async def listening(pager: Pager) -> AsyncIterator[str]:
    """Serve on loopback, on any free port; yields the base URL. A webhook at any path below it reaches `pager`."""
    loop = asyncio.get_running_loop()

    async def heard(request: web.Request) -> web.Response:
        body = await request.json()
        # Slack's and PagerDuty's messages have the same content in other formats, so they are not read.
        if "alerts" in body:
            pager.hear(body, loop.time())
        return web.Response(status=202 if request.path == "/pagerduty" else 200)

    app = web.Application()
    app.add_routes([web.post("/{path:.*}", heard)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, 0).start()
        yield f"http://{LOOPBACK}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
