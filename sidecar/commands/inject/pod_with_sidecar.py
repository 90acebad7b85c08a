"""The sidecar in one pod: its container, its volumes, and what changes around it.

The container is that of `deploy/base/pod.yaml`, which docs/attach.md explains. It needs no ConfigMap: what differs
from the defaults are variables of the environment, unless `--config-map` names one. What a pod has already is added to:
init containers stay and come first, a preStop hook runs before ours, a grace period becomes longer by what the drain takes.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sidecar.commands.export.shipped_files import DEPLOY, shipped
from sidecar.commands.inject.edited_object import Edited
from sidecar.commands.inject.engine_in_pod import ENGINE_PORT, HOOKS, Found, UnclearError, moved
from sidecar.commands.inject.fitted_container import fit
from sidecar.commands.inject.manifest_text import Object
from sidecar.commands.inject.workload_kinds import Led, Path, PodPlace, containers_in
from sidecar.config.quick_yaml import read_yaml
from sidecar.config.schema import ProxyConfig, WebConfig


TRAFFIC, ADMIN = ProxyConfig().address.port, WebConfig().address.port
IMAGE = ""
"""The sidecar's image by a name that every cluster can pull, with its tag. A release sets it; while it is empty, `--image` is required."""
NAME = "sidecar"
ATTACHED = "llm-phase-sidecar"
"""Label of a pod with a sidecar, and its value below: PodMonitor, admin Service and NetworkPolicy select by it."""
IS_ATTACHED = "attached"
_FURTHER, _KERNELS_OWN = 10_000, 32_768
_EVICTABLE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_EVICTABLE_VOLUMES = f"{_EVICTABLE}-local-volumes"
_STATE = "sidecar-state"
"""Its volume on the disk of the node."""
_USUAL_GRACE_SECONDS = 30
"""Kubernetes' default."""


@dataclass(frozen=True, slots=True)
class PodSettings:
    """The user's choices for all pods. `hook`: a name of `HOOKS`, empty for the engine's own."""

    image: str = IMAGE
    config_map: str = ""
    hook: str = ""
    plain: bool = False
    """A container beside the engine, for Kubernetes before 1.29."""
    cpu: str = ""
    """REQUEST or REQUEST:LIMIT; empty for what is shipped."""
    memory: str = ""


def attach(
    edited: Edited, place: PodPlace, found: Found, settings: PodSettings, *, takes_port: bool, led: Led
) -> list[str]:
    """Put the sidecar into the pod at this place. Returns notes: what the user should know of it. Raises UnclearError.

    `takes_port`: the sidecar listens on the engine's port, and the engine on another one that is free.
    """
    spec = place.spec_in(edited.one)
    _refuse_taken(spec, found, takes_port=takes_port)
    at: Path = (*place.spec, *found.path)
    host_port = _host_port(found)
    engine_port = _moves_engine(edited, spec, at, found, led) if takes_port else found.port
    container = _container(settings, found, engine_port, found.port if takes_port else TRAFFIC, led)
    if host_port and takes_port and not spec.get("hostNetwork"):
        entry, number = host_port
        edited.remove((*at, "ports", entry, "hostPort"))
        container["ports"] = [
            {**port, "hostPort": number} if port["name"] == "traffic" else port for port in container["ports"]
        ]
    changes = fit(container, spec, settings.cpu, settings.memory)
    if led is not Led.BY_REVISION:
        changes += _stays_evictable(edited, (*place.metadata, "annotations"))
    native = led is not Led.BY_REVISION and not settings.plain
    if native:
        container["restartPolicy"] = "Always"
    for volume in _volumes(settings, led):
        edited.append((*place.spec, "volumes"), volume)
    edited.append((*place.spec, "initContainers" if native else "containers"), container)
    edited.set((*place.metadata, "labels", ATTACHED), IS_ATTACHED)
    if spec.get("enableServiceLinks") is None:
        edited.set((*place.spec, "enableServiceLinks"), False)
    # Knative allows neither a hook nor a grace period.
    stops = [] if led is Led.BY_REVISION else _stops_in_order(edited, place, at, found, settings)
    return [*_notes(spec, found, host_port, engine_port, takes_port=takes_port), *changes, *stops]


def _stays_evictable(edited: Edited, annotations: Path) -> list[str]:
    """Name our volume as one that may be lost. Else its node could not be removed (HasBlockingLocalStorage of cluster-autoscaler's utils/drain)."""
    there = edited.get(annotations) or {}
    if _EVICTABLE in there:
        return []
    edited.set((*annotations, _EVICTABLE_VOLUMES), ",".join(filter(None, [there.get(_EVICTABLE_VOLUMES), _STATE])))
    return [f"{_EVICTABLE_VOLUMES} names its volume {_STATE}, which would keep a node up that is not needed"]


