"""The sidecar in one pod: its container, its volumes, and what changes around it.

The container is that of `deploy/base/pod.yaml`, which docs/attach.md explains. It needs no ConfigMap: what differs
from the defaults are variables of the environment, unless `--config-map` names one. What a pod has already is added to:
init containers stay and come first, a preStop hook runs before ours (`stopping.py`).
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from sidecar.commands.export.shipped_files import DEPLOY, shipped
from sidecar.commands.inject.edited_object import Edited
from sidecar.commands.inject.engine_in_pod import ENGINE_PORT, Found, UnclearError, asking_beside, asks_led, moved
from sidecar.commands.inject.fitted_container import fit
from sidecar.commands.inject.manifest_text import Object
from sidecar.commands.inject.stopping import Stop, stop_of
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
_OF_A_SERVICE = re.compile(r"(?<!KUBERNETES)_(?:SERVICE_(?:HOST|PORT)|PORT_\d+_(?:TCP|UDP))")
"""The name of a variable that a pod has of each Service of its namespace; those of Kubernetes' own it has in any case."""
_ORDINARY_PORTS, _OPENS_PORTS = 1024, "net.ipv4.ip_unprivileged_port_start"
"""The first port on which any user may listen, unless this sysctl of the pod says another (ip-sysctl of Linux; Kubernetes counts it as safe)."""


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
    edited: Edited,
    place: PodPlace,
    found: Found,
    settings: PodSettings,
    *,
    names: Collection[str] | None,
    led: Led,
    others_stay: bool,
) -> list[str]:
    """Put the sidecar into the pod at this place. Returns notes: what the user should know of it. Raises UnclearError.

    `names`: those of the engine's container that are asked for, and lead to the sidecar's own port from now on. None: the sidecar listens on the
    engine's port, and the engine on another one that is free. `others_stay`: another pod is there while this one leaves its Service.
    """
    spec, at = place.spec_in(edited.one), (*place.spec, *found.path)
    _refuse_taken(spec, found, takes_port=names is None)
    engine_port = _next_free(spec, found.port) if names is None else found.port
    notes = _led(edited, at, found, names, engine_port)
    if names is None and led is Led.BY_REVISION and found.container.get("ports") is not None:
        edited.remove((*at, "ports"))
    # Knative allows neither a hook nor a grace period.
    stop = None if led is Led.BY_REVISION else _stop(place.spec_in(edited.one), edited.get(at), found, settings)
    container = _container(settings, found, (engine_port, found.port if names is None else TRAFFIC), led, stop)
    if others_stay:
        container["env"].append({"name": "SIDECAR__ENGINE__REPLICATED", "value": "true"})
    qos = fit(container, spec, settings.cpu, settings.memory)
    if led is not Led.BY_REVISION:
        qos += _stays_evictable(edited, (*place.metadata, "annotations"))
    native = led is not Led.BY_REVISION and not settings.plain
    if native:
        container["restartPolicy"] = "Always"
    elif spec.get("hostNetwork"):  # there Kubernetes refuses one number in two containers, but for an init container
        listed = _listed(edited.get(at))
        container["ports"] = [port for port in container["ports"] if port["containerPort"] not in listed]
    for volume in _volumes(settings, led):
        edited.append((*place.spec, "volumes"), volume)
    edited.append((*place.spec, "initContainers" if native else "containers"), container)
    edited.set((*place.metadata, "labels", ATTACHED), IS_ATTACHED)
    if spec.get("enableServiceLinks") is None and not _OF_A_SERVICE.search(json.dumps(spec, default=str)):
        edited.set((*place.spec, "enableServiceLinks"), False)
    if stop:
        edited.set((*place.spec, "terminationGracePeriodSeconds"), stop.grace_seconds)
        if stop.command:
            edited.set((*at, "lifecycle", "preStop"), {"exec": {"command": stop.command}})
    return [*_notes(spec, found, engine_port), *qos, *notes, *(stop.notes if stop else ())]


def _led(edited: Edited, at: Path, found: Found, names: Collection[str] | None, engine_port: int) -> list[str]:
    """Let what asks for the engine's container from outside reach the sidecar, and its own probes and hooks the engine. Returns notes."""
    changes, notes = asks_led(found, names, engine_port)
    changes += moved(found, engine_port) if names is None else ()
    for entry, each in enumerate(found.container.get("ports") or ()):
        changes += [(("ports", entry, "containerPort"), TRAFFIC)] if each.get("name") in (names or ()) else []
    for path, value in changes:
        edited.set((*at, *path), value)
    return notes


