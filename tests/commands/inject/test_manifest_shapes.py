"""Objects of another shape than Kubernetes takes: one clear error each, and none for what is absent."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.inject.attaching import Settings, attach_all
from sidecar.commands.inject.manifest_shapes import odd_shapes
from sidecar.commands.inject.manifest_text import read


CONTAINER = {"name": "vllm", "image": "vllm/vllm-openai", "args": ["--model=m"], "ports": [{"containerPort": 8000}]}
CHOSEN = {"matchLabels": {"app": "llm"}}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "llm"}, "spec": {"selector": {"app": "llm"}, "ports": [{"port": 80, "targetPort": "http"}]}}  # fmt: skip


def deployment(container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "llm"}}, "spec": {"containers": [container], **spec}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "llm"}, "spec": {"template": template}}


def policy(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"}, "spec": spec}


def refused(*objects: dict[str, Any]) -> list[str]:
    """The refusals of a List of these objects, in JSON."""
    documents = read(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), "x")
    return attach_all(documents, Settings(every=True)).refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"args": "--model m"}, "args is '--model m', and a list is meant"),
        ({"args": [{"a": 1}]}, "args[0] is {'a': 1}, and a word or a number is meant"),
        ({"ports": [{"containerPort": "http"}]}, "ports[0].containerPort is 'http', and a number is meant"),
        ({"ports": [8000]}, "ports[0] is 8000, and a map is meant"),
        ({"ports": [None]}, "ports[0] is empty, and a map is meant"),
        ({"env": {"A": "b"}}, "env is {'A': 'b'}, and a list is meant"),
        ({"readinessProbe": {"httpGet": "/health"}}, "readinessProbe.httpGet is '/health', and a map is meant"),
    ],
)
def test_one_error_that_names_the_object_and_the_place(change: dict[str, Any], said: str) -> None:
    one = deployment({**CONTAINER, **change})

    assert refused(one, SERVICE) == [f"Deployment llm: spec.template.spec.containers[0].{said}"]


def test_what_leads_and_what_guards_is_looked_at_too() -> None:
    service = {**SERVICE, "spec": {"selector": {"app": "llm"}, "ports": {"port": 8000}}}
    guard = policy(ingress={"ports": []})

    assert refused(deployment(CONTAINER), service, guard) == [
        "Service llm: spec.ports is {'port': 8000}, and a list is meant",
        "NetworkPolicy p: spec.ingress is {'ports': []}, and a list is meant",
    ]


def test_every_manifest_has_the_shapes() -> None:
    for path in (Path(__file__).parent / "manifests").glob("*.yaml"):
        objects = [one for document in read(path.read_text(), path.name) for one in document.objects]

        assert odd_shapes(objects, {}) == [], path.name


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value."""
    for key, below in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*at, key)
        yield from places(below, (*at, key))


@pytest.mark.long
def test_whatever_stands_in_a_place_is_written_or_refused() -> None:
    """Each value of these objects in turn is nothing, a word, a number, a list, a map: no error is raised."""
    rules = [{"ports": [{"port": 8000}], "to": [{"podSelector": CHOSEN}]}]
    container = {
        **CONTAINER,
        "ports": [{"name": "http", "containerPort": 8000}],
        "env": [{"name": "A", "value": "b"}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}},
        "livenessProbe": {"exec": {"command": ["curl", "localhost:8000"]}},
        "lifecycle": {"preStop": {"exec": {"command": ["a"]}}, "postStart": {"httpGet": {"port": "http"}}},
    }
    template = {"metadata": {"labels": {"app": "llm"}}, "spec": {"containers": [CONTAINER]}}
    group = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "g"},
        "spec": {"leaderWorkerTemplate": {"size": 2, "leaderTemplate": template}},
    }
    guard = policy(podSelector=CHOSEN, ingress=rules, egress=rules)
    by_name = {
        **SERVICE,
        "metadata": {"name": "named"},
        "spec": {"selector": {"app": "llm"}, "ports": [{"port": 80, "targetPort": "http"}]},
    }
    sysctls = {"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]}
    objects = [deployment(container, volumes=[{"name": "v"}], securityContext=sysctls), SERVICE, by_name, guard, group]
    told: list[list[str]] = []
    for path in places(objects):
        if path[1:] in ((), ("apiVersion",), ("kind",)):
            continue
        for value in (None, "word", [7], {"a": 7}):
            given = copy.deepcopy(objects)
            node: Any = given
            for step in path[:-1]:
                node = node[step]
            node[path[-1]] = value
            told.append(refused(*given))

    assert min(told.count([]), len(told) - told.count([])) > 50