def _notes(
    spec: Object, found: Found, host_port: tuple[int, int] | None, engine_port: int, *, takes_port: bool
) -> list[str]:
    notes = []
    if takes_port:
        notes.append(f"the sidecar takes port {found.port}, and the engine listens on {engine_port}")
    elif host_port:
        notes.append(f"port {host_port[1]} of the node leads to the engine, past the sidecar")
    if spec.get("hostNetwork"):
        ours = f"port {ADMIN}" if takes_port else f"ports {TRAFFIC} and {ADMIN}"
        notes.append(f"it is on its node's network: {ours} of the node must be free")
    if found.host_is_loopback:
        notes.append("the engine listens on 127.0.0.1 alone: `sidecar bypass` cannot lead traffic past the sidecar")
    return notes


def _moves_engine(edited: Edited, spec: Object, at: Path, found: Found, led: Led) -> int:
    """Let the engine listen on another port that is free. Returns it. Raises UnclearError."""
    port = _next_free(spec, found.port)
    changes = moved(found, port)
    if led is Led.BY_REVISION:
        if found.container.get("ports") is not None:
            edited.remove((*at, "ports"))
    elif led is not Led.BY_OPERATOR:  # an operator reads there at which port it asks
        changes += _ports_moved(spec, found, port)
    for path, value in changes:
        edited.set((*at, *path), value)
    return port


def _refuse_taken(spec: Object, found: Found, *, takes_port: bool) -> None:
    others = [each for _, each in containers_in(spec)] + [
        each for each in spec.get("initContainers") or () if isinstance(each, dict)
    ]
    if any(each.get("name") == NAME for each in others):
        raise UnclearError(f"it has a container named {NAME} already, which is not ours: rename that one")
    volumes = {each.get("name") for each in spec.get("volumes") or ()} & {
        "sidecar-config",
        "sidecar-state",
        "sidecar-no-token",
    }
    if volumes:
        raise UnclearError(
            f"it has a volume named {', '.join(sorted(map(str, volumes)))} already, which is not ours: rename that one"
        )
    ports = {port.get("containerPort"): str(each.get("name")) for each in others for port in each.get("ports") or ()}
    other = next((each for each in others if each is not found.container and found.port in _listed(each)), None)
    if takes_port and other is not None:
        raise UnclearError(
            f"its container {other.get('name')} has port {found.port} too, which the sidecar must take: say the engine's by {ENGINE_PORT}"
        )
    for port in (ADMIN,) if takes_port else (TRAFFIC, ADMIN):
        if port in ports or port == found.port:
            raise UnclearError(f"its container {ports.get(port, found.name)} uses port {port}, which is the sidecar's")


def _listed(container: Object) -> set[Any]:
    return {port.get("containerPort") for port in container.get("ports") or ()}


def _next_free(spec: Object, port: int) -> int:
    """A port that no container of the pod names in any way.

    It is ten thousand above, away from an engine's further ports, and below those of the kernel's own connections (32768 and more).
    """
    containers = [each for _, each in containers_in(spec)] + list(spec.get("initContainers") or ())
    named = {int(each) for each in re.findall(r"\d{2,5}", json.dumps(containers, default=str))} | {TRAFFIC, ADMIN}
    first = port + _FURTHER if port + _FURTHER < _KERNELS_OWN else port + 1
    return next(one for one in range(first, 65_536) if one not in named)


def _host_port(found: Found) -> tuple[int, int] | None:
    """Which of the container's ports is the engine's and has a port of the node too, and that port."""
    for at, each in enumerate(found.container.get("ports") or ()):
        if each.get("containerPort") == found.port and each.get("hostPort"):
            return at, int(each["hostPort"])
    return None


def _ports_moved(spec: Object, found: Found, port: int) -> list[tuple[Path, Any]]:
    """The engine's own ports and probes, where they state its port as a number."""
    container = found.container
    changes: list[tuple[Path, Any]] = []
    for at, each in enumerate(container.get("ports") or ()):
        if each.get("containerPort") == found.port:
            changes.append((("ports", at, "containerPort"), port))
            if spec.get("hostNetwork") and each.get("hostPort"):  # Kubernetes wants both equal there
                changes.append((("ports", at, "hostPort"), port))
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        for way in ("httpGet", "tcpSocket", "grpc"):
            asked = (container.get(probe) or {}).get(way)
            if isinstance(asked, dict) and str(asked.get("port")) == str(found.port):
                changes.append(((probe, way, "port"), port))
    return changes


