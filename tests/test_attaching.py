"""The lines of a user: five attach the sidecar to a documented vLLM, one takes it away, and no other object is touched."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from hatch_build import carried
from sidecar.cli import main
from sidecar.commands.doctor.own_side import ATTACH_LABEL
from sidecar.config.quick_yaml import read_yaml
from tests.support.imports import CHECKOUT
from tests.support.kustomize import DEPLOY, DOCUMENTED, IMAGE, Objects, attached, documented, made


USERS = DOCUMENTED["vllm"]
ENGINE = "mistral-7b"
OURS = "llm-phase-sidecar"
ATTACH = ATTACH_LABEL.partition(":")[0]
EVERY_CHOICE = [
    "engine-liveness",
    "service-account",
    "network-policy",
    "alertmanager",
    "admin-tls",
]
"""Components that a user may list behind the five lines, in the order of the guide."""


def written(path: Path) -> list[str]:
    """The lines of a file that say something."""
    return [line for line in path.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]


def guides_lines() -> str:
    """The kustomization that the guide shows."""
    (lines,) = re.findall(r"```yaml\n(resources: .*?)```", (CHECKOUT / "docs/attach.md").read_text(), re.DOTALL)
    return str(lines)


def test_a_users_diff_on_the_documented_vllm_is_five_lines_and_a_label() -> None:
    """Four of kustomization.yaml, which is new, and one of the Deployment: the engine's flag. The label is for the Deployment alone."""
    flag = [line for line in written(USERS) if "--enable-per-request-metrics" in line]
    guide = (CHECKOUT / "docs/attach.md").read_text()

    assert len(guides_lines().splitlines()) + len(flag) <= 5
    assert f"`labels: {{{ATTACH_LABEL}}}`" in guide
    assert "`kubectl apply -k .`" in guide
    assert [
        one["metadata"]["labels"].get(ATTACH)
        for one in yaml.safe_load_all(USERS.read_text())
        if "labels" in one["metadata"]
    ] == ["true"]


def test_the_users_own_file_is_left_as_it_was_so_that_applying_it_again_is_the_way_back(tmp_path: Path) -> None:
    """`kubectl apply` takes away what it added itself. Every value of the user's own stays, but what starts the engine, and what asks it."""
    own = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(USERS.read_text())}
    objects = attached(tmp_path, USERS, [])

    changed = [path for key, one in own.items() for path in lost(one, objects[key], key[0])]
    container = f"Deployment.spec.template.spec.containers.{ENGINE}"
    asks = [f"{container}.{probe}.httpGet.port" for probe in ("livenessProbe", "readinessProbe")]
    assert changed == [f"{container}.args.0", *asks]


