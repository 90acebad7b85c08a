"""The way out in an incident: commands that lead traffic past the sidecar, and restart nothing.

Where a Service or an InferencePool leads is no part of a pod template. A connection that stands keeps its pod and its port, so streams
through the sidecar end whole; a new one goes to the engine.
"""

import json
from collections.abc import Sequence
from shlex import quote

from sidecar.commands.inject.attaching import (
    Pods,
    Settings,
    attached_pods,
    engines_of,
    ports_of,
    strangers,
    workloads_of,
)
from sidecar.commands.inject.edited_object import pointer, was_at
from sidecar.commands.inject.engine_in_pod import listens_on_loopback
from sidecar.commands.inject.manifest_text import Document, Object
from sidecar.commands.inject.ways_to_pods import (
    Route,
    asked_at,
    called,
    is_pool,
    named_ports,
    namespace_of,
    routes_to,
    same_place,
    selector_of,
    selects,
)
from sidecar.commands.inject.workload_kinds import group_of


def commands(documents: Sequence[Document], *, back: bool) -> tuple[list[str], list[str]]:
    """The commands, and what they cannot do, a line each. `back`: through the sidecar again."""
    told: list[str] = []
    cannot: list[str] = []
    objects = [one for document in documents for one in document.objects]
    attached = list(attached_pods(objects))
    for pods in attached:
        if (ports := ports_of(pods)) is None:
            cannot.append(f"{called(pods.one)}: the engine that its sidecar stands before is not in its flags")
            continue
        engine_port, sidecar_port = ports
        if any(listens_on_loopback(each) for each in engines_of(pods)):
            cannot.append(
                f"{called(pods.one)}: its engine listens on 127.0.0.1 alone, and the sidecar is the only way to it"
            )
            continue
        here = namespace_of(pods.one)
        routes = list(routes_to(dict(pods.labels), here, pods.spec, sidecar_port, objects))
        for route in routes:
            if why := _stays(route, engine_port, attached, objects):
                cannot.append(f"{called(route.one)}: {why}")
            else:
                told.append(_patch(route, engine_port, back=back))
        if not routes:
            cannot.append(
                f"{called(pods.one)}: no way to its sidecar is in these manifests; let it lead to port {sidecar_port if back else engine_port}"
            )
    return list(dict.fromkeys(told)), list(dict.fromkeys(cannot))


def _stays(route: Route, engine_port: int, attached: Sequence[Pods], objects: Sequence[Object]) -> str:
    """Why this route has no way past the sidecar; empty if it has one."""
    if route.headless:
        return f"it is headless and maps no port; its clients must ask for port {engine_port}"
    if all(was_at(route.one, path) is not None for path in route.ports):
        return ""
    engines = {ports for pods in attached if _leads_to(route, pods) for ports in (ports_of(pods) or ())[:1]}
    asked = [asked_at(route.one, path) for path in route.ports]
    known = workloads_of(objects, Settings())
    others = [
        pods
        for pods in (*known, *strangers(objects, Settings()))
        if not pods.has_sidecar
        and _leads_to(route, pods)
        and any(named_ports(pods.spec).get(str(each), each) != engine_port for each in asked)
    ]
    if others:
        return f"it leads to {called(others[0].one)} too, which has no sidecar and whose engine listens elsewhere"
    if len(engines) > 1:
        return (
            f"it leads to engines on ports {' and '.join(map(str, sorted(engines)))}, and has one port for all of them"
        )
    return ""


def _leads_to(route: Route, pods: Pods) -> bool:
    return same_place(route.one, pods.one) and selects(selector_of(route.one), pods.labels)


def _patch(route: Route, engine_port: int, *, back: bool) -> str:
    one = route.one
    # `add` replaces a member that is there, and adds one that is not: a Service may state its port alone. What stood there before it was turned
    # is right for all pods behind it, whatever their engines' ports; the way back is what stands there now.
    steps = [
        {
            "op": "add",
            "path": pointer(path),
            "value": asked_at(one, path) if back else was_at(one, path) or engine_port,
        }
        for path in route.ports
    ]
    place = namespace_of(one)
    name = f"{one['kind'].lower()}.{group_of(one)}" if is_pool(one) else "service"
    where = ["-n", place] if place else []
    words = ["kubectl", "patch", name, str(one["metadata"]["name"]), *where, "--type=json", "-p", json.dumps(steps)]
    return " ".join(quote(word) for word in words)