def _container(settings: PodSettings, found: Found, engine_port: int, listens: int, led: Led) -> Object:
    container: Object = {"name": NAME, "image": settings.image, **_shipped_pod()["initContainers"][0]}
    del container["restartPolicy"]
    of_revision = led is Led.BY_REVISION
    container["args"] = [
        f"--engine.url=http://127.0.0.1:{engine_port}",
        *(["--config.file=/etc/sidecar/sidecar.yml"] if settings.config_map else []),
        *([f"--proxy.listen-address=:{listens}"] if listens != TRAFFIC else []),
        "--log.format=json",
    ]
    variables = {} if settings.config_map else _variables("shutdown", *(() if of_revision else ("state",)))
    if found.metrics_port:
        variables["SIDECAR__ENGINE__METRICS_PORT"] = str(found.metrics_port)
    named = [] if of_revision else list(container["env"])
    container["env"] = [*named, *({"name": name, "value": value} for name, value in variables.items())]
    if of_revision:
        # Knative asks the one port of the revision, so the probe passes to the engine; a label of the pod is not to be had by a variable.
        container["ports"] = [{"containerPort": listens, **({"name": name} if (name := _name_of_port(found)) else {})}]
        container["readinessProbe"] = {"httpGet": {"path": "/health"}}
        for key in ("startupProbe", "livenessProbe"):
            del container[key]
    else:
        container["ports"] = [
            {**port, "containerPort": listens} if port["name"] == "traffic" else port for port in container["ports"]
        ]
    wanted = {volume["name"] for volume in _volumes(settings, led)}
    container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] in wanted]
    return container


def _shipped_pod() -> Object:
    """The pod's spec, which docs/attach.md explains."""
    given = read_yaml((shipped(DEPLOY) / "base" / "pod.yaml").read_text())
    return given["spec"]["template"]["spec"]  # type: ignore[no-any-return]


def _variables(*sections: str) -> dict[str, str]:
    """The keys of these sections of the shipped config, as variables of the environment: the drain's times, and where state is kept."""
    config = read_yaml((shipped(DEPLOY) / "base" / "sidecar.yml").read_text())
    return {
        f"SIDECAR__{section}__{key}".upper(): str(value)
        for section in sections
        for key, value in config[section].items()
    }


def _name_of_port(found: Found) -> str:
    """Knative reads the protocol from it: `h2c` or `http1`."""
    return next((str(each["name"]) for each in found.container.get("ports") or () if each.get("name")), "")


def _volumes(settings: PodSettings, led: Led) -> list[Mapping[str, Any]]:
    volumes: list[Mapping[str, Any]] = []
    if settings.config_map:
        volumes.append({"name": "sidecar-config", "configMap": {"name": settings.config_map}})
    if led is not Led.BY_REVISION:
        volumes.append({"name": _STATE, "emptyDir": {"sizeLimit": "128Mi"}})
    volumes.append({"name": "sidecar-no-token", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})
    return volumes


def _stops_in_order(edited: Edited, place: PodPlace, at: Path, found: Found, settings: PodSettings) -> list[str]:
    """The hook in the engine's container, and the time that it takes."""
    grace: Path = (*place.spec, "terminationGracePeriodSeconds")
    stated = edited.get(grace)
    takes = int(_shipped_pod()["terminationGracePeriodSeconds"])
    tool = settings.hook or (found.engine.drains_with if found.engine else "") or "none"
    drain = HOOKS[tool]
    before = edited.get((*at, "lifecycle", "preStop"))
    notes = []
    if not drain:
        if not settings.hook:
            notes.append(
                "no drain hook: whether the engine's image has curl or python3 is not known; --hook=curl adds one"
            )
        edited.set(grace, max(stated or 0, takes))
        return notes
    if not before:
        edited.set(grace, max(stated or 0, takes))
        edited.set((*at, "lifecycle", "preStop"), {"exec": {"command": list(drain)}})
        return []
    first = _as_command(before)
    if first is None:
        edited.set(grace, max(stated or 0, takes))
        return ["its preStop hook is a request and stays as it is; the sidecar drains from SIGTERM on"]
    edited.set(grace, (stated or _USUAL_GRACE_SECONDS) + takes)
    edited.set((*at, "lifecycle", "preStop"), {"exec": {"command": _both(first, drain)}})
    return []


def _as_command(hook: Mapping[str, Any]) -> list[str] | None:
    if "exec" in hook:
        return [str(word) for word in (hook["exec"] or {}).get("command") or ()]
    if "sleep" in hook:
        return ["sleep", str((hook["sleep"] or {}).get("seconds", 0))]
    return None


def _both(first: list[str], then: tuple[str, ...]) -> list[str]:
    """One command that runs two, the second whatever the first gives: the words of both stay words, and no shell reads them again."""
    many = len(first)
    script = (
        f'drain() {{ shift {many}; "$@"; }}; ' + " ".join(f'"${{{at}}}"' for at in range(1, many + 1)) + '; drain "$@"'
    )
    return ["sh", "-c", script, "sh", *first, *then]