def _stays_evictable(edited: Edited, annotations: Path) -> list[str]:
    """Name our volume as one that may be lost. Else its node could not be removed (HasBlockingLocalStorage of cluster-autoscaler's utils/drain)."""
    there = edited.get(annotations) or {}
    if _EVICTABLE in there:
        return []
    edited.set((*annotations, _EVICTABLE_VOLUMES), ",".join(filter(None, [there.get(_EVICTABLE_VOLUMES), _STATE])))
    return [f"{_EVICTABLE_VOLUMES} names its volume {_STATE}, which would keep a node up that is not needed"]


def cannot_take_port(spec: Object, found: Found) -> str:
    """Why the sidecar cannot listen on the engine's port, with the engine on another; empty if it can."""
    try:
        _refuse_taken(spec, found, takes_port=True)
        moved(found, _next_free(spec, found.port))
    except UnclearError as error:
        return str(error)
    sysctls = (spec.get("securityContext") or {}).get("sysctls") or ()
    told = next((str(each.get("value")) for each in sysctls if each.get("name") == _OPENS_PORTS), "")
    if found.port < (int(told) if told.isdecimal() and not spec.get("hostNetwork") else _ORDINARY_PORTS):
        return f"no ordinary user may listen on port {found.port} unless the pod's sysctl {_OPENS_PORTS} says so"
    return ""


def _stop(spec: Object, container: Object, found: Found, settings: PodSettings) -> Stop:
    tool = settings.hook or (found.engine.drains_with if found.engine else "")
    return stop_of(
        spec, container, tool, int(_shipped_pod()["terminationGracePeriodSeconds"]), _shipped_config()["shutdown"]
    )


def _notes(spec: Object, found: Found, engine_port: int) -> list[str]:
    notes, takes_port = [], engine_port != found.port
    if takes_port:
        notes.append(f"the sidecar takes port {found.port}, and the engine listens on {engine_port}")
    else:
        of_node = [
            each.get("hostPort")
            for each in found.container.get("ports") or ()
            if each.get("containerPort") == found.port
        ]
        notes += [f"port {each} of the node leads to the engine, past the sidecar" for each in of_node if each]
    if spec.get("hostNetwork"):
        ours = engine_port if takes_port else TRAFFIC
        notes.append(f"it is on its node's network: ports {ours} and {ADMIN} of the node must be free")
    at = "which is the sidecar's now" if takes_port else "past the sidecar"
    notes += [
        f"its container {name} asks this pod at port {found.port}, {at}"
        for name in asking_beside(spec, found)
        if name != NAME
    ]
    if found.host_is_loopback:
        notes.append("the engine listens on 127.0.0.1 alone: `sidecar bypass` cannot lead traffic past the sidecar")
    return notes


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
    for port in (TRAFFIC, ADMIN):
        if port == found.port or (port in ports and (port == ADMIN or not takes_port)):
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
    return next(one for one in chain(range(first, 65_536), range(_ORDINARY_PORTS, first)) if one not in named)


def _container(settings: PodSettings, found: Found, ports: tuple[int, int], led: Led, stop: Stop | None) -> Object:
    engine_port, listens = ports
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
    if (
        stop and stop.drain_seconds != _shipped_config()["shutdown"]["grace_seconds"]
    ):  # whatever a config for many pods says
        variables["SIDECAR__SHUTDOWN__GRACE_SECONDS"] = str(stop.drain_seconds)
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


def _shipped_config() -> Object:
    return read_yaml((shipped(DEPLOY) / "base" / "sidecar.yml").read_text())  # type: ignore[no-any-return]


def _variables(*sections: str) -> dict[str, str]:
    """The keys of these sections of the shipped config, as variables of the environment: the drain's times, and where state is kept."""
    config = _shipped_config()
    return {
        f"SIDECAR__{section}__{key}".upper(): str(value)
        for section in sections
        for key, value in config[section].items()
    }


def _name_of_port(found: Found) -> str:
    """Knative reads the protocol from it: `h2c` or `http1`. Raises UnclearError for the first."""
    name = next((str(each["name"]) for each in found.container.get("ports") or () if each.get("name")), "")
    if name == "h2c":
        raise UnclearError(
            "Knative asks its port by HTTP/2, since it is called h2c, and the sidecar speaks HTTP/1.1: call it http1"
        )
    return name


def _volumes(settings: PodSettings, led: Led) -> list[Mapping[str, Any]]:
    volumes: list[Mapping[str, Any]] = []
    if settings.config_map:
        volumes.append({"name": "sidecar-config", "configMap": {"name": settings.config_map}})
    if led is not Led.BY_REVISION:
        volumes.append({"name": _STATE, "emptyDir": {"sizeLimit": "128Mi"}})
    volumes.append({"name": "sidecar-no-token", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})
    return volumes
