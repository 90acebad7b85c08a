"""A page and its end are found alert by alert, whatever else the same message tells."""

import time
from typing import Any

from tests.support.alert_stack import AlertStack
from tests.support.prometheus import Prometheus
from tests.support.sink import Notification, Sink


def alert(fingerprint: str, status: str) -> dict[str, Any]:
    return {"fingerprint": fingerprint, "status": status, "labels": {"lane": "chat"}}


def stack_told(*groups: tuple[dict[str, Any], ...]) -> AlertStack:
    told = [Notification("/sidecar/page", {"alerts": list(group)}, time.monotonic()) for group in groups]
    return AlertStack(Prometheus(""), Sink("", told))


def test_an_alert_that_still_fires_beside_a_resolved_one_is_not_over() -> None:
    """Seen with LLMSidecarStarved beside LLMSidecarBurn: one group, one message, two states."""
    starved, still = alert("starved", "firing"), (alert("burn", "resolved"), alert("starved", "firing"))

    assert stack_told((starved,), still).resolution(starved, "sidecar", 0, patience_seconds=0.01) == {}

    later = stack_told((starved,), still, (alert("starved", "resolved"),))
    assert later.resolution(starved, "sidecar", 0)["status"] == "resolved"


def test_a_page_is_the_first_alert_that_fires() -> None:
    stack = stack_told((alert("old", "resolved"), alert("new", "firing")))

    assert stack.page("sidecar", 0)["fingerprint"] == "new"
    assert stack.page("queue", 0, patience_seconds=0.01) == {}
    assert stack.page_about("chat", 0)[0] == "/sidecar/page"
    assert stack.page_about("batch", 0, patience_seconds=0.01) == ("", {})
