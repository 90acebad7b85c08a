"""The TEST page: posts one alert marked TEST to Alertmanager, waits until it is sent, and resolves it.

It is sent only on request. Its labels are those of a real page, so that it takes the same route, but for `job`: that keeps it out of
the groups of real incidents, and of those of earlier TEST pages, whose next message waits for `group_interval`. It has no lane and no pod, so that no shipped inhibit rule lets it mute another alert.
"""

import asyncio
import platform
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol

from yarl import URL

from sidecar.commands.asking import Reply
from sidecar.commands.doctor.gathered import UNKNOWN_FORM, Drilled, Evidence, MetricsPage, Read
from sidecar.commands.doctor.page_links import DASHBOARD, RUNBOOK, links_in
from sidecar.commands.doctor.page_routes import awaited, ended_by, failed_by, pages
from sidecar.commands.doctor.route_walk import Labels, ways


TEST_JOB = "TEST-sidecar-doctor"
"""The label `job` begins with it; the second of the run follows."""
ENDS_SECONDS = 600
"""The alert ends by itself after this, if the doctor is killed before it resolves it."""
MARGIN_SECONDS = 20.0
"""Beyond the route's group_wait: Alertmanager tries a receiver again for some seconds."""
BETWEEN_LOOKS_SECONDS = 0.5
BEFORE_THE_FIRST_SECONDS = 1.0
"""The counts are taken so long before the route's group_wait ends, or before the alert is posted where that is sooner. No message of
the TEST page is sent earlier, and every message that is, such as the Watchdog's, would be taken for it: Alertmanager counts by the kind
of receiver."""


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  instants in an alert


class Post(Protocol):
    """As `Asker.ask`."""

    def __call__(self, url: URL, *, json: object = None) -> Awaitable[Reply]: ...


def labels_of_test(read: Read, phase: str, began: datetime) -> Labels:
    """The labels of the TEST page of this phase, in a run that began then."""
    return {**pages(read)[phase], "job": f"{TEST_JOB}-{int(began.timestamp())}", "test": "TEST"}


def can_be_sent(evidence: Evidence, phase: str) -> bool:
    """Whether Alertmanager answered, with routes that can be read: without them it is not known how long a page takes."""
    read = Read(evidence)
    try:
        awaited(read.alertmanager_config, labels_of_test(read, phase, _now()))
    except UNKNOWN_FORM:
        return False
    return evidence.alertmanager["status"].good


async def send_test_page(
    ask: Post,
    at: Callable[[str], URL],
    evidence: Evidence,
    phase: str,
    *,
    now: Callable[[], datetime] = _now,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Drilled:
    """Post the alert, wait for its delivery, resolve it. `at`: path to URL below Alertmanager.

    It is not resolved before the longest group_wait has ended, whatever is counted: Alertmanager sends no message for an alert
    that was resolved before.
    """
    read = Read(evidence)
    labels, config = labels_of_test(read, phase, now()), read.alertmanager_config
    waits = [way.group_wait_seconds for way in ways(config, labels)]
    patience = max(waits) + MARGIN_SECONDS
    wanted = awaited(config, labels)
    body = {"labels": labels, "annotations": _annotations(read, phase), "startsAt": now().isoformat()}
    early = await ask(at("/metrics")) if min(waits) <= BEFORE_THE_FIRST_SECONDS else None
    posted = await ask(at("/api/v2/alerts"), json=[{**body, "endsAt": _ends(now())}])
    waited = max(0.0, min(waits) - BEFORE_THE_FIRST_SECONDS) if posted.good else 0.0
    try:
        await sleep(waited)
        before = after = early or await ask(at("/metrics"))
        while posted.good and waited < patience and (waited <= max(waits) or _may_still_show(before, after, wanted)):
            await sleep(BETWEEN_LOOKS_SECONDS)
            waited += BETWEEN_LOOKS_SECONDS
            after = await ask(at("/metrics"))
    finally:
        resolved = await ask(at("/api/v2/alerts"), json=[{**body, "endsAt": now().isoformat()}])
    return Drilled(labels, posted, before, after, resolved, waited)


def _ends(now: datetime) -> str:
    return (now + timedelta(seconds=ENDS_SECONDS)).isoformat()


def _annotations(read: Read, phase: str) -> Mapping[str, str]:
    try:
        links = {name: links_in(read, name, pages(read)[phase]["alertname"])[0] for name in (RUNBOOK, DASHBOARD)}
    except UNKNOWN_FORM:
        links = {}
    return {
        "summary": f"TEST of the pages of phase {phase} by `sidecar doctor` on {platform.node()}: no incident, nothing to do",
        "description": "This message shows that pages of this phase arrive. It is resolved by the doctor.",
        "rank": "first",
        **links,
    }


def _may_still_show(before: Reply, after: Reply, wanted: Mapping[str, int]) -> bool:
    """Whether a further look may show a message: some have neither been sent nor failed, and the first counts could be read."""
    first, last = _counts(before), _counts(after)
    if first is None or last is None:
        return first is not None
    return not wanted.keys() <= {*ended_by(first, last, wanted), *failed_by(first, last, wanted)}


def _counts(reply: Reply) -> MetricsPage | None:
    try:
        return MetricsPage(reply.body) if reply.good else None
    except UNKNOWN_FORM:
        return None
