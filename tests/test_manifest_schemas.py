"""Every object that deploy/ makes is valid to Kubernetes and to the operators, also where unknown fields are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.config.quick_yaml import read_yaml
from tests.support.kustomize import DEPLOY, DOCUMENTED, MANIFESTS, Objects, attached, documented, made
from tests.support.manifests import mismatches
from tests.support.schemas import SCHEMAS, refused


OPT_IN = (
    "engine-liveness",
    "service-account",
    "network-policy",
    "alertmanager",
    "admin-tls",
    "scaling/keda",
    "scaling/hpa",
)
"""Components for Deployments and StatefulSets of any engine."""
DEPLOYMENTS = ("vllm", "sglang", "triton")
"""The manifests whose engine is in a Deployment."""


def every_refusal(objects: Objects) -> dict[tuple[str, str], list[str]]:
    return {key: found for key, one in objects.items() if (found := refused(one))}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_object_of_every_engine_is_valid(name: str) -> None:
    objects = documented(name)

    assert {kind for kind, _ in objects} > {"ConfigMap", "Service", "PodMonitor", "PrometheusRule"}
    assert every_refusal(objects) == {}


@pytest.mark.long
@pytest.mark.parametrize("engine", DEPLOYMENTS)
def test_all_components_together_make_valid_objects(engine: str, tmp_path: Path) -> None:
    """All of them together, in the order that their heads ask for; they agree with each other and with the program."""
    objects = attached(tmp_path, DOCUMENTED[engine], ("monitoring", *OPT_IN))

    assert {kind for kind, _ in objects} > {
        *("AlertmanagerConfig", "NetworkPolicy", "ServiceAccount"),
        *("ScaledObject", "HorizontalPodAutoscaler"),
    }
    assert every_refusal(objects) == {}
    assert mismatches(objects, tmp_path) == []


def test_every_component_is_one_of_these() -> None:
    """A component that nothing renders would be checked by nothing."""
    there = {path.parent.relative_to(DEPLOY / "components") for path in DEPLOY.glob("components/**/kustomization.yaml")}
    listed = {"monitoring", "pod-monitor", *OPT_IN}

    assert {str(path) for path in there} == listed
    assert set(DEPLOYMENTS) <= set(DOCUMENTED)


ENGINE, OURS, POD_OF_KSERVE, GRAPH = "mistral-7b", "llm-phase-sidecar", "huggingface-llama2", "vllm-agg"


def misspell(container: Any) -> None:
    container["restartPolice"] = container.pop("restartPolicy")


@pytest.mark.parametrize(
    ("name", "key", "change"),
    [
        ("vllm", ("Deployment", ENGINE), lambda spec: misspell(spec["template"]["spec"]["initContainers"][0])),
        ("vllm", ("Service", OURS), lambda spec: spec.update(publishNotReadyAddress=True)),
        ("vllm", ("Service", ENGINE), lambda spec: spec["ports"][0].update(port="web")),
        ("vllm", ("PodMonitor", OURS), lambda spec: spec["podMetricsEndpoints"][0].update(scrapeInterval="15s")),
        ("vllm", ("PodMonitor", OURS), lambda spec: spec.update(sampleLimit="many")),
        ("vllm", ("PrometheusRule", OURS), lambda spec: spec["groups"][0]["rules"][0].update(exprs="1")),
        ("kserve", ("InferenceService", POD_OF_KSERVE), lambda spec: misspell(spec["predictor"]["initContainers"][0])),
        ("kserve", ("InferenceService", POD_OF_KSERVE), lambda spec: spec["predictor"].update(podLabels={})),
        ("dynamo", ("DynamoGraphDeployment", GRAPH), lambda spec: spec.update(services={})),
        ("dynamo", ("DynamoGraphDeployment", GRAPH), lambda spec: spec.update(env={"A": "1"})),
        ("dynamo", ("DynamoGraphDeployment", GRAPH), lambda spec: spec["components"][0].update(extraPodSpec={})),
        ("dynamo", ("DynamoGraphDeployment", GRAPH), lambda spec: spec["components"][0].update(type="router")),
        ("dynamo", ("DynamoGraphDeployment", GRAPH), lambda spec: spec["components"][0].pop("name")),
        (
            "dynamo",
            ("DynamoGraphDeployment", GRAPH),
            lambda spec: spec["components"][0]["podTemplate"]["metadata"].update(generateName="a"),
        ),
        (
            "dynamo",
            ("DynamoGraphDeployment", GRAPH),
            lambda spec: misspell(spec["components"][0]["podTemplate"]["spec"]["initContainers"][0]),
        ),
    ],
)
def test_an_unknown_field_and_a_wrong_type_are_found(name: str, key: tuple[str, str], change: Any) -> None:
    one = documented(name)[key]
    assert refused(one) == []
    change(one["spec"])

    assert refused(one) != []


@pytest.mark.parametrize(
    ("file", "kind", "change"),
    [
        ("leader-worker-set", "LeaderWorkerSet", lambda spec: spec["leaderWorkerTemplate"].update(restartPolicy="Never")),
        ("leader-worker-set", "LeaderWorkerSet", lambda spec: spec["leaderWorkerTemplate"]["leaderTemplate"]["spec"].update(initContainer=[])),
        ("rollout", "Rollout", lambda spec: spec["strategy"].update(rollingUpdate={})),
        ("rollout", "Rollout", lambda spec: spec["template"]["spec"]["containers"][0].update(port=1)),
        ("llm-d", "InferencePool", lambda spec: spec.update(targetPortNumber=8200)),
        ("llm-d", "InferencePool", lambda spec: spec["targetPorts"][0].update(number=70_000)),
        ("llm-d", "HTTPRoute", lambda spec: spec["rules"][0]["backendRefs"][0].update(service="x")),
        ("knative", "Service", lambda spec: spec["template"]["spec"].update(terminationGracePeriodSeconds=70)),
        ("knative", "Service", lambda spec: spec["template"]["spec"]["containers"][0].update(lifecycle={})),
        ("dynamo", "DynamoGraphDeployment", lambda spec: spec.update(components=[])),
        ("dynamo", "DynamoGraphDeployment", lambda spec: spec["services"]["Frontend"]["extraPodSpec"]["mainContainer"].update(imag="x")),
    ],
)  # fmt: skip
def test_a_field_that_a_custom_resource_has_not_is_found(file: str, kind: str, change: Any) -> None:
    objects = yaml.safe_load_all((MANIFESTS / f"{file}.yaml").read_text())
    one = next(each for each in objects if each["kind"] == kind)
    assert refused(one) == []
    change(one["spec"])

    assert refused(one) != []


@pytest.mark.parametrize("change", [{"minReplicas": 1}, {"fallback": {"replicas": 1}}, {"maxReplicaCount": "4"}])
def test_an_unknown_field_and_a_wrong_type_of_an_autoscaler_are_found(change: Any) -> None:
    one = read_yaml((DEPLOY / "components/scaling/keda/scaled-object.yaml").read_text())
    assert refused(one) == []

    assert refused({**one, "spec": {**one["spec"], **change}}) != []


def test_an_unknown_field_of_the_routes_is_found() -> None:
    """The object of Alertmanager's routes, whose schema nests routes within routes."""
    (one,) = made(DEPLOY / "alertmanager").values()
    one["spec"]["receivers"][0]["pager_configs"] = []

    assert (one["kind"], len(refused(one))) == ("AlertmanagerConfig", 1)


def test_each_schema_says_where_it_is_from() -> None:
    told = (SCHEMAS / "README.md").read_text()

    assert [path.name for path in SCHEMAS.glob("*.json") if f"`{path.name}`" not in told] == []
    assert all(json.loads(path.read_text())["type"] == "object" for path in SCHEMAS.glob("*.json"))
