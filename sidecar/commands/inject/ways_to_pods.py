"""Services and pools that lead traffic to a pod, and policies that name its ports: found among the given objects, turned to the sidecar's port and back.

A Service leads to the engine if its selector matches the pod's labels and one of its ports goes to the engine's port, by number or by
the name of a container's port. A headless Service maps no port: its clients go to the pod's address at the port that they know. An
InferencePool (inference.networking.k8s.io; api/v1/inferencepool_types.go at ca3d9dd4) names numbers alone. What stands in another namespace leads to other pods.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sidecar.commands.inject.edited_object import Edited
from sidecar.commands.inject.manifest_text import Object
from sidecar.commands.inject.pod_with_sidecar import TRAFFIC
from sidecar.commands.inject.workload_kinds import Path, containers_in, group_of


_POOLS = ("inference.networking.k8s.io", "inference.networking.x-k8s.io")


def namespace_of(one: Object) -> str:
    """The namespace that an object states; empty if it states none."""
    return str((one.get("metadata") or {}).get("namespace") or "")


def in_place(one: Object, place: str) -> bool:
    """Whether it may stand in this namespace. What states none stands where it is applied, and so does the rest of these manifests."""
    return not place or namespace_of(one) in ("", place)


def same_place(one: Object, other: Object) -> bool:
    """Whether the two may stand in one namespace."""
    return in_place(one, namespace_of(other))


def called(one: Object) -> str:
    """`Service vllm`, and its namespace if it states one."""
    name, place = (one.get("metadata") or {}).get("name", "?"), namespace_of(one)
    return f"{one.get('kind')} {name}" + (f" in {place}" if place else "")


def selects(selector: object, labels: Mapping[str, object]) -> bool:
    """Whether a selector of equal labels matches; an empty one, or none, matches nothing here: its endpoints are made by others."""
    return (
        isinstance(selector, dict)
        and bool(selector)
        and all(labels.get(key) == value for key, value in selector.items())
    )


def runs_in(spec: Object) -> list[Object]:
    """The containers that run as long as the pod does: init containers with a restart policy of their own are among them."""
    first = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    return [*(each for _, each in containers_in(spec)), *first]


def named_ports(spec: Object) -> dict[str, int]:
    """Name to number of the ports of a pod's containers. Kubernetes takes the first container that has the name."""
    found: dict[str, int] = {}
    for each in runs_in(spec):
        for port in each.get("ports") or ():
            if "name" in port and port.get("protocol", "TCP") == "TCP":
                found.setdefault(str(port["name"]), int(port["containerPort"]))
    return found


def ports_asked(one: Object) -> list[int]:
    """The numbers by which a Service or an InferencePool asks for ports of pods. What it asks by name is a container's."""
    spec = one["spec"]
    if is_pool(one):
        asked = [spec.get("targetPortNumber"), *(each.get("number") for each in spec.get("targetPorts") or ())]
    else:
        there = [each for each in spec.get("ports") or () if each.get("protocol", "TCP") == "TCP"]
        asked = [each.get("targetPort", each.get("port")) for each in there]
    return [each for each in asked if isinstance(each, int)]


@dataclass(frozen=True, slots=True)
class Route:
    """One object that leads to a pod, with the paths of the ports that lead to its engine."""

    one: Object
    ports: tuple[Path, ...]
    headless: bool = False


def is_service(one: Object) -> bool:
    """A Service of Kubernetes, and not one of Knative."""
    return (group_of(one), one.get("kind")) == ("", "Service")


def is_pool(one: Object) -> bool:
    """An InferencePool, of any version."""
    return one.get("kind") == "InferencePool" and group_of(one) in _POOLS


def selector_of(one: Object) -> object:
    """The labels by which a Service or an InferencePool chooses pods."""
    selector = (one.get("spec") or {}).get("selector")
    return selector.get("matchLabels", selector) if isinstance(selector, dict) and is_pool(one) else selector


