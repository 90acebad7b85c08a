"""The demo's pager shows Alertmanager's notifications with their receivers."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from sidecar.commands.demo.event_log import EventLog
from sidecar.commands.demo.pager import RESOLVED_SHOWN_SECONDS, Pager, listening
from sidecar.commands.demo.table import blocks, paged


def told(name: str, *, status: str = "firing", severity: str = "page", receiver: str = "queue-page") -> dict[str, Any]:
    """A webhook's body with the fields that the pager reads: one alert, identified by its name."""
    alert = {
        "status": status,
        "labels": {"alertname": name, "phase": "queue", "severity": severity},
        "annotations": {"summary": f"{name} burns", "runbook_url": f"http://here/runbooks/{name}", "cause": "slots"},
        "fingerprint": f"finger-{name}",
    }
    return {"receiver": receiver, "status": status, "alerts": [alert]}


def names(pager: Pager, at: float) -> list[tuple[str, str, bool]]:
    return [(alert.name, alert.receiver, alert.firing) for alert in pager.shown(at)]


def test_pages_stand_above_tickets_and_what_is_over_below_both() -> None:
    pager = Pager()
    pager.hear(told("Over"), 1.0)
    pager.hear(told("Ticket", severity="ticket", receiver="queue-ticket"), 2.0)
    pager.hear(told("Page"), 3.0)
    pager.hear(told("Over", status="resolved"), 4.0)

    shown = [("Page", "queue-page", True), ("Ticket", "queue-ticket", True), ("Over", "queue-page", False)]
    assert names(pager, 5.0) == shown


def test_an_alert_is_shown_for_a_while_after_its_end_and_fires_again_as_the_same() -> None:
    pager = Pager()
    pager.hear(told("Page"), 0.0)
    pager.hear(told("Page", status="resolved"), 10.0)
    assert names(pager, 10.0 + RESOLVED_SHOWN_SECONDS - 1) == [("Page", "queue-page", False)]

    pager.hear(told("Page"), 20.0)
    assert names(pager, 20.0 + 10 * RESOLVED_SHOWN_SECONDS) == [("Page", "queue-page", True)]

    pager.hear(told("Page", status="resolved"), 400.0)
    assert names(pager, 400.0 + RESOLVED_SHOWN_SECONDS) == []


def test_a_page_is_shown_with_its_phase_the_cause_that_leads_and_its_runbook() -> None:
    pager = Pager()
    pager.hear(told("LLMQueueBurn"), 1.0)
    (alert,) = pager.shown(2.0)

    assert paged([alert]) == [
        "FIRING page   phase queue        LLMQueueBurn",
        "  -> queue-page, cause slots: LLMQueueBurn burns",
        "  runbook http://here/runbooks/LLMQueueBurn",
    ]
    assert paged([replace(alert, cause="")])[1] == "  -> queue-page: LLMQueueBurn burns"
    assert paged([replace(alert, resolved_at=3.0)]) == ["resolved      phase queue        LLMQueueBurn"]


def test_the_alerts_of_one_message_are_one_block() -> None:
    pager = Pager()
    for name in ("LLMEngineDown", "LLMQueueBurn"):
        pager.hear(told(name), 1.0)
    pager.hear(told("LLMOver", receiver="other-page"), 1.0)
    pager.hear(told("LLMOver", receiver="other-page", status="resolved"), 1.5)

    message, over = blocks(pager.shown(2.0))

    assert [line.split()[-1] for line in paged(message) if line.startswith("FIRING")] == ["LLMEngineDown"]
    assert paged(message)[-1] == "  and LLMQueueBurn: LLMQueueBurn burns"
    assert paged(over) == ["resolved      phase queue        LLMOver"]


def test_a_page_fires_until_it_is_resolved_and_a_ticket_is_none() -> None:
    """The stage heals after a page, and the next fault waits for its end."""
    pager, fires = Pager(), list[bool]()
    for severity, status in (("ticket", "firing"), ("page", "firing"), ("page", "resolved")):
        pager.hear(told(severity, severity=severity, status=status), 1.0)
        fires.append(bool(pager.pages()))

    assert fires == [False, True, False]


def test_a_page_of_another_phase_is_not_the_one_that_a_fault_waits_for() -> None:
    pager = Pager()
    pager.hear(told("Page"), 1.0)

    assert {phase: len(pager.pages(phase)) for phase in (None, "queue", "decode")} == {None: 1, "queue": 1, "decode": 0}


def test_each_notification_is_news_and_is_written_down(tmp_path: Path) -> None:
    """The watchdog is written down too, and is no news."""
    heard = list[str]()
    with EventLog(str(tmp_path / "events"), lambda: 7.0) as log:
        pager = Pager(log)
        pager.on_news = lambda: heard.append("news")
        pager.hear(told("Watchdog", receiver="watchdog"), 1.0)
        pager.hear(told("Page"), 2.0)
    written = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]

    assert heard == ["news"]
    assert [(each["event"], each["receiver"], each["status"]) for each in written] == [
        ("notification", "watchdog", "firing"),
        ("notification", "queue-page", "firing"),
    ]
    assert written[1]["alerts"][0]["runbook_url"] == "http://here/runbooks/Page"


def test_the_end_of_an_alert_that_was_never_sent_is_no_news() -> None:
    pager = Pager()
    pager.hear(told("Page", status="resolved"), 1.0)

    assert names(pager, 2.0) == []


def test_the_watchdog_is_counted_and_not_shown() -> None:
    pager = Pager()
    pager.hear(told("Watchdog", receiver="watchdog"), 1.0)

    assert (names(pager, 2.0), pager.watchdogs) == ([], 1)


def test_every_receivers_webhook_is_heard_and_chats_are_answered() -> None:
    async def scenario() -> tuple[list[int], list[str]]:
        pager = Pager()
        async with listening(pager) as url, aiohttp.ClientSession(url) as alertmanager:
            statuses = []
            for path, body in (
                ("/queue/page", told("Page")),
                ("/slack", {"channel": "#llm-queue"}),
                ("/pagerduty", {"routing_key": "key"}),
            ):
                async with alertmanager.post(path, json=body) as answer:
                    statuses.append(answer.status)
        return statuses, [alert.name for alert in pager.shown(0.0)]

    assert asyncio.run(scenario()) == ([200, 200, 202], ["Page"])
