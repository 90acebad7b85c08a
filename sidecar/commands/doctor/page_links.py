"""Judges the links in pages: does the runbook of each alert open, does Grafana have each dashboard.

Knows the annotations of the loaded rules and Grafana's two paths of a dashboard. Pure: `gathering.py` opens the links.
"""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from yarl import URL

from sidecar.commands.asking import Reply
from sidecar.commands.doctor.expected_rules import ours
from sidecar.commands.doctor.gathered import UNKNOWN_FORM, Evidence, Read
from sidecar.commands.doctor.links import Chain, Finding, Link, broken, not_asked, ok, unknown


RUNBOOK, DASHBOARD = "runbook_url", "dashboard_url"
_UID = re.compile(r"^(.*)/d/([^/?]+)")
_BY_UID = "/api/dashboards/uid/"
_FORBIDDEN = (401, 403)


def links_in(read: Read, annotation: str, alert: str = "") -> list[str]:
    """The links of all loaded alerts, or of the one of this name, without their variables, each once."""
    alerts = [rule for rule in ours(read.groups) if rule["type"] == "alerting" and alert in ("", rule["name"])]
    found = [rule["annotations"].get(annotation, "") for rule in alerts]
    return [*dict.fromkeys(link.partition("?")[0] for link in found if link)]


def api_link(dashboard: str, grafana_url: str | None) -> str:
    """The link that proves that a dashboard exists: Grafana answers its plain page for any name."""
    found = _UID.match(dashboard)
    if found is None:
        return dashboard
    if grafana_url is None:
        return f"{found[1]}{_BY_UID}{found[2]}"
    given = URL(grafana_url)
    return str(given.with_path(f"{given.path.rstrip('/')}{_BY_UID}{found[2]}"))


def to_open(evidence: Evidence, grafana_url: str | None) -> list[str]:
    """Every link to ask for, each once."""
    read = Read(evidence)
    try:
        boards = links_in(read, DASHBOARD)
        links = [*links_in(read, RUNBOOK), *boards, *(api_link(one, grafana_url) for one in boards)]
    except UNKNOWN_FORM:
        return []
    return [*dict.fromkeys(link for link in links if re.match(r"https?://[^/\s]", link))]


def _needs_links(read: Read, chain: Chain, link: Link, annotation: str) -> Finding | list[str]:
    if waits := chain.waits(link, Link.PROMETHEUS):
        return waits
    if not read.evidence.prometheus:
        return not_asked(link, "--prometheus.url")
    found = links_in(read, annotation)
    if not found:
        return chain.waits(link, Link.RULES) or unknown(link, f"no rule has a {annotation}", "load the shipped rules")
    return found


def runbooks(read: Read, chain: Chain) -> Finding:
    found = _needs_links(read, chain, Link.RUNBOOKS, RUNBOOK)
    if isinstance(found, Finding):
        return found
    dead = [one for one in found if not _opens(read.evidence.opened.get(one))]
    if dead:
        return _dead(
            read,
            Link.RUNBOOKS,
            dead,
            len(found),
            "a Service in front of the admin side, and `sidecar export rules --runbook-base=URL`",
        )
    return ok(Link.RUNBOOKS, f"all {len(found)} runbooks open, at {_hosts(found)}")


def dashboards(read: Read, chain: Chain) -> Finding:
    found = _needs_links(read, chain, Link.DASHBOARDS, DASHBOARD)
    if isinstance(found, Finding):
        return found
    opened = read.evidence.opened
    dead = [one for one in found if not _opens(opened.get(one))]
    if dead:
        return _dead(
            read,
            Link.DASHBOARDS,
            dead,
            len(found),
            "`sidecar export rules --grafana-base=URL`, with Grafana's own address",
        )
    proofs = {one: _proof(opened, one) for one in found}
    absent = [one for one, reply in proofs.items() if reply is not None and reply.status == 404]
    if absent:
        uids = ", ".join(one.rpartition("/")[2] for one in absent)
        return broken(
            Link.DASHBOARDS,
            f"Grafana at {_hosts(absent)} has no dashboard {uids}",
            "import the shipped dashboards, which have these uids: grafana/README.md",
        )
    unproven = [one for one, reply in proofs.items() if reply is None or not reply.good]
    if unproven:
        first = proofs[unproven[0]]
        locked = first is not None and first.status in _FORBIDDEN
        return unknown(
            Link.DASHBOARDS,
            f"{_hosts(unproven)} answers, and {'asks for a login' if locked else 'does not tell which dashboards it has'}",
            "give --grafana.url=http://USER:PASSWORD@HOST:PORT",
        )
    return ok(Link.DASHBOARDS, f"all {len(found)} dashboards exist, at {_hosts(found)}")


def _proof(opened: dict[str, Reply] | object, dashboard: str) -> Reply | None:
    """The answer about this dashboard's uid, whatever Grafana was asked for it."""
    uid = dashboard.rpartition("/")[2]
    replies = opened if isinstance(opened, dict) else {}
    return next((reply for link, reply in replies.items() if link.endswith(f"{_BY_UID}{uid}")), None)


def _opens(reply: Reply | None) -> bool:
    return reply is not None and reply.status is not None and (reply.status < 400 or reply.status in _FORBIDDEN)


def _dead(read: Read, link: Link, dead: list[str], count: int, remedy: str) -> Finding:
    reply = read.evidence.opened.get(dead[0])
    why = f"{dead[0]} is no http address" if reply is None else reply.told
    return broken(
        link, f"{len(dead)} of {count} links are dead from here: {why}", f"{remedy}; then load the rules again"
    )


def _hosts(links: Iterable[str]) -> str:
    return ", ".join(sorted({urlsplit(one).netloc for one in links}))
