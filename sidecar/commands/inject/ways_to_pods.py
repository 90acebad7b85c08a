"""Services and pools that lead traffic to a pod, and policies that name its ports: found among the given objects, and turned to the sidecar's port.

A Service leads to the engine if its selector matches the pod's labels and one of its ports goes to the engine's port, by number or by
the name of a container's port, which each pod answers for itself (FindPort of Kubernetes' pkg/api/v1/pod/util.go: the first of its containers
that has the name; native sidecars from 1.32 on, PR 128850). A headless Service maps no port: its clients go to the pod's address at the port that they know. An
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
            if port.get("name") and is_tcp(port):
                found.setdefault(str(port["name"]), int(port["containerPort"]))
    return found


def ports_asked(one: Object) -> list[int]:
    """The numbers by which a Service or an InferencePool asks for ports of pods. What it asks by name is a container's."""
    spec = one["spec"]
    if is_pool(one):
        asked = [spec.get("targetPortNumber"), *(each.get("number") for each in spec.get("targetPorts") or ())]
    else:
        asked = [_target(each) for each in spec.get("ports") or () if is_tcp(each)]
    return [each for each in asked if isinstance(each, int)]


def asked_at(one: Object, path: Path) -> object:
    """The number or the name that stands at the path of a port; a Service that states no `targetPort` asks for its own number."""
    spec = one["spec"]
    if is_pool(one):
        return spec["targetPorts"][path[2]]["number"] if len(path) > 2 else spec["targetPortNumber"]
    return _target(spec["ports"][path[2]])


def is_tcp(entry: Object) -> bool:
    """Whether a port of a container, a Service or a policy is TCP's, as it is unless it says another protocol; null says none."""
    return (entry.get("protocol") or "TCP") == "TCP"


def _target(entry: Object) -> object:
    """The port of pods that an entry of a Service asks for; absent, null, 0 and "" are its own number."""
    return entry.get("targetPort") or entry.get("port")


@dataclass(frozen=True, slots=True)
class Route:
    """One object that leads to a pod, with the paths of the ports that lead to its engine."""

    one: Object
    ports: tuple[Path, ...]
    headless: bool = False

    @property
    def by_name(self) -> tuple[Path, ...]:
        """The paths that hold a name. Such a port leads to whatever each pod calls so, and nothing has to be turned."""
        return tuple(path for path in self.ports if not isinstance(asked_at(self.one, path), int))

    @property
    def by_number(self) -> tuple[Path, ...]:
        """The paths that hold a number."""
        return tuple(path for path in self.ports if isinstance(asked_at(self.one, path), int))


def is_service(one: Object) -> bool:
    """A Service of Kubernetes, and not one of Knative."""
    return (group_of(one), one.get("kind")) == ("", "Service")


def is_pool(one: Object) -> bool:
    """An InferencePool, of any version."""
    return one.get("kind") == "InferencePool" and group_of(one) in _POOLS


def is_policy(one: Object) -> bool:
    """A NetworkPolicy of Kubernetes."""
    return (group_of(one), one.get("kind")) == ("networking.k8s.io", "NetworkPolicy")


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
        target = _target(each)
        own = (
            each.get("port") if one["spec"].get("clusterIP") == "None" else None
        )  # it maps none, and is what clients know
        if is_tcp(each) and port in (target, names.get(str(target)), own):
            yield ("spec", "ports", at, "targetPort")


def _pool_ports(one: Object, port: int) -> Iterator[Path]:
    spec = one["spec"]
    if spec.get("targetPortNumber") == port:
        yield ("spec", "targetPortNumber")
    for at, each in enumerate(spec.get("targetPorts") or ()):
        if each.get("number") == port:
            yield ("spec", "targetPorts", at, "number")


def rest_on(route: Route, edited: Edited) -> None:
    """Note where it leads: what is done to its pods is right as long as that stays."""
    edited.rests_on(("spec", "selector"), *(path[:-1] for path in route.ports if is_service(route.one)))


def turn(route: Route, paths: Sequence[Path], edited: Edited, port: int = TRAFFIC) -> str:
    """Lead it to the sidecar, which has this port. Returns what was done, for the user."""
    rest_on(route, edited)
    for path in paths:
        edited.set(path, port)
    return f"{called(route.one)} leads to port {port}"


