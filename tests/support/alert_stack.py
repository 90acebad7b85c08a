"""A page's whole way on real servers with the shipped rules and routes: sidecar, Prometheus, Alertmanager, sink.

Only durations (all by the demo's one factor) and the receivers' addresses differ from what is shipped. Knows nothing of
engines and incidents: the caller brings a sidecar.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sidecar.commands.demo.servers import INSTALL, alerting, programs
from sidecar.commands.demo.shipped import FASTEST, find
from tests.support.background import Background
from tests.support.prometheus import Prometheus, explained
from tests.support.sidecar_process import SidecarProcess
from tests.support.sink import Sink, listening_sink
from tests.support.tools import missing


POD = "demo-0"
CALM = """
  count(llm_evidence_ratio{cause="load"}) >= 1
  unless on () (count(lane:llm_slo_misses:increase5m > 0) > 0)
  unless on () (count(ALERTS{severity="page"}) > 0)
"""
"""The sidecar knows what is usual, no objective was missed for (scaled) five minutes, and no page is firing."""


@dataclass(frozen=True, slots=True)
class AlertStack:
    """All servers from the scrape to the pager, running."""

    prometheus: Prometheus
    sink: Sink

    def wait_until_calm(self, patience_seconds: float = 300.0) -> int:
        """Wait for calm; returns the number of notifications so far. Fails if calm does not come.

        A sidecar learns what is usual for more than three minutes, in real time.
        """
        with explained(self.prometheus, self.sink):
            assert self.prometheus.wait_for(CALM, patience_seconds=patience_seconds), "it never became calm"
        return len(self.sink.notifications)

    def page(self, phase: str, since: int, patience_seconds: float = 120.0) -> dict[str, Any]:
        """The first firing alert at the pager of `phase` after so many notifications; {} when patience ends."""
        told = self._told(since, patience_seconds, lambda path, alert: path == f"/{phase}/page" and _fires(alert))
        return told[1]

    def page_about(self, lane: str, since: int, patience_seconds: float = 60.0) -> tuple[str, dict[str, Any]]:
        """(path, alert) of the first firing page about this lane after so many notifications; ("", {}) when patience
        ends.
        """

        def about_lane(path: str, alert: dict[str, Any]) -> bool:
            return path.endswith("/page") and _fires(alert) and alert["labels"].get("lane") == lane

        return self._told(since, patience_seconds, about_lane)

    def resolution(
        self, page: dict[str, Any], phase: str, since: int, patience_seconds: float = 120.0
    ) -> dict[str, Any]:
        """The notification that this alert is resolved; {} when patience ends.

        One message may tell that other alerts of its group are resolved and that this one still fires.
        """

        def over(path: str, alert: dict[str, Any]) -> bool:
            return path == f"/{phase}/page" and not _fires(alert) and alert["fingerprint"] == page["fingerprint"]

        return self._told(since, patience_seconds, over)[1]

    def _told(
        self, since: int, patience_seconds: float, wanted: Callable[[str, dict[str, Any]], bool]
    ) -> tuple[str, dict[str, Any]]:
        deadline = time.monotonic() + patience_seconds
        while time.monotonic() < deadline:
            for told in self.sink.notifications[since:]:
                for alert in told.body.get("alerts", ()):
                    if wanted(told.path, alert):
                        return told.path, dict(alert)
            time.sleep(0.05)
        return "", {}

    def paged(self, since: int) -> list[str]:
        """The phases with a firing alert at their pagers, in order of the first one."""
        phases = [
            alert["labels"]["phase"]
            for told in self.sink.notifications[since:]
            if told.path.endswith("/page")
            for alert in told.body["alerts"]
            if _fires(alert)
        ]
        return list(dict.fromkeys(phases))


def _fires(alert: Mapping[str, Any]) -> bool:
    return bool(alert["status"] == "firing")


@contextmanager
def alert_stack(thread: Background, sidecar: SidecarProcess) -> Iterator[AlertStack]:
    """A stack over this sidecar for the length of a `with` block. Skips, or in CI fails, if a program is missing."""
    found, shipped = programs(), find(FASTEST)
    if found is None:
        missing(f"Prometheus and Alertmanager are not installed (Debian: {INSTALL})")
    assert shipped is not None
    pods = {POD: f"127.0.0.1:{sidecar.web_port}"}
    with listening_sink() as sink, thread.entered(lambda: alerting(found, shipped, pods, sink.url)) as servers:
        yield AlertStack(Prometheus(servers.prometheus_url), sink)