def routes_to(
    labels: Mapping[str, object], namespace: str, spec: Object, port: int, objects: Sequence[Object]
) -> Iterator[Route]:
    """The Services and pools of this namespace that lead to this port of pods with these labels."""
    for one in objects:
        if (
            not in_place(one, namespace)
            or not (is_service(one) or is_pool(one))
            or not selects(selector_of(one), labels)
        ):
            continue
        ports = tuple(_pool_ports(one, port) if is_pool(one) else _service_ports(one, port, named_ports(spec)))
        if ports:
            yield Route(one, ports, is_service(one) and one["spec"].get("clusterIP") == "None")


def _service_ports(one: Object, port: int, names: Mapping[str, int]) -> Iterator[Path]:
    for at, each in enumerate(one["spec"].get("ports") or ()):
        target = each.get("targetPort", each.get("port"))
        if each.get("protocol", "TCP") == "TCP" and port in (target, names.get(str(target))):
            yield ("spec", "ports", at, "targetPort")


def _pool_ports(one: Object, port: int) -> Iterator[Path]:
    spec = one["spec"]
    if spec.get("targetPortNumber") == port:
        yield ("spec", "targetPortNumber")
    for at, each in enumerate(spec.get("targetPorts") or ()):
        if each.get("number") == port:
            yield ("spec", "targetPorts", at, "number")


def turn(route: Route, edited: Edited, port: int = TRAFFIC) -> str:
    """Lead it to the sidecar, which has this port. Returns what was done, for the user."""
    edited.rests_on(("spec", "selector"), *(path[:-1] for path in route.ports if is_service(route.one)))
    for path in route.ports:
        edited.set(path, port)
    return f"{called(route.one)} leads to port {port}"


def addresses_of(labels: Mapping[str, object], namespace: str, objects: Sequence[Object]) -> Iterator[Route]:
    """Headless Services without ports: their clients get the addresses of these pods, and ask at the port that they know."""
    for one in objects:
        here = in_place(one, namespace) and is_service(one) and selects(selector_of(one), labels)
        if here and one["spec"].get("clusterIP") == "None" and not one["spec"].get("ports"):
            yield Route(one, (), headless=True)


def other_ports(route: Route, port: int) -> list[int]:
    """The further ports of an InferencePool, each an engine to its picker; empty if there is none."""
    if not is_pool(route.one):
        return []
    return [number for each in route.one["spec"].get("targetPorts") or () if (number := each.get("number")) != port]


def _covers(entry: Object, port: int, names: Mapping[str, int]) -> bool:
    """Whether an entry of a policy's ports is about this one: by its number, its name, or a range."""
    if entry.get("protocol", "TCP") != "TCP":
        return False
    first = entry.get("port")
    if isinstance(first, int) and isinstance(entry.get("endPort"), int):
        return bool(first <= port <= entry["endPort"])
    return first is None or port in (first, names.get(str(first)))


def _needs(rule: Object, port: int, names: Mapping[str, int]) -> bool:
    """Whether a rule lets the engine's port pass, and not the sidecar's."""
    ports = [each for each in rule.get("ports") or () if isinstance(each, dict)]
    return any(_covers(each, port, names) for each in ports) and not any(_covers(each, TRAFFIC, {}) for each in ports)


def let_in(edited: Edited, labels: Mapping[str, object], port: int, names: Mapping[str, int]) -> list[str]:
    """Add the sidecar's port where a NetworkPolicy lets clients reach the engine's. Returns what was done; empty if nothing had to be."""
    one = edited.one
    spec = one.get("spec") or {}
    if not _chooses(spec.get("podSelector"), labels):
        return []
    done: list[str] = []
    for at, rule in enumerate(spec.get("ingress") or ()):
        if _needs(rule, port, names):
            edited.append(("spec", "ingress", at, "ports"), {"protocol": "TCP", "port": TRAFFIC})
            done = [f"{called(one)} lets in port {TRAFFIC} too"]
    return done


