"""Judges whether two clusters can be told apart: by the labels of series in Prometheus, and by those of alerts in Alertmanager. Pure.

Two clusters whose namespaces, jobs and pods have the same names differ by a label such as `cluster` or not at all. Without one, these
signs show it:

- two processes of one identity, at two addresses, that were alive at the same time: a pod has one address;
- a start time that falls again and again: two processes write one series, because even their addresses are the same;
- an alert in Alertmanager that this Prometheus does not fire: another Prometheus sends it;
- an inhibition or a grouping in force that does not ask for the label, though alerts have it;
- a label of another name, such as `k8s_cluster`, that differs among the targets of one job, or among the alerts that two servers send.

A name that nothing contradicts is taken as it is: clusters of which only one has a sidecar up cannot be found so.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sidecar.commands.doctor.expected_rules import WATCHDOG, expected, ours
from sidecar.commands.doctor.gathered import UNKNOWN_FORM, Read
from sidecar.commands.doctor.links import Finding, Link, broken, unknown
from sidecar.commands.doctor.route_walk import Labels, muted_by
from sidecar.commands.export.expression_names import label_lists
from sidecar.metrics.target_labels import CLUSTER


SETTLED_SECONDS = 60.0
"""An alert that is younger may have begun between the question to Prometheus and that to Alertmanager."""
_TELL_APART = "give each cluster's targets a label cluster, or each cluster's Prometheus external_labels: {cluster: NAME} (alert_rules/README.md)"
_ANOTHER = "another-cluster"
LOAD_ROUTES = "load the routes of this version: sidecar export routes"
_CLUSTERS_NAME = re.compile(r"cluster|datacenter|region|(^|_)(dc|site)(_|$)")
"""Names of labels that tell clusters apart, of which there are many."""


def _by_another_label(name: str) -> str:
    return f"let rules, routes and dashboards ask for {name}: sidecar export all --cluster-label={name}"


def identity_labels(rules: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The labels by which the loaded rules tell clusters apart: those before `namespace` in their groupings; empty for older rules."""
    lists = (labels for rule in rules for labels in label_lists(rule["query"]) if "namespace" in labels)
    usual = Counter(labels[: labels.index("namespace")] for labels in lists).most_common(1)
    return usual[0][0] if usual else ()


def external_labels(read: Read) -> dict[str, str]:
    """The labels that this Prometheus adds to its alerts; empty where its config is not shown."""
    try:
        told = read.prometheus_config.get("global") or {}
        return {name: str(value) for name, value in (told.get("external_labels") or {}).items()}
    except UNKNOWN_FORM:
        return {}


def identity_of_alerts(read: Read, target: Labels) -> dict[str, str]:
    """The labels that name the cluster in alerts about this target: its own, else those that Prometheus adds."""
    try:
        names = identity_labels(ours(read.groups)) or (CLUSTER,)
    except UNKNOWN_FORM:
        names = (CLUSTER,)
    added = {**external_labels(read), **target}
    return {name: added[name] for name in names if added.get(name)}


# --- series ----------------------------------------------------------------------------------------------------------------


def merged_in_series(read: Read, identity: Sequence[str]) -> tuple[str, str] | None:
    """Two pods of one name, or two processes in one series: the fact, and what to do."""
    evidence = read.evidence.prometheus
    if found := _named_by_another_label(evidence["sidecars"].samples, identity):
        return found
    for one, other in _twins(read, identity):
        pod = f"pod {one['pod']} of namespace {one.get('namespace', '')}"
        where = f"{one.get('instance')} and at {other.get('instance')}"
        return f"{pod} is scraped at {where} at the same time: two clusters that nothing tells apart", _TELL_APART
    falling = evidence["falling_starts"].samples
    if falling:
        labels, times = falling[0]
        began = f"{labels.get('instance')} of job {labels.get('job')} began {times:.0f} times earlier than before, within an hour"
        return f"{began}: two processes, as of two clusters, write the same series", _TELL_APART
    return None


def _named_by_another_label(
    sidecars: Iterable[tuple[Labels, float]], identity: Sequence[str]
) -> tuple[str, str] | None:
    """One job of one namespace whose targets have several values of a label that names clusters and that no rule groups by."""
    values: dict[tuple[str, ...], set[str]] = {}
    for labels, _ in sidecars:
        whose = tuple(labels.get(label, "") for label in (*identity, "namespace", "job"))
        for name in (name for name in labels if name not in identity and _CLUSTERS_NAME.search(name)):
            values.setdefault((name, *whose), set()).add(labels[name])
    for (name, *_, namespace, job), found in values.items():
        if len(found) > 1:
            differ = f"targets of job {job} in namespace {namespace} differ by {name} ({', '.join(sorted(found)[:4])})"
            return f"{differ}, and the loaded rules add them up as one", _by_another_label(name)
    return None


