"""The lines of a user: five attach the sidecar to a documented vLLM, one takes it away, and no other object is touched."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from hatch_build import carried
from sidecar import __version__
from sidecar.commands.doctor.own_side import ATTACH_LABEL
from sidecar.config.quick_yaml import read_yaml
from tests.support.imports import CHECKOUT
from tests.support.kustomize import DEPLOY, Objects, attached, made, overlay
from tests.support.manifests import config_of, pod_of


USERS = DEPLOY / "overlays/vllm/vllm.yaml"
ENGINE = "mistral-7b"
OURS = "llm-phase-sidecar"
ATTACH = ATTACH_LABEL.partition(":")[0]
CHOSEN = f"{ATTACH}=true"
EVERY_CHOICE = [
    "engine-liveness/vllm",
    "service-account",
    "network-policy",
    "alertmanager",
    "admin-tls",
    "plain-sidecar",
]
"""Components that a user may list behind the five lines, in the order of the guide."""


def written(path: Path) -> list[str]:
    """The lines of a file that say something."""
    return [line for line in path.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]


def test_a_users_diff_on_the_documented_vllm_is_five_lines_and_the_guide_shows_them() -> None:
    """Four of kustomization.yaml, which is new, and one of the Deployment: the engine's flag. The guide has the same lines, and the
    label that the Deployment and its Service carry.
    """
    kustomization = written(DEPLOY / "overlays/vllm/kustomization.yaml")
    flag = [line for line in written(USERS) if "--enable-per-request-metrics" in line]
    guide = (CHECKOUT / "docs/attach.md").read_text()

    assert len(kustomization) + len(flag) <= 5
    assert "\n".join(kustomization).replace("../../", "llm-phase-sidecar/deploy/") in guide
    assert f"kubectl apply -f {USERS.name}" in guide
    assert f"`labels: {{{ATTACH_LABEL}}}`" in guide
    assert [one["metadata"]["labels"].get(ATTACH) for one in yaml.safe_load_all(USERS.read_text())] == ["true", "true"]


def test_the_users_own_file_is_left_as_it_was_so_that_applying_it_again_is_the_way_back(tmp_path: Path) -> None:
    """`kubectl apply` takes away what it added itself. Every value of the user's own stays, but where the guide says so."""
    own = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(USERS.read_text())}
    objects = attached(tmp_path, USERS, ["vllm"])

    changed = [path for key, one in own.items() for path in lost(one, objects[key], key[0])]
    assert changed == ["Service.spec.ports.0.targetPort"]


