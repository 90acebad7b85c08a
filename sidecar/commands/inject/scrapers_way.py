"""The way of what scrapes to the admin port, through the NetworkPolicies that choose a pod: opened beside the way that is there, or named as closed.

A pod that some policy with ingress chooses gets what a rule of any of them lets in, and nothing else (networking.k8s.io/v1). A peer that
scrapes is known by the labels below, or by `--scraper`. It gets a rule of its own, so that no other peer of its rule reaches the admin port.
"""

import json
from collections.abc import Collection, Mapping, Sequence

from sidecar.commands.inject.manifest_text import Object
from sidecar.commands.inject.pod_with_sidecar import ADMIN
from sidecar.commands.inject.ways_to_pods import called, chooses, covers, in_place, is_policy, namespace_of


_SCRAPERS: Mapping[str, Mapping[str, str]] = {
    "podSelector": {
        "prometheus operator.prometheus.io/name": "*",
        "app.kubernetes.io/name app k8s-app name": "prometheus prometheus-server prometheus-agent kube-prometheus-stack-prometheus vmagent"
        " victoria-metrics-agent alloy grafana-agent opentelemetry-collector otel-collector datadog-agent",
    },
    "namespaceSelector": {
        "network.openshift.io/policy-group": "monitoring",
        "kubernetes.io/metadata.name name": "monitoring observability prometheus metrics kube-prometheus-stack victoria-metrics datadog"
        " openshift-monitoring openshift-user-workload-monitoring cattle-monitoring-system gmp-system",
    },
}
"""Labels of pods that scrape, and of namespaces in which monitoring alone runs: names, and the values of each that tell. A star is any value."""
LET_IN = "let your Prometheus in there; where a peer of a policy is it, --scraper=NAME=VALUE of `sidecar inject` names it by a label"


def rule_for_scrapers(
    one: Object, names: Mapping[str, int], scrapers: Sequence[str], mesh_ports: Sequence[int]
) -> Object | None:
    """The rule that a policy lacks: those of its peers that scrape, with the admin port alone. None if it lacks none.

    `names`: the ports of its pods by name. `scrapers`: further labels, NAME=VALUE. `mesh_ports`: a mesh's own ports, which carry all others.
    """
    rules, found = one["spec"].get("ingress") or (), []
    for peer in (each for rule in rules for each in rule.get("from") or ()):
        scraper = _scraper(peer, scrapers)
        reached = any(_admits(rule, names) and scraper in (rule.get("from") or [scraper]) for rule in rules)
        found += [scraper] if scraper and not reached and scraper not in found else []
    ports = [{"protocol": "TCP", "port": port} for port in (ADMIN, *mesh_ports)]
    # As plain values: ruamel would write what stands at two places as an anchor.
    return json.loads(json.dumps({"from": found, "ports": ports})) if found else None


def closed_by(labels: Mapping[str, object], place: str, names: Mapping[str, int], objects: Sequence[Object]) -> str:
    """The policies, by their names, that choose these pods, or what scrapes, while none of them lets the admin port pass; empty if it is open."""
    shut = []
    for way, chosen in (
        ("ingress", [one for one in objects if is_choosing(one, labels, place)]),
        ("egress", [*filter(_is_of_scrapers, objects)]),
    ):
        is_open = any(_admits(rule, names) for one in chosen for rule in one["spec"].get(way) or ())
        shut += [] if is_open else [called(one) for one in chosen]
    return ", ".join(shut)


def _is_of_scrapers(one: Object) -> bool:
    """Whether it is a NetworkPolicy that decides what a known scraper reaches."""
    spec = (one.get("spec") or {}) if is_policy(one) else {}
    peer = {"podSelector": spec.get("podSelector"), "namespaceSelector": {"matchLabels": {"name": namespace_of(one)}}}
    return "Egress" in (spec.get("policyTypes") or ["Egress"] * ("egress" in spec)) and _scraper(peer, ()) is not None


def is_choosing(one: Object, labels: Mapping[str, object], place: str) -> bool:
    """Whether it is a NetworkPolicy that decides what reaches pods with these labels in this namespace."""
    spec = (one.get("spec") or {}) if is_policy(one) and in_place(one, place) else {}
    return (
        bool(spec)
        and "Ingress" in (spec.get("policyTypes") or ["Ingress"])
        and chooses(spec.get("podSelector"), labels)
    )


def _admits(rule: Object, names: Mapping[str, int]) -> bool:
    return not rule.get("ports") or any(covers(each, ADMIN, names) for each in rule["ports"])


def _scraper(peer: Object, further: Sequence[str]) -> Object | None:
    """The peer, or the part of it that scrapes; None if nothing says that it does."""
    for key, listed in _SCRAPERS.items():
        # A namespace of monitoring tells nothing by itself where pods are chosen in it: Grafana runs there too.
        tells = {} if key == "namespaceSelector" and peer.get("podSelector") else listed
        known = {
            f"{name}={value}" for names, values in tells.items() for name in names.split() for value in values.split()
        }
        if peer.get(key) and (chosen := _known(peer[key], {*known, *further})):
            return {**peer, key: chosen}
    return None


def _known(selector: Object, known: Collection[str]) -> Object | None:
    if any({f"{name}={value}", f"{name}=*"} & {*known} for name, value in (selector.get("matchLabels") or {}).items()):
        return selector
    listed = list(selector.get("matchExpressions") or ())
    for at, each in enumerate(listed):
        some = [
            one for one in each.get("values") or () if {f"{each.get('key')}={one}", f"{each.get('key')}=*"} & {*known}
        ]
        if each.get("operator") == "In" and some:
            return {**selector, "matchExpressions": [*listed[:at], {**each, "values": some}, *listed[at + 1 :]]}
    return None
