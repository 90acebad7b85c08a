"""Errors of an object by its schema, strictly: a field that the schema does not know is one.

It knows which schema is for which kind: Kubernetes' own of kubernetes-validate, and those that tests/schemas/ has. It knows no
manifest of this project.
"""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import kubernetes_validate

from tests.support.imports import CHECKOUT


SCHEMAS = CHECKOUT / "tests" / "schemas"
NATIVE_SIDECARS_SINCE = "1.29"
"""The oldest version of Kubernetes in which a container that starts first may go on running."""


def refused(one: Any) -> list[str]:
    """Why Kubernetes, or the operator to which this object belongs, would refuse it; empty if it is valid."""
    return [*_refused(json.dumps(one))]


@cache
def _refused(text: str) -> tuple[str, ...]:
    """By the object's JSON: the folders have most objects in common, and a schema takes a tenth of a second."""
    one = json.loads(text)
    if (SCHEMAS / f"{_schema_of(one)}.json").exists():
        return (*_errors(_schema_of(one), one), *_errors_of_pods(one))
    found = []
    for version in (NATIVE_SIDECARS_SINCE, kubernetes_validate.latest_version()):
        try:
            kubernetes_validate.validate(one, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{version}: {'.'.join(map(str, error.path))}: {error.message}")
    return tuple(found)


OTHERWISE_NAMED = {
    "serving.knative.dev/v1 Service": "KnativeService",
    "nvidia.com/v1alpha1 DynamoGraphDeployment": "DynamoGraphDeployment-v1alpha1",
}


def _schema_of(one: Any) -> str:
    return OTHERWISE_NAMED.get(f"{one['apiVersion']} {one['kind']}", str(one["kind"]))


def _errors_of_pods(one: Any) -> Iterator[str]:
    """Errors of the pod templates in a custom resource: Kubernetes' own objects, which its schema leaves to Kubernetes."""
    for place, template in _pod_templates(one):
        whole = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "any"}, "template": template}
        yield from (f"{place}: {error}" for error in refused(whole))


def _pod_templates(one: Any) -> Iterator[tuple[str, Any]]:
    spec = one["spec"]
    match _schema_of(one):
        case "Rollout":
            yield "template", spec.get("template", {})
        case "LeaderWorkerSet":
            templates = spec["leaderWorkerTemplate"]
            yield from ((key, templates[key]) for key in ("leaderTemplate", "workerTemplate") if key in templates)
        case "DynamoGraphDeployment":
            yield from ((each.get("name", "?"), each.get("podTemplate", {})) for each in spec.get("components", ()))
        case "DynamoGraphDeployment-v1alpha1":
            for name, service in spec["services"].items():
                pod = dict(service.get("extraPodSpec", {}))
                main = {"name": "main", **pod.pop("mainContainer", {})}
                yield name, {"spec": {**pod, "containers": [main, *pod.get("containers", ())]}}


def _errors(schema: str, one: Any) -> list[str]:
    found = jsonschema.Draft202012Validator(_strict(schema)).iter_errors(one)
    return sorted(f"{'.'.join(map(str, error.path))}: {error.message}" for error in found)


@cache
def _strict(name: str) -> Any:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    return _closed(schema)


def _closed(schema: Any) -> Any:
    """The schema, with every object that lists its fields closed to others, as `kubectl --validate=strict` closes it."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    listed = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    if listed and "additionalProperties" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed["additionalProperties"] = False
    if schema.get("nullable") is True and isinstance(schema.get("type"), str):
        closed["type"] = [schema["type"], "null"]
    return closed