@pytest.mark.long
def test_the_way_back_leaves_nothing_of_what_was_attached(tmp_path: Path) -> None:
    """`kubectl apply` of the user's file mends the objects that it names; the guide's second line deletes all others.

    It deletes by the sidecar's label and by kind, and has to spare the user's own objects.
    """
    guide = (CHECKOUT / "docs/attach.md").read_text()
    (selector, kinds) = re.findall(r"^kubectl delete -l (\S+) (\S+)$", guide, re.MULTILINE)[0]
    (more,) = re.findall(r"add their kinds: (.*)\.$", guide, re.MULTILINE)
    own = {(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(USERS.read_text())}
    five_lines = attached(tmp_path, USERS, ["vllm", "monitoring"])
    everything = attached(tmp_path, USERS, ["vllm", "monitoring", *EVERY_CHOICE])

    few = deleted(five_lines, selector, kinds.split(","))
    all_of_it = deleted(everything, selector, [*kinds.split(","), *re.findall(r"`(\w+)`", more)])

    assert five_lines.keys() - few == own
    assert everything.keys() - all_of_it == own


def deleted(objects: Objects, selector: str, kinds: list[str]) -> set[tuple[str, str]]:
    """The objects that `kubectl delete -l SELECTOR KINDS` takes away."""
    name, _, value = selector.partition("=")
    return {
        (kind, each)
        for (kind, each), one in objects.items()
        if kind.lower() in kinds and one["metadata"].get("labels", {}).get(name) == value
    }


def lost(before: Any, after: Any, path: str) -> list[str]:
    """The places whose value is not in `after`; what a list has more is none."""
    if isinstance(before, dict):
        return [each for key, value in before.items() for each in lost(value, after.get(key), f"{path}.{key}")]
    if (
        isinstance(before, list)
        and before
        and isinstance(before[0], dict)
        and "name" in before[0]
        and "port" not in before[0]
    ):
        named = {each["name"]: each for each in after}
        return [each for value in before for each in lost(value, named.get(value["name"]), f"{path}.{value['name']}")]
    if isinstance(before, list):
        return [each for at, value in enumerate(before) for each in lost(value, after[at], f"{path}.{at}")]
    return [] if before == after else [path]


def test_the_guides_lines_work_as_written_beside_the_files_that_a_wheel_carries(tmp_path: Path) -> None:
    """The folder as a user has it: nothing outside of the exported files is read."""
    for file in carried():
        if file.parts[0] in {"deploy", "alert_rules"} or file.parts[:2] == ("grafana", "dashboards"):
            (tmp_path / OURS / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / file, tmp_path / OURS / file)
    shutil.copy(USERS, tmp_path)
    guide = (CHECKOUT / "docs/attach.md").read_text()
    (lines,) = re.findall(r"```yaml\n(resources: .*?)```", guide, re.DOTALL)
    (tmp_path / "kustomization.yaml").write_text(lines)

    assert made(tmp_path) == overlay("vllm")


def test_every_object_fits_into_what_kubectl_apply_keeps_of_it() -> None:
    """`kubectl apply` writes each object into an annotation, and all annotations of an object have 256 KiB together."""
    sizes = {key: len(json.dumps(one)) for key, one in overlay("vllm").items()}

    assert {key: size for key, size in sizes.items() if size >= 250 * 1024} == {}


def test_another_release_of_the_prometheus_chart_is_one_line_of_the_user(tmp_path: Path) -> None:
    objects = attached(tmp_path, USERS, ["vllm", "monitoring", "alertmanager"], "labels: [{pairs: {release: kps}}]")
    kinds = {"PodMonitor", "PrometheusRule", "AlertmanagerConfig"}

    assert {kind: one["metadata"]["labels"]["release"] for (kind, _), one in objects.items() if kind in kinds} == (
        dict.fromkeys(kinds, "kps")
    )
    assert "labels: [{pairs: {release: NAME}}]" in (CHECKOUT / "docs/attach.md").read_text()


@pytest.mark.parametrize("name", sorted(path.name for path in (DEPLOY / "overlays").iterdir()))
def test_the_guides_line_for_a_registry_names_the_image_in_it(name: str, tmp_path: Path) -> None:
    """Also where the pod is in an object of an operator, whose fields kustomize does not know."""
    guide = (CHECKOUT / "docs/attach.md").read_text()
    (line,) = re.findall(r"`(images: \[.*?\])`", guide)

    objects = attached(tmp_path, DEPLOY / "overlays" / name / f"{name}.yaml", [name], line)

    assert pod_of(objects).sidecar["image"] == f"registry.example.com/{OURS}:{__version__}"


def deployment(name: str, labels: dict[str, str]) -> Any:
    pod = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": name}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": pod},
    }


def service(name: str, labels: dict[str, str]) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 3000}]},
    }


def test_what_has_no_label_is_left_alone(tmp_path: Path) -> None:
    """A second Deployment and Service of the same kustomization, such as a redis."""
    redis, its_service = deployment("redis", {"app": "redis"}), service("redis", {"app": "redis"})
    file = tmp_path / "all.yaml"
    file.write_text("---\n".join((USERS.read_text(), yaml.safe_dump(redis), yaml.safe_dump(its_service))))
    folder = tmp_path / "users"
    folder.mkdir()
    objects = attached(folder, file, ["vllm", "service-account", "engine-liveness/vllm"])

    assert (objects["Deployment", "redis"], objects["Service", "redis"]) == (redis, its_service)
    assert objects["Service", ENGINE]["spec"]["ports"][0]["targetPort"] == 8900


OTHER_KINDS = {
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1", "leaderWorkerTemplate"),
    "Rollout": ("argoproj.io/v1alpha1", "template"),
    "DaemonSet": ("apps/v1", "template"),
}


