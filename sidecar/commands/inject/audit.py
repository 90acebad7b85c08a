"""Whether what is attached is attached whole: every pod with an engine, and everything that leads to one.

Read from manifests, or from what `kubectl get deployments,statefulsets,services -o yaml` prints. Nothing is changed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sidecar.commands.inject.attaching import ASKED, Pods, Settings, asks_by_name, ports_of, workloads_of
from sidecar.commands.inject.engine_in_pod import engine_of
from sidecar.commands.inject.manifest_text import Document, Object
from sidecar.commands.inject.pod_with_sidecar import ADMIN, TRAFFIC
from sidecar.commands.inject.scrapers_way import LET_IN, closed_by
from sidecar.commands.inject.ways_to_pods import called, named_ports, namespace_of, routes_to
from sidecar.commands.inject.workload_kinds import containers_in, replicas_of


@dataclass(slots=True)
class Audit:
    """Workloads by their names. `faults`: what is half attached, a sentence each, with what to do behind it."""

    attached: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    """An engine is known in it, and it has no sidecar. That is no fault: one pod of many may be attached first."""
    faults: list[tuple[str, str]] = field(default_factory=list)
    pods_attached: int | None = 0
    pods: int | None = 0
    """Pods that the manifests ask for, of workloads with an engine. None: one of them states no number, as under an autoscaler."""


def audited(documents: Sequence[Document]) -> Audit:
    """Read all of them together: a Service may stand in another file than its pods."""
    objects = [one for document in documents for one in document.objects]
    found = Audit()
    for pods in workloads_of(objects, Settings()):
        has_engine = any(engine_of(container) for _, container in containers_in(pods.spec))
        name, many = called(pods.one), replicas_of(pods.one)
        if pods.has_sidecar:
            found.attached.append(name)
            found.pods_attached, found.pods = _sum(found.pods_attached, many), _sum(found.pods, many)
            found.faults += _led_past(pods, objects)
            if closed := closed_by(dict(pods.labels), namespace_of(pods.one), named_ports(pods.spec), objects):
                found.faults.append((f"{name}: port {ADMIN} is closed to what scrapes it, by {closed}", LET_IN))
        else:
            if has_engine:
                found.without.append(name)
                found.pods = _sum(found.pods, many)
            found.faults += _led_nowhere(pods, objects)
            if asks_by_name(pods.one):
                found.faults.append(
                    (f"{name} asks for a sidecar by {ASKED}, and has none", "apply what `sidecar inject` writes of it")
                )
    return found


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _led_past(pods: Pods, objects: Sequence[Object]) -> Iterator[tuple[str, str]]:
    if (ports := ports_of(pods)) is None:
        return
    engine, sidecar = ports
    for route in routes_to(dict(pods.labels), namespace_of(pods.one), pods.spec, engine, objects):
        yield (
            f"{called(route.one)} leads past the sidecar of {called(pods.one)}, to port {engine}",
            f"let it lead to port {sidecar}: `sidecar inject` of these manifests does, or says why not",
        )


def _led_nowhere(pods: Pods, objects: Sequence[Object]) -> Iterator[tuple[str, str]]:
    listens = {port.get("containerPort") for _, each in containers_in(pods.spec) for port in each.get("ports") or ()}
    if TRAFFIC in listens:
        return
    for route in routes_to(dict(pods.labels), namespace_of(pods.one), pods.spec, TRAFFIC, objects):
        yield (
            f"{called(route.one)} leads to port {TRAFFIC} of {called(pods.one)}, which has no sidecar",
            "attach these pods too, or let it lead to the engine's port again",
        )
