"""Changes of one answer in the evidence of a sound chain, and what the doctor then says."""

from collections.abc import Callable
from typing import Any

from sidecar.commands.asking import Reply
from sidecar.commands.doctor.examination import examine
from sidecar.commands.doctor.gathered import ConfigCheck, Drilled, Evidence, Read
from sidecar.commands.doctor.links import Link, State
from sidecar.commands.doctor.page_routes import pages
from tests.commands.doctor.sound_evidence import (
    COUNTED,
    PAGE,
    api,
    groups,
    routes,
    status,
    told,
)


NO_ANSWER = Reply(
    "http://nowhere", failure="cannot be asked: nothing listens there; does it run, and is the port right?"
)


def states(evidence: Evidence) -> dict[State, list[str]]:
    found: dict[State, list[str]] = {state: [] for state in State}
    for one in examine(evidence):
        found[one.state].append(one.link.label)
    return found


def said(evidence: Evidence, link: Link) -> str:
    return next(f"{one.said} -> {one.do}" for one in examine(evidence) if one.link is link)


def on_page(old: str, new: str) -> Callable[[Evidence], None]:
    assert old in PAGE

    def change(evidence: Evidence) -> None:
        evidence.page = told(PAGE.replace(old, new))

    return change


def prometheus(name: str, reply: Reply) -> Callable[[Evidence], None]:
    def change(evidence: Evidence) -> None:
        evidence.prometheus = {**evidence.prometheus, name: reply}

    return change


def alertmanager(name: str, reply: Reply) -> Callable[[Evidence], None]:
    def change(evidence: Evidence) -> None:
        evidence.alertmanager = {**evidence.alertmanager, name: reply}

    return change


def every_rule(**fields: Any) -> Callable[[Evidence], None]:
    return prometheus(
        "rules",
        api({"groups": [{**group, "rules": [{**rule, **fields} for rule in group["rules"]]} for group in groups()]}),
    )


def target(**fields: str) -> Callable[[Evidence], None]:
    def change(evidence: Evidence) -> None:
        one = evidence.prometheus["targets"].data["activeTargets"][0]
        prometheus("targets", api({"activeTargets": [{**one, **fields}]}))(evidence)

    return change


def opened(part: str, reply: Reply) -> Callable[[Evidence], None]:
    def change(evidence: Evidence) -> None:
        evidence.opened = {link: reply if part in link else was for link, was in evidence.opened.items()}

    return change


def routed(**fields: Any) -> Callable[[Evidence], None]:
    return alertmanager("status", status({**routes(), **fields}))


def with_config(check: ConfigCheck) -> Callable[[Evidence], None]:
    def change(evidence: Evidence) -> None:
        evidence.config = check

    return change


def drilled(grown: str, **replies: Reply) -> Callable[[Evidence], None]:
    """A TEST page of the phase queue, after which the counters stand so; `replies`: fields of `Drilled`."""

    def change(evidence: Evidence) -> None:
        labels = dict(pages(Read(evidence))["queue"])
        sent = Drilled(labels, told(""), told(COUNTED), told(grown), told(""), 20.0)
        for name, reply in replies.items():
            setattr(sent, name, reply)
        evidence.test_page = sent

    return change