@pytest.mark.long
def test_the_way_back_leaves_nothing_of_what_was_attached(tmp_path: Path) -> None:
    """`kubectl apply` of the user's file mends the objects that it names; the guide's second line deletes all others.

    It deletes by the sidecar's label and by kind, and has to spare the user's own objects.
    """
    guide = (CHECKOUT / "docs/attach.md").read_text()
    (selector, kinds) = re.findall(r"^kubectl delete -l (\S+) (\S+)$", guide, re.MULTILINE)[0]
    (more,) = re.findall(r"add their kinds: (.*)\.$", guide, re.MULTILINE)
    own = {(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(USERS.read_text())}
    five_lines = attached(tmp_path, USERS, ["monitoring"])
    everything = attached(tmp_path, USERS, ["monitoring", *EVERY_CHOICE])

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


def test_the_guides_lines_work_as_written_beside_the_files_that_a_wheel_carries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder as a user has it: nothing outside of the exported files is read."""
    for file in carried():
        if file.parts[0] in {"deploy", "alert_rules"} or file.parts[:2] == ("grafana", "dashboards"):
            (tmp_path / OURS / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / file, tmp_path / OURS / file)
    shutil.copy(USERS, tmp_path / "vllm.yaml")
    (tmp_path / "kustomization.yaml").write_text(guides_lines())
    guide = (CHECKOUT / "docs/attach.md").read_text()
    ((words, file),) = re.findall(r"`sidecar (inject --kustomize .*?) > (\S+)`", guide)
    monkeypatch.chdir(tmp_path)
    assert main(words.replace("--image=$IMAGE", IMAGE).split()) == 0
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(capsys.readouterr().out)

    assert made(tmp_path) == documented("vllm")


def test_every_object_fits_into_what_kubectl_apply_keeps_of_it() -> None:
    """`kubectl apply` writes each object into an annotation, and all annotations of an object have 256 KiB together."""
    sizes = {key: len(json.dumps(one)) for key, one in documented("vllm").items()}

    assert {key: size for key, size in sizes.items() if size >= 250 * 1024} == {}


def test_another_release_of_the_prometheus_chart_is_one_line_of_the_user(tmp_path: Path) -> None:
    objects = attached(tmp_path, USERS, ["monitoring", "alertmanager"], "labels: [{pairs: {release: kps}}]")
    kinds = {"PodMonitor", "PrometheusRule", "AlertmanagerConfig"}

    assert {kind: one["metadata"]["labels"]["release"] for (kind, _), one in objects.items() if kind in kinds} == (
        dict.fromkeys(kinds, "kps")
    )
    assert "labels: [{pairs: {release: NAME}}]" in (CHECKOUT / "docs/attach.md").read_text()


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
    objects = attached(folder, file, ["service-account", "engine-liveness"])

    assert (objects["Deployment", "redis"], objects["Service", "redis"]) == (redis, its_service)
    assert objects["Deployment", ENGINE]["spec"]["template"]["metadata"]["labels"][OURS] == "attached"


@pytest.mark.long
def test_a_stateful_set_gets_the_same_pod(tmp_path: Path) -> None:
    file = tmp_path / "engine.yaml"
    file.write_text(USERS.read_text().replace("kind: Deployment", "kind: StatefulSet"))
    folder = tmp_path / "users"
    folder.mkdir()
    objects = [attached(folder, resource, ["monitoring", *EVERY_CHOICE]) for resource in (USERS, file)]

    assert objects[1]["StatefulSet", ENGINE]["spec"] == objects[0]["Deployment", ENGINE]["spec"]


def test_every_component_chooses_by_the_label() -> None:
    targets = {
        (patch["target"]["kind"], patch["target"].get("labelSelector"))
        for path in (DEPLOY / "components").rglob("kustomization.yaml")
        for patch in read_yaml(path.read_text()).get("patches", ())
    }

    assert targets == {("(Deployment|StatefulSet)", f"{ATTACH}=true"), ("PodMonitor", None)}


@pytest.mark.parametrize("component", ["engine-liveness", "admin-tls"])
@pytest.mark.parametrize("what", ["an init container", "a neighbour first", "a hook"])
def test_a_component_that_counts_containers_changes_the_right_ones_or_refuses(
    component: str, what: str, tmp_path: Path
) -> None:
    """The drain over TLS and the probe would be a neighbour's."""
    one, its_service = yaml.safe_load_all(USERS.read_text())
    spec = one["spec"]["template"]["spec"]
    match what:
        case "an init container":
            spec["initContainers"] = [{"name": "fetch", "image": "fetch"}]
        case "a neighbour first":
            spec["containers"].insert(0, {"name": "dcgm-exporter", "image": "dcgm-exporter"})
        case _:
            spec["containers"][0]["lifecycle"] = {"preStop": {"exec": {"command": ["sleep", "9"]}}}
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([one, its_service]))
    (tmp_path / "users").mkdir()

    with pytest.raises(AssertionError, match="needs the sidecar as the only init container, and "):
        attached(tmp_path / "users", file, [component])


def test_a_users_labels_of_a_kserve_predictor_are_kept(tmp_path: Path) -> None:
    text = DOCUMENTED["kserve"].read_text().replace("  predictor:\n", "  predictor:\n    labels: {team: a}\n", 1)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/kserve.yaml").write_text(text)
    found = attached(tmp_path, tmp_path / "theirs/kserve.yaml", [])
    (service,) = [one for (kind, _), one in found.items() if kind == "InferenceService"]

    assert service["spec"]["predictor"]["labels"] == {"team": "a", "llm-phase-sidecar": "attached"}
