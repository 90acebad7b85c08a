"""The way out in an incident: commands that lead traffic past the sidecar, and restart nothing.

Where a Service or an InferencePool leads is no part of a pod template. A connection that stands keeps its pod and its port, so streams
through the sidecar end whole; a new one goes to the engine.
"""

import json
from collections.abc import Sequence
from shlex import quote

from sidecar.commands.inject.attaching import attached_pods, ports_of
from sidecar.commands.inject.engine_in_pod import listens_on_loopback
from sidecar.commands.inject.manifest_text import Document, Object
from sidecar.commands.inject.ways_to_pods import called, is_pool, namespace_of, routes_to
from sidecar.commands.inject.workload_kinds import Path, containers_in, group_of


def commands(documents: Sequence[Document], *, back: bool) -> tuple[list[str], list[str]]:
    """The commands, and what they cannot do, a line each. `back`: through the sidecar again."""
    told: list[str] = []
    cannot: list[str] = []
    objects = [one for document in documents for one in document.objects]
    for pods in attached_pods(documents):
        engine_port, sidecar_port = ports_of(pods)
        if any(listens_on_loopback(each) for _, each in containers_in(pods.spec)):
            cannot.append(
                f"{called(pods.one)}: its engine listens on 127.0.0.1 alone, and the sidecar is the only way to it"
            )
            continue
        routes = list(routes_to(dict(pods.labels), namespace_of(pods.one), pods.spec, sidecar_port, objects))
        for route in routes:
            if route.headless:
                cannot.append(
                    f"{called(route.one)}: it is headless and maps no port; its clients must ask for port {engine_port}"
                )
                continue
            told.append(_patch(route.one, route.ports, sidecar_port if back else engine_port))
        if not routes:
            cannot.append(
                f"{called(pods.one)}: what leads traffic to it is not in these manifests; let it lead to port {sidecar_port if back else engine_port}"
            )
    return list(dict.fromkeys(told)), cannot


def _patch(one: Object, ports: Sequence[Path], port: int) -> str:
    # `add` replaces a member that is there, and adds one that is not: a Service may state its port alone.
    steps = [{"op": "add", "path": "".join(f"/{step}" for step in path), "value": port} for path in ports]
    place = namespace_of(one)
    name = f"{one['kind'].lower()}.{group_of(one)}" if is_pool(one) else "service"
    words = [
        "kubectl",
        "patch",
        name,
        str(one["metadata"]["name"]),
        *(["-n", place] if place else []),
        "--type=json",
        "-p",
        json.dumps(steps),
    ]
    return " ".join(quote(word) for word in words)