def addresses_of(labels: Mapping[str, object], namespace: str, objects: Sequence[Object]) -> Iterator[Route]:
    """Headless Services without ports: their clients get the addresses of these pods, and ask at the port that they know."""
    for one in objects:
        here = in_place(one, namespace) and is_service(one) and selects(selector_of(one), labels)
        if here and one["spec"].get("clusterIP") == "None" and not one["spec"].get("ports"):
            yield Route(one, (), headless=True)


_ROUTERS_PORT = re.compile(r"--k8s-port[= ](\d+)")


def asked_by_address(near: Object, ports: Sequence[int], objects: Sequence[Object]) -> dict[int, str]:
    """The object that finds the pods of `near` by their labels and asks a port of its own, for each of these ports; "" if there is none.

    The router of the vLLM production stack does, at 8000 unless it is told another (src/vllm_router/parsers/parser.py at a6c01db0).
    """
    found = dict.fromkeys(ports, "")
    for one in objects:
        words = json.dumps(one.get("spec"), default=str).replace('", "', " ")
        if same_place(one, near) and re.search(r"--service-discovery[= ]k8s", words):
            told = _ROUTERS_PORT.search(words)
            found[int(told[1]) if told else 8000] = f"{called(one)} asks pods at their addresses"
    return found


def other_ports(route: Route, port: int) -> list[int]:
    """The further ports of an InferencePool, each an engine to its picker; empty if there is none."""
    if not is_pool(route.one):
        return []
    return [number for each in route.one["spec"].get("targetPorts") or () if (number := each.get("number")) != port]


def covers(entry: Object, port: int, names: Mapping[str, int]) -> bool:
    """Whether an entry of a policy's ports is about this one: by its number, its name, or a range."""
    if not is_tcp(entry):
        return False
    first = entry.get("port")
    if isinstance(first, int) and isinstance(entry.get("endPort"), int):
        return bool(first <= port <= entry["endPort"])
    return first is None or port in (first, names.get(str(first)))


@dataclass(frozen=True, slots=True)
class Moved:
    """A port of a pod: its number before, the names of then, and the ports that have to be reached now: the sidecar, and the engine by `bypass`."""

    was: int
    names: Mapping[str, int]
    now: tuple[int, ...]
    names_now: Mapping[str, int]

    def lacks(self, rule: Object) -> list[int]:
        """The ports that a rule of a policy let pass, as it was one port, and does not now."""
        ports = [each for each in rule.get("ports") or () if isinstance(each, dict)]
        if not any(covers(each, self.was, self.names) for each in ports):
            return []
        return [port for port in self.now if not any(covers(each, port, self.names_now) for each in ports)]


def let_pass(
    one: Object, moved: Moved, labels: Mapping[str, object], *, near: bool
) -> Iterator[tuple[Path, list[int], str]]:
    """The rules of a NetworkPolicy in which clients of these pods need more ports: the place of its ports, those that lack, and what to say.

    An empty place: the rule is about other pods as well, or whose pods it is about cannot be told, so it stays. `near`: it may be in their namespace.
    """
    spec, name = one.get("spec") or {}, called(one)
    for at, rule in enumerate(spec.get("ingress") or () if near and chooses(spec.get("podSelector"), labels) else ()):
        if lacks := moved.lacks(rule):
            yield ("spec", "ingress", at, "ports"), lacks, f"{name} lets in port {_listed(lacks)} too"
    for at, rule in enumerate(spec.get("egress") or ()):
        hits = [_leads_here(each, labels, near=near) for each in rule.get("to") or [{}] if isinstance(each, dict)]
        lacks = moved.lacks(rule) if any(each is not False for each in hits) else []
        if lacks and all(hits):
            yield ("spec", "egress", at, "ports"), lacks, f"{name} lets out to port {_listed(lacks)} too"
        elif lacks:
            clients = f"if those are clients, let them out to {_listed(lacks)} too"
            yield (), lacks, f"{name} lets its pods out to port {moved.was}, and stays: {clients}"


def _listed(ports: Sequence[int]) -> str:
    return " and ".join(map(str, ports))


def _leads_here(peer: Object, labels: Mapping[str, object], *, near: bool) -> bool | None:
    """Whether a policy's peer is these pods; None if its labels do not tell."""
    chosen, elsewhere = peer.get("podSelector") or {}, "namespaceSelector" in peer
    if "podSelector" in peer and not near and not elsewhere:
        return False
    if not chooses(chosen, labels):
        return False
    alone = chosen.get("matchLabels") and not chosen.get("matchExpressions")
    return True if alone and not elsewhere else None


def chooses(selector: object, labels: Mapping[str, object]) -> bool:
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
