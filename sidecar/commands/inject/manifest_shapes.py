"""The shapes that `sidecar inject` reads: a list where a list is meant, a map where a map is, a number where a port is.

Kubernetes refuses an object of another shape. Here it is one clear error, with the object and the place, before anything is decided from it.
What is absent or null is no error, and what is not read is not looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sidecar.commands.inject.edited_object import Edited
from sidecar.commands.inject.manifest_text import Object
from sidecar.commands.inject.ways_to_pods import called, is_pool, is_service
from sidecar.commands.inject.workload_kinds import Path, kind_of, pods_behind, pods_of


_MEANT: dict[type, str] = {dict: "a map", list: "a list", int: "a number", str: "a word or a number"}
_WORDS_SHAPE: list[Any] = [str]
_PORTS: list[Any] = [{"containerPort": int, "hostPort": int, "name": str}]
_REQUIRED_KEYS = ("containerPort",)
_ASKS: dict[str, Any] = {"httpGet": {}, "tcpSocket": {}, "grpc": {}, "exec": {"command": _WORDS_SHAPE}, "sleep": {}}
_RESOURCES: dict[str, Any] = {"requests": {}, "limits": {}}
_CONTAINER_SHAPE: dict[str, Any] = {
    "name": str,
    "image": str,
    "command": _WORDS_SHAPE,
    "args": _WORDS_SHAPE,
    "env": [{"name": str, "value": str}],
    "ports": _PORTS,
    "lifecycle": {"preStop": _ASKS, "postStart": _ASKS},
    "startupProbe": _ASKS,
    "readinessProbe": _ASKS,
    "livenessProbe": _ASKS,
    "modelFormat": {},
    "resources": _RESOURCES,
}
_POD_SHAPE: dict[str, Any] = {
    "containers": [_CONTAINER_SHAPE],
    "initContainers": [_CONTAINER_SHAPE],
    "model": _CONTAINER_SHAPE,
    "mainContainer": _CONTAINER_SHAPE,
    "volumes": [{"name": str}],
    "securityContext": {"runAsUser": int, "sysctls": [{}]},
    "resources": _RESOURCES,
    "terminationGracePeriodSeconds": int,
}
_METADATA: dict[str, Any] = {"labels": {}, "annotations": {}}
_SELECTOR_SHAPE: dict[str, Any] = {"matchLabels": {}, "matchExpressions": [{"values": [str]}]}
_PEERS: list[Any] = [{"podSelector": _SELECTOR_SHAPE, "namespaceSelector": _SELECTOR_SHAPE}]
_RULES_SHAPE: list[Any] = [{"ports": [{}], "to": _PEERS, "from": _PEERS}]
_POLICY: dict[str, Any] = {
    "podSelector": _SELECTOR_SHAPE,
    "policyTypes": [str],
    "ingress": _RULES_SHAPE,
    "egress": _RULES_SHAPE,
}
_LEADS: dict[str, Any] = {"selector": {}, "ports": [{}], "targetPorts": [{}]}
"""A map lists what it may hold, as far as it is read; a list has the shape of each of its members."""


def odd_shapes(objects: Sequence[Object], further_kinds: Mapping[str, Path]) -> list[str]:
    """The faults of these objects, a sentence each with the object, the place and what is meant."""
    found = []
    for one in objects:
        name = called(one) if isinstance(one.get("metadata") or {}, dict) else str(one.get("kind"))
        found += [f"{name}: {said}" for said in _odd(one, further_kinds)]
    return found


def _odd(one: Object, further_kinds: Mapping[str, Path]) -> Iterator[str]:
    metadata = one.get("metadata")
    if said := list(_differs(metadata, _METADATA, "metadata")):
        yield from said
        return
    if is_service(one) or is_pool(one):
        yield from _differs(one.get("spec"), _LEADS, "spec")
    elif one.get("kind") == "NetworkPolicy":
        yield from _differs(one.get("spec"), _POLICY, "spec")
    elif (kind := kind_of(one, further_kinds)) is not None:
        yield from _differs(one.get("spec"), {}, "spec")
        for place in (*pods_of(one, kind), *pods_behind(one, kind)):
            yield from _differs(Edited(one).get(place.metadata), _METADATA, _place(place.metadata))
            yield from _differs(place.spec_in(one), _POD_SHAPE, _place(place.spec))


def _place(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def _differs(node: Any, shape: Any, at: str) -> Iterator[str]:
    if node is None:
        return
    meant: Any = _kind_of(shape)
    taken: Any = (str, int, float) if meant is str else meant
    is_right: bool = isinstance(node, taken)
    if not is_right:
        yield f"{at} is {node!r:.60}, and {_MEANT[meant]} is meant"
    elif isinstance(shape, dict):
        for key, below in shape.items():
            if key in _REQUIRED_KEYS and node.get(key) is None:
                yield f"{at} has no {key}"
            yield from _differs(node.get(key), below, f"{at}.{key}")
    elif isinstance(shape, list):
        for index, each in enumerate(node):
            if each is None:
                yield f"{at}[{index}] is empty, and {_MEANT[_kind_of(shape[0])]} is meant"
            yield from _differs(each, shape[0], f"{at}[{index}]")


def _kind_of(shape: Any) -> type:
    return shape if isinstance(shape, type) else type(shape)