def let_out(
    edited: Edited, labels: Mapping[str, object], port: int, names: Mapping[str, int], *, near: bool
) -> list[str]:
    """The same on the clients' side, where a policy lets them out to the engine's port of these pods. `near`: it may be in their namespace.

    A rule that is about other pods as well, or whose pods cannot be told, stays, and is told.
    """
    one = edited.one
    done: dict[str, None] = {}
    for at, rule in enumerate((one.get("spec") or {}).get("egress") or ()):
        hits = [_leads_here(each, labels, near=near) for each in rule.get("to") or [{}] if isinstance(each, dict)]
        if not _needs(rule, port, names) or not any(each is not False for each in hits):
            continue
        if all(hits):
            edited.append(("spec", "egress", at, "ports"), {"protocol": "TCP", "port": TRAFFIC})
            done[f"{called(one)} lets out to port {TRAFFIC} too"] = None
        else:
            done[
                f"{called(one)} lets its pods out to port {port}, and stays: if those are clients, let them out to {TRAFFIC} too"
            ] = None
    return list(done)


def _leads_here(peer: Object, labels: Mapping[str, object], *, near: bool) -> bool | None:
    """Whether a policy's peer is these pods; None if its labels do not tell."""
    chosen, elsewhere = peer.get("podSelector") or {}, "namespaceSelector" in peer
    if "podSelector" in peer and not near and not elsewhere:
        return False
    if not _chooses(chosen, labels):
        return False
    alone = chosen.get("matchLabels") and not chosen.get("matchExpressions")
    return True if alone and not elsewhere else None


def name_number(edited: Edited, labels: Mapping[str, object], port: int, names: Mapping[str, int]) -> list[str]:
    """Put the number in place of the name by which a NetworkPolicy lets clients reach the engine's port: the sidecar has it now.

    On the side of the clients too, where the rule is about these pods alone; another rule is told.
    """
    one = edited.one
    spec = one.get("spec") or {}
    done: dict[str, None] = {}
    chosen = _chooses(spec.get("podSelector"), labels)
    for way in ("ingress", "egress"):
        for at, rule in enumerate((spec.get(way) or ()) if way == "egress" or chosen else ()):
            hits = [
                _leads_here(each, labels, near=True) for each in (rule.get("to") or [{}] if way == "egress" else ())
            ]
            for entry, each in enumerate(rule.get("ports") or ()):
                if names.get(str(each.get("port"))) != port or (hits and all(hit is False for hit in hits)):
                    continue
                if all(hits):
                    edited.set(("spec", way, at, "ports", entry, "port"), port)
                    done[
                        f"{called(one)} lets {'in' if way == 'ingress' else 'out to'} port {port}, which it called by name"
                    ] = None
                else:
                    done[
                        f"{called(one)} lets its pods out to port {each['port']} by name, and stays: if those are clients, let them out to {port} too"
                    ] = None
    return list(done)


_OTHER_POLICIES = (
    "CiliumNetworkPolicy",
    "CiliumClusterwideNetworkPolicy",
    "AuthorizationPolicy",
    "GlobalNetworkPolicy",
)


def other_policy(one: Object, port: int) -> list[str]:
    """A policy of another project that names the engine's port: it is told, and stays."""
    is_other = one.get("kind") in _OTHER_POLICIES or (one.get("kind"), group_of(one)) == (
        "NetworkPolicy",
        "crd.projectcalico.org",
    )
    if not is_other or not re.search(rf"(?<!\d){port}(?!\d)", json.dumps(one.get("spec"), default=str)):
        return []
    return [f"{called(one)} names port {port}, and stays: if it is about these pods, let it let {TRAFFIC} pass too"]


def _chooses(selector: object, labels: Mapping[str, object]) -> bool:
    """Whether a policy's selector of pods matches these labels; an empty one matches every pod."""
    if not isinstance(selector, dict):
        return True
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_holds(each, labels) for each in selector.get("matchExpressions") or ())


def _holds(expression: Object, labels: Mapping[str, object]) -> bool:
    key, values = expression.get("key"), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return labels.get(str(key)) in values
        case "NotIn":
            return labels.get(str(key)) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:  # Kubernetes refuses it
            return False
