"""The links of the chain from an engine to a page: the closed table that the command, its JSON and docs/doctor.md share.

Knows each link's name, the question that it answers, the flag that makes it checkable, and what follows if it is broken. It
refuses to know how a link is judged.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum

from sidecar.commands.asking import Reply


class State(StrEnum):
    """The verdict on one link. Unknown is never ok."""

    OK = "ok"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Link(Enum):
    """Each link: its name, its question, the flags that make it checkable, and the consequence if it is broken."""

    CONFIG = (
        "config",
        "Is the config without errors, is the last reload in force, and has each lane objectives?",
        "--config.file",
        "The sidecar does not start, or runs an older config; a lane without objectives never pages.",
    )
    ENGINE = (
        "engine",
        "Does the engine answer?",
        "--engine.url, or a running sidecar",
        "No request is served.",
    )
    REPORTS = (
        "engine-reports",
        "Does the engine report its own times and its state?",
        "--engine.url, or a running sidecar with traffic",
        "Queue and prefill are estimated or `unattributed`, and pages name no phase.",
    )
    SIDECAR = (
        "sidecar",
        "Does the sidecar answer on its admin side, and is it healthy?",
        "--sidecar.url",
        "Nothing is measured.",
    )
    READY = ("ready", "May traffic come?", "--sidecar.url", "Kubernetes sends no traffic to the pod.")
    TRAFFIC = (
        "traffic",
        "Does the traffic port listen, and is it this very sidecar that answers?",
        "--proxy.url",
        "Clients reach nothing, or reach something that does not measure.",
    )
    ATTACHED = (
        "attached",
        "Has each pod its sidecar that asks for one, and does all that leads there lead to the sidecar?",
        "--manifests",
        "Requests go past the sidecar, or to a port where nothing listens.",
    )
    CLIENTS = (
        "clients",
        "Do all clients go through the sidecar?",
        "--sidecar.url",
        "Requests that bypass the sidecar miss in every number, and the engine's load has no explanation.",
    )
    COUNTED = (
        "counted",
        "Is all inference that passes counted, and do answers prove that they are whole?",
        "--sidecar.url",
        "Requests on unknown paths are in no number, and an answer that broke off may count as ok.",
    )
    LIMITS = (
        "limits",
        "Are open files and budgets enough?",
        "--sidecar.url",
        "Requests are refused, with an answer of the sidecar's own.",
    )
    PROMETHEUS = ("prometheus", "Does Prometheus answer?", "--prometheus.url", "There are no series, rules and alerts.")
    SCRAPE = (
        "scrape",
        "Does Prometheus scrape this very process, once, whole, and at least once a minute?",
        "--prometheus.url",
        "Rules see no series of this pod, or count them twice.",
    )
    RULES = (
        "rules",
        "Is every shipped rule loaded, once, and no rule that reads what a lean pod leaves out?",
        "--prometheus.url",
        "The alerts that are missing, or read nothing, never fire.",
    )
    LABELS = (
        "labels",
        "Do the series carry the labels that the rules group by?",
        "--prometheus.url",
        "Pods or fleets are added up as one, and messages have gaps.",
    )
    EVALUATION = (
        "evaluation",
        "Is every rule evaluated, in time and without an error?",
        "--prometheus.url",
        "Alerts come late or never.",
    )
    WATCHDOG = (
        "watchdog",
        "Does the alert Watchdog fire, as it always must?",
        "--prometheus.url",
        "The silence of alerting itself goes unnoticed.",
    )
    ALERTMANAGER = ("alertmanager", "Does Alertmanager answer?", "--alertmanager.url", "No message is sent.")
    SENT = (
        "alerts-sent",
        "Do Prometheus' alerts reach Alertmanager?",
        "--prometheus.url, --alertmanager.url",
        "Alerts fire and stay in Prometheus.",
    )
    ROUTES = (
        "routes",
        "Would a page of each phase reach a receiver, unmuted?",
        "--alertmanager.url",
        "A page goes nowhere.",
    )
    TEMPLATES = (
        "templates",
        "Is every template that the receivers name defined?",
        "--alertmanager.url, --alertmanager.templates",
        "The notification fails when it is rendered.",
    )
    DELIVERY = (
        "delivery",
        "Do the receivers accept notifications?",
        "--alertmanager.url, --send-test-page",
        "The message is lost behind Alertmanager.",
    )
    RUNBOOKS = (
        "runbooks",
        "Does the runbook link of each alert open?",
        "--prometheus.url",
        "The person who is paged meets a dead link.",
    )
    DASHBOARDS = (
        "dashboards",
        "Does the dashboard link of each alert open?",
        "--prometheus.url, --grafana.url",
        "The person who is paged meets a dead link.",
    )
    CLOCK = (
        "clock",
        "Do the clocks of all pods, Prometheus and Alertmanager agree?",
        "--prometheus.url",
        "Ages and windows are wrong; alerts end at once, or never.",
    )

    def __init__(self, label: str, question: str, asked_with: str, consequence: str) -> None:
        self.label = label
        """The name in text and JSON."""
        self.question = question
        self.asked_with = asked_with
        """The flags that make the link checkable."""
        self.consequence = consequence
        """The consequence if the link is broken."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one link. `said`: the facts, in one sentence; `do`: what to do next, empty if nothing."""

    link: Link
    state: State
    said: str
    do: str = ""
    follows: tuple[Link, ...] = ()
    """Broken links that must be mended before this one can be checked."""


class Chain:
    """The findings so far, in the order of the table."""

    def __init__(self) -> None:
        self._found: dict[Link, Finding] = {}

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found.values())

    def add(self, finding: Finding) -> None:
        self._found[finding.link] = finding

    def is_broken(self, link: Link) -> bool:
        return link in self._found and self._found[link].state is State.BROKEN

    def is_ok(self, link: Link) -> bool:
        return link in self._found and self._found[link].state is State.OK

    def waits(self, link: Link, *needed: Link) -> Finding | None:
        """The finding that `link` cannot be checked while any of `needed` is broken; None if none is."""
        broken = tuple(one for one in needed if self.is_broken(one))
        if not broken:
            return None
        names = ", ".join(one.label for one in broken)
        return Finding(link, State.UNKNOWN, "not checkable yet", f"mend first: {names}", broken)


def ok(link: Link, said: str) -> Finding:
    return Finding(link, State.OK, said)


def broken(link: Link, said: str, do: str) -> Finding:
    return Finding(link, State.BROKEN, said, do)


def unknown(link: Link, said: str, do: str) -> Finding:
    return Finding(link, State.UNKNOWN, said, do)


def unread(link: Link, replies: Iterable[Reply]) -> Finding | None:
    """The finding for a link of which nothing bad is known, if one of the answers that would show it is not good; else None."""
    bad = next((one for one in replies if not one.good), None)
    return (
        None
        if bad is None
        else unknown(link, bad.told, "let the doctor read it, or mend the server; then run it again")
    )


def not_asked(link: Link, flag: str) -> Finding:
    """The finding for a source that no flag names."""
    return unknown(link, "not asked", f"give {flag}")