def _twins(read: Read, identity: Sequence[str]) -> Iterator[tuple[Labels, Labels]]:
    """Two processes of one pod's name at two addresses, the older of which was scraped after the younger had begun."""
    evidence = read.evidence.prometheus
    scraped = {_key(labels): value for labels, value in evidence["scraped_at"].samples}
    by_pod: dict[tuple[str, ...], list[tuple[float, Labels]]] = {}
    for labels, started in evidence["sidecars"].samples:
        if labels.get("pod"):
            name = tuple(labels.get(label, "") for label in (*identity, "namespace", "pod"))
            by_pod.setdefault(name, []).append((started, labels))
    for found in by_pod.values():
        for at, (started, labels) in enumerate(found):
            for begun, other in found[:at]:
                older = min((started, labels), (begun, other), key=lambda one: one[0])[1]
                alive = scraped.get(_key(older), 0.0) > max(started, begun)
                if started != begun and alive and _are_elsewhere(labels, other):
                    yield other, labels


def _key(labels: Labels) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in labels.items() if name != "__name__"))


def _are_elsewhere(one: Labels, other: Labels) -> bool:
    """Two ports of one host are two containers of one pod; the same address twice is that of two networks."""
    hosts = [labels.get("instance", "").rpartition(":") for labels in (one, other)]
    return hosts[0][0] != hosts[1][0] or hosts[0][2] == hosts[1][2]


# --- alerts ----------------------------------------------------------------------------------------------------------------


def merged_in_alerts(
    read: Read, pages: Mapping[str, Labels], config: Mapping[str, Any], named: Labels
) -> Finding | None:
    """The finding for routes under which one cluster's alerts hide another's. `pages`: phase to the labels of its page, in full;
    `named`: the labels that name this cluster in them.
    """
    named = named or _named_otherwise(read)
    if found := mutes(
        config, {phase: {**labels, **named} for phase, labels in pages.items()}, dict.fromkeys(named, _ANOTHER)
    ):
        return broken(
            Link.ROUTES,
            f"a page of {found[0]} of another cluster mutes this one's page of {found[1]}: inhibit_rules do not ask"
            f" for {', '.join(named)} under equal",
            LOAD_ROUTES if CLUSTER in named else _by_another_label(next(iter(named))),
        )
    return _of_another_prometheus(read, named)


def mutes(config: Mapping[str, Any], pages: Mapping[str, Labels], other: Labels) -> tuple[str, str] | None:
    """The phase of a page that mutes another one, and the phase of that: the former differs from all of these in `other`."""
    others = {phase: {**labels, **other} for phase, labels in pages.items()} if other else {}
    for phase, labels in pages.items():
        for source, one in others.items():
            if any(muted_by(config, labels, [one])):
                return source, phase
    return None


def _named_otherwise(read: Read) -> dict[str, str]:
    """The external label in which alerts of ours from another Prometheus differ, with this one's value; replicas of one differ too."""
    reply, own = read.evidence.alertmanager["alerts"], external_labels(read)
    for labels in (
        alert["labels"]
        for alert in (reply.json if reply.good else ())
        if alert["labels"].get("alertname") in expected().alerts
    ):
        for name, value in own.items():
            if labels.get(name, value) != value and "replica" not in name:
                return {name: value}
    return {}


def _of_another_prometheus(read: Read, named: Labels) -> Finding | None:
    """Alerts of ours that another Prometheus sends, where this one's name no cluster."""
    reply = read.evidence.alertmanager["alerts"]
    if named or not reply.good:
        return None
    try:
        rules, sidecars = ours(read.groups), read.evidence.prometheus["sidecars"].samples
    except UNKNOWN_FORM:  # a link before this one says so
        return None
    identity = identity_labels(rules) or (CLUSTER,)
    fired = [alert["labels"] for rule in rules for alert in rule.get("alerts", ())]
    mine = {(labels.get("namespace", ""), labels.get("job", "")) for labels, _ in sidecars}
    for alert in reply.json:
        labels = alert["labels"]
        if labels.get("alertname") not in expected().alerts:
            continue
        if name := next((f"{one}={labels[one]}" for one in identity if labels.get(one)), ""):
            return broken(
                Link.ROUTES,
                f"Alertmanager has alerts of {name}, and those of this Prometheus name no cluster",
                _TELL_APART,
            )
        if labels["alertname"] == WATCHDOG or not _is_settled(alert, read.prometheus_now):
            continue
        if any(own.items() <= labels.items() for own in fired):
            continue
        what = f"{labels['alertname']} of namespace {labels.get('namespace', '')}, job {labels.get('job', '')}"
        if (labels.get("namespace", ""), labels.get("job", "")) not in mine:
            return broken(Link.ROUTES, f"another Prometheus sends {what}, and neither names its cluster", _TELL_APART)
        return unknown(
            Link.ROUTES,
            f"{what} is in Alertmanager, and this Prometheus does not fire it: the other half of an HA pair sends it, or another cluster"
            " whose names are the same",
            f"if it is another cluster, {_TELL_APART}",
        )
    return None


def _is_settled(alert: Mapping[str, Any], now: float) -> bool:
    """Whether it has fired for so long that both servers must know it, and is still sent."""
    began, updated = (datetime.fromisoformat(alert[name]).timestamp() for name in ("startsAt", "updatedAt"))
    return (
        alert["status"]["state"] != "unprocessed"
        and now - began > SETTLED_SECONDS
        and now - updated < 2 * SETTLED_SECONDS
    )
