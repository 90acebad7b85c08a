"""The TEST page: marked, on the route of a real page, apart from real incidents, and resolved whatever happens."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from yarl import URL

from sidecar.commands.asking import Reply
from sidecar.commands.doctor.drill import ENDS_SECONDS, TEST_JOB, send_test_page
from sidecar.commands.doctor.examination import examine
from sidecar.commands.doctor.gathered import Drilled, Evidence
from sidecar.commands.doctor.links import Link, State
from sidecar.commands.doctor.route_walk import muted_by, ways
from sidecar.config.quick_yaml import read_yaml
from sidecar.diagnosis.interventions import CHAPTERS
from tests.commands.doctor.sound_evidence import COUNTED, groups, routes, sound, status, told


RECEIVER = {"name": "all", **{f"{kind}_configs": [{}] for kind in ("webhook", "slack", "pagerduty")}}
AT = datetime(2026, 9, 21, 14, 0, tzinfo=UTC)


class Server:
    """An Alertmanager that sends each kind of message so many seconds after the alert was posted."""

    def __init__(self, sent_after: float = 31.0, *, breaks: bool = False) -> None:
        self.posted: list[dict[str, Any]] = []
        self.looks, self.seconds = 0, 0.0
        self.sent_after, self.breaks = sent_after, breaks

    @property
    def page(self) -> str:
        """Alertmanager's page of metrics now."""
        return COUNTED.replace("} 3", "} 4") if self.seconds > self.sent_after else COUNTED

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def now(self) -> datetime:
        return AT + timedelta(seconds=self.seconds)

    async def ask(self, url: URL, *, json: Any = None) -> Reply:
        if json is not None:
            self.posted += json
            return told("")
        self.looks += 1
        if self.breaks and self.looks > 1:
            raise KeyboardInterrupt
        return told(self.page, str(url))


def send(server: Server, phase: str = "queue", evidence: Evidence | None = None) -> Drilled:
    where, known = "http://am", evidence or sound()
    return asyncio.run(
        send_test_page(server.ask, lambda path: URL(f"{where}{path}"), known, phase, now=server.now, sleep=server.sleep)
    )


def delivered(server: Server, evidence: Evidence) -> tuple[State, str]:
    """The doctor's words on the delivery, after a TEST page to this server."""
    evidence.test_page = send(server, evidence=evidence)
    return next((one.state, one.said) for one in examine(evidence) if one.link is Link.DELIVERY)


def waiting(group_wait: str) -> Evidence:
    """A sound chain, in which all routes wait so long."""
    evidence, config = sound(), routes()
    text = re.sub(r"group_wait: *\S+", f"group_wait: {group_wait}", yaml.safe_dump(config | {"receivers": [RECEIVER]}))
    text = re.sub(r"receiver: *\S+", f"receiver: {RECEIVER['name']}", text)
    evidence.alertmanager = {**evidence.alertmanager, "status": status(read_yaml(text))}
    return evidence


@pytest.mark.parametrize("phase", CHAPTERS)
def test_the_links_of_the_test_page_are_those_of_its_own_alert(phase: str) -> None:
    server = Server()
    send(server, phase)

    runbook, dashboard = (server.posted[0]["annotations"][name] for name in ("runbook_url", "dashboard_url"))
    pages = [rule for group in groups() for rule in group["rules"] if rule["labels"].get("phase") == phase]
    (own,) = {
        rule["annotations"]["dashboard_url"].partition("?")[0] for rule in pages if rule["name"] == CHAPTERS[phase]
    }
    assert (runbook.rpartition("/")[2], dashboard) == (CHAPTERS[phase], own)


def test_the_test_page_is_marked_delivered_and_resolved() -> None:
    server, evidence = Server(), sound()
    evidence.test_page = send(server)
    found = {one.link: (one.state, one.said) for one in examine(evidence)}
    first, last = server.posted

    assert first["annotations"]["summary"].startswith("TEST of the pages of phase queue")
    assert first["labels"] == last["labels"]
    assert [datetime.fromisoformat(one["endsAt"]) - AT for one in (first, last)] == [
        timedelta(seconds=ENDS_SECONDS),
        timedelta(seconds=server.seconds),
    ]
    assert found[Link.DELIVERY] == (State.OK, "the TEST page was accepted: pagerduty 1, slack 1, webhook 1")