def of_another_kind(kind: str, labels: dict[str, str]) -> Any:
    version, field = OTHER_KINDS[kind]
    template = deployment("vllm", {})["spec"]["template"]
    spec = {field: {"leaderTemplate": template} if kind == "LeaderWorkerSet" else template}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "vllm", "labels": labels}, "spec": spec}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_a_workload_without_a_sidecar_keeps_its_service(kind: str, tmp_path: Path) -> None:
    """Its Service is not turned to port 8900, where nothing listens in its pods."""
    own = [of_another_kind(kind, {"app": "vllm"}), service("vllm", {"app": "vllm"})]
    file = tmp_path / "engine.yaml"
    file.write_text(yaml.safe_dump_all(own))
    folder = tmp_path / "users"
    folder.mkdir()
    objects = attached(folder, file, ["vllm", "service-account", "engine-liveness/vllm"])

    assert [objects[one["kind"], "vllm"] for one in own] == own


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_a_label_that_cannot_be_followed_is_refused(kind: str, tmp_path: Path) -> None:
    """Else the Service that has it too would be turned, and no pod behind it would have a sidecar."""
    labels = {ATTACH: "true"}
    file = tmp_path / "engine.yaml"
    file.write_text(yaml.safe_dump_all([of_another_kind(kind, labels), service("vllm", labels)]))
    folder = tmp_path / "users"
    folder.mkdir()

    with pytest.raises(AssertionError, match="our label is for Deployments, StatefulSets and their Services alone"):
        attached(folder, file, ["vllm"])


@pytest.mark.long
def test_a_stateful_set_gets_the_same_pod(tmp_path: Path) -> None:
    file = tmp_path / "engine.yaml"
    file.write_text(USERS.read_text().replace("kind: Deployment", "kind: StatefulSet"))
    folder = tmp_path / "users"
    folder.mkdir()
    objects = [attached(folder, resource, ["vllm", "monitoring", *EVERY_CHOICE]) for resource in (USERS, file)]

    assert objects[1]["StatefulSet", ENGINE]["spec"] == objects[0]["Deployment", ENGINE]["spec"]


def test_every_component_means_the_same_objects() -> None:
    """Kustomize has no variables, so the choice of what is an engine's stands in each component; all of them agree."""
    targets = {
        (patch["target"]["kind"], patch["target"].get("labelSelector"))
        for path in (DEPLOY / "components").rglob("kustomization.yaml")
        for patch in read_yaml(path.read_text()).get("patches", ())
        if "name" not in patch["target"]
    }

    (refused,) = {kind for kind, _ in targets if "LeaderWorkerSet" in kind}
    assert targets == {
        ("(Deployment|StatefulSet)", CHOSEN),
        ("Service", CHOSEN),
        (refused, CHOSEN),
        ("InferenceService", None),
        ("DynamoGraphDeployment", None),
    }


def test_in_the_production_stack_the_router_asks_the_sidecar_and_gets_none_itself(tmp_path: Path) -> None:
    """Its chart makes a Deployment per model and one of the router, here with the labels and names of its templates alone."""
    values = read_yaml((DEPLOY / "production-stack/values.yaml").read_text())
    router = values["routerSpec"]
    chosen = {"model": "m", **values["servingEngineSpec"]["labels"]}
    objects = [
        deployment("stack-deployment-vllm", chosen),
        service("stack-engine-service", chosen),
        deployment("stack-deployment-router", {}),
        service("stack-router-service", {}),
    ]
    file = tmp_path / "stack.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    folder = tmp_path / "users"
    folder.mkdir()
    made_of = attached(folder, file, ["vllm"])
    flags = dict(zip(router["extraArgs"][::2], router["extraArgs"][1::2], strict=True))

    assert made_of["Deployment", "stack-deployment-router"] == objects[2]
    assert made_of["Service", "stack-router-service"] == objects[3]
    assert made_of["Service", "stack-engine-service"]["spec"]["ports"][0]["targetPort"] == 8900
    assert flags == {"--k8s-port": str(config_of(made_of, tmp_path).proxy.address.port)}


def test_a_users_labels_of_a_kserve_predictor_are_kept(tmp_path: Path) -> None:
    theirs = next(
        path for path in (CHECKOUT / "deploy/overlays/kserve").glob("*.yaml") if "InferenceService" in path.read_text()
    )
    text = theirs.read_text().replace("  predictor:\n", "  predictor:\n    labels: {team: a}\n", 1)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / theirs.name).write_text(text)
    found = attached(tmp_path, tmp_path / "theirs" / theirs.name, ["kserve"])
    (service,) = [one for (kind, _), one in found.items() if kind == "InferenceService"]

    assert service["spec"]["predictor"]["labels"] == {"team": "a", "llm-phase-sidecar": "attached"}