def test_it_takes_the_route_of_a_real_page_and_mutes_no_other_alert() -> None:
    """Each phase; the shipped inhibit rules ask a source for a lane or a pod, and the TEST page has neither."""
    config, found = routes(), {}
    for rule in [rule for group in groups() if group["name"] == "llm-phase-pages" for rule in group["rules"]]:
        phase = rule["labels"].get("phase")
        if phase is None or phase in found:
            continue
        server = Server(0)
        labels = send(server, phase).labels
        real = {**labels, "job": "llama", "lane": "chat", "model": "m", "objective": "ttft"}
        others = [{**real, "phase": other, "job": labels["job"]} for other in ("unattributed", "queue", "decode")]
        muted = [other for other in others if list(muted_by(config, other, [labels]))]
        found[phase] = (ways(config, labels) == ways(config, real), labels["job"].startswith(TEST_JOB), muted)

    assert found == {phase: (True, True, []) for phase in found}
    assert len(found) == 8


def test_a_page_that_is_never_sent_is_resolved_when_patience_ends() -> None:
    server, evidence = Server(sent_after=10_000), sound()
    evidence.test_page = send(server)
    (found,) = [one for one in examine(evidence) if one.link is Link.DELIVERY]

    assert (found.state, len(server.posted)) == (State.BROKEN, 2)
    assert "was not sent by" in found.said


def test_a_message_before_the_routes_group_wait_is_another_alerts() -> None:
    """On a real Alertmanager the Watchdog's webhook was taken for the TEST page, which was resolved before it was sent."""
    (wait,) = {way.group_wait_seconds for way in ways(routes(), {"severity": "page", "phase": "queue"})}
    server, evidence = Server(sent_after=wait / 2), sound()
    evidence.test_page = send(server)
    (found,) = [one for one in examine(evidence) if one.link is Link.DELIVERY]

    assert found.state == State.BROKEN


class Mute(Server):
    """An Alertmanager whose page of metrics is none."""

    @property
    def page(self) -> str:
        return "<html>"


def test_a_page_of_metrics_that_cannot_be_read_leaves_the_delivery_unknown() -> None:
    """The page is sent all the same, and the doctor does not wait for what nothing will show."""
    server = Mute()
    state, _ = delivered(server, waiting("15s"))

    assert (state, len(server.posted), server.seconds) == (State.UNKNOWN, 2, 15.5)


class Deaf(Server):
    """An Alertmanager that does not answer a post."""

    async def ask(self, url: URL, *, json: Any = None) -> Reply:
        reply = await super().ask(url, json=json)
        return reply if json is None else Reply(str(url), failure="did not answer within 10 s")


def test_a_post_without_an_answer_is_resolved_at_once_and_nothing_was_waited() -> None:
    server = Deaf()
    sent = send(server)

    assert (len(server.posted), server.seconds, sent.waited_seconds) == (2, 0.0, 0.0)


class AtOnce(Server):
    """An Alertmanager that has sent all messages when its answer to the post comes."""

    @property
    def page(self) -> str:
        return COUNTED.replace("} 3", "} 4") if self.posted else COUNTED


@pytest.mark.parametrize("group_wait", ["0s", "1s"])
def test_a_message_that_is_sent_at_once_is_counted(group_wait: str) -> None:
    assert delivered(AtOnce(), waiting(group_wait))[0] is State.OK


def test_it_is_not_resolved_before_the_longest_wait_has_ended() -> None:
    """Another alert's message 0.8 s before that ended the waiting, and Alertmanager sent no TEST page at all."""
    server = Server(sent_after=14.2)
    state, _ = delivered(server, waiting("15s"))

    assert (state, server.posted[-1]["endsAt"] > (AT + timedelta(seconds=15)).isoformat()) == (State.OK, True)


def test_an_interrupt_resolves_it_too() -> None:
    server = Server(breaks=True)
    with pytest.raises(KeyboardInterrupt):
        send(server)

    assert [one["endsAt"] for one in server.posted][1:] == [server.now().isoformat()]
    assert server.posted[0]["labels"] == server.posted[1]["labels"]


def test_a_second_test_page_is_in_no_group_of_the_first() -> None:
    """On a real Alertmanager the next message of a group waits for group_interval, five minutes, and the page was called late."""
    server, by = Server(), routes()["route"]["group_by"]
    groups_of = [tuple(send(server).labels.get(name, "") for name in by) for _ in range(2)]

    assert ("job" in by, len({*groups_of})) == (True, 2)
