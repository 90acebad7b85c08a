"""A component gives what `sidecar inject` gives, by the kustomize inside kubectl, or kustomize refuses: never a part of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.cli import main
from sidecar.commands.inject.attaching import Settings, attach_all
from sidecar.commands.inject.kustomize_component import component
from sidecar.commands.inject.manifest_text import read, written
from tests.support.attached import EVERY, ONLY_LABELLED
from tests.support.kustomize import IMAGE, MANIFESTS, Objects, built, keyed, made


ONE = (MANIFESTS / "stateful-set.yaml").read_text()


def users_folder(folder: Path, text: str, *, made_for: str | None = None) -> Objects:
    """A kustomization of this manifest with the component, in `folder`. Returns what `sidecar inject` makes of what it was made for."""
    given = made_for or text
    documents = read(given, "x.yaml")
    done = attach_all(documents, Settings(every=all(name not in given for name in ONLY_LABELLED)))
    (folder / "sidecar").mkdir()
    (folder / "sidecar/kustomization.yaml").write_text(component(done.changed, "sidecar inject"))
    (folder / "x.yaml").write_text(text)
    (folder / "kustomization.yaml").write_text("resources: [x.yaml]\ncomponents: [sidecar]\n")
    return keyed(
        json.loads(json.dumps(one)) for document in read(written(documents), "again") for one in document.objects
    )


@pytest.mark.long
@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_kustomize_makes_what_inject_makes_of_every_manifest(path: Path, tmp_path: Path) -> None:
    """So all that is true of inject is true here; what is not asked for is what it is without the component."""
    text = path.read_text() if path.stem not in ONLY_LABELLED else f"# {path.stem}\n{path.read_text()}"
    expected = users_folder(tmp_path, text)

    assert made(tmp_path) == expected


def changed(change: Callable[[list[Any]], object]) -> str:
    objects = [json.loads(json.dumps(one)) for document in read(ONE, "x") for one in document.objects]
    change(objects)
    return yaml.safe_dump_all(objects)


def pod(objects: list[Any]) -> Any:
    return objects[0]["spec"]["template"]["spec"]


NEIGHBOUR = {"name": "neighbour", "image": "n"}
LABELLED = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "new", "labels": {"llm-phase-sidecar/attach": "true"}},
    "spec": {"selector": {"matchLabels": {"app": "new"}}, "template": {"metadata": {"labels": {"app": "new"}}, "spec": {"containers": [NEIGHBOUR]}}},
}  # fmt: skip
AGAIN = "testing value /spec/"
REFUSED: dict[str, tuple[Callable[[list[Any]], object], str]] = {
    "a neighbour is first": (lambda them: pod(them)["containers"].insert(0, NEIGHBOUR), f"{AGAIN}template/spec/containers/0/name failed"),
    "another port": (lambda them: pod(them)["containers"][0]["args"].append("--port=9000"), f"{AGAIN}template/spec/containers/0/args failed"),
    "another command": (lambda them: pod(them)["containers"][0].update(command=["x"]), f"{AGAIN}template/spec/containers/0/command failed"),
    "other labels of the pods": (lambda them: them[0]["spec"]["template"]["metadata"]["labels"].update(app="x"), f"{AGAIN}template/metadata/labels/app failed"),
    "a grace period": (lambda them: pod(them).update(terminationGracePeriodSeconds=300), f"{AGAIN}template/spec/terminationGracePeriodSeconds failed"),
    "an own hook": (lambda them: pod(them)["containers"][0].update(lifecycle={"preStop": {}}), f"{AGAIN}template/spec/containers/0/lifecycle failed"),
    "it has a sidecar already": (lambda them: them[0]["spec"]["template"]["metadata"]["labels"].update({"llm-phase-sidecar": "attached"}), AGAIN),
    "the workload is gone": (lambda them: them.pop(0), "no matches for Id StatefulSet.v1.apps/vllm"),
    "another workload is labelled": (lambda them: them.append(LABELLED), "/spec/template/metadata/labels/llm-phase-sidecar"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_manifest_that_has_changed_since_is_refused_with_its_place_and_what_to_do(what: str, tmp_path: Path) -> None:
    """The folder of the component is in the message, and the head of its file has the command."""
    change, told = REFUSED[what]
    users_folder(tmp_path, changed(change), made_for=ONE)
    output, errors = built(tmp_path)

    assert output == ""
    assert told in errors
    assert f"{tmp_path}/sidecar" in errors


SERVICE = (MANIFESTS / "documented-triton.yaml").read_text()


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("targetPort: http, ", "targetPort: 8000, ", "testing value /spec/ports/0 failed"),
        ("  selector: {app: triton-inference-server}\n", "  selector: {app: x}\n", "testing value /spec/selector failed"),
        ("metadata:\n  name: triton-inference-server\n  labels: {app: triton-inference-server}\nspec:\n  ports", "metadata:\n  name: public\nspec:\n  ports", "no matches for Id Service.v1.[noGrp]/triton-inference-server"),
    ],
    ids=["by number", "to other pods", "it is gone"],
)  # fmt: skip
def test_a_service_that_leads_elsewhere_by_now_is_refused(was: str, now: str, told: str, tmp_path: Path) -> None:
    """It is not changed itself; but by its name its pods were given their ports, and by its number it would lead past their sidecars."""
    assert SERVICE.count(was) >= 1
    head, found, rest = SERVICE.rpartition(was)
    users_folder(tmp_path, f"{head}{now}{rest}", made_for=SERVICE)
    output, errors = built(tmp_path)

    assert (found, output, told in errors) == (was, "", True), errors


def test_what_must_not_be_applied_at_once_is_no_component(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kustomize makes all objects at once: the Service would lead to pods of before, which do not listen there."""
    (tmp_path / "x.yaml").write_text((MANIFESTS / "redis-beside.yaml").read_text())
    assert main(["inject", "--image=r/s:1", "--kustomize", "--all", str(tmp_path / "x.yaml")]) == 2
    output, errors = capsys.readouterr()

    assert output == ""
    assert f"sidecar inject --out=DIR --image=r/s:1 --all {tmp_path}/x.yaml" in " ".join(errors.split())


def test_the_image_the_resources_the_replicas_and_labels_that_select_nothing_may_change(tmp_path: Path) -> None:
    def change(objects: list[Any]) -> None:
        objects[0]["spec"]["replicas"] = 7
        objects[0]["spec"]["template"]["metadata"]["labels"]["version"] = "2"
        pod(objects)["containers"][0] |= {"image": "vllm/vllm-openai:v0.33.0", "resources": {"limits": {"cpu": 1}}}
        pod(objects)["tolerations"] = [{"operator": "Exists"}]

    expected = users_folder(tmp_path, changed(change), made_for=ONE)["StatefulSet", "vllm"]
    now = {**expected, "spec": {**expected["spec"], "replicas": 7}}
    now["spec"]["template"]["metadata"]["labels"]["version"] = "2"
    now["spec"]["template"]["spec"] |= {"tolerations": [{"operator": "Exists"}]}
    now["spec"]["template"]["spec"]["containers"][0] |= {
        "image": "vllm/vllm-openai:v0.33.0",
        "resources": {"limits": {"cpu": 1}},
    }

    assert made(tmp_path)["StatefulSet", "vllm"] == now


UNKNOWN = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: own
  labels: {llm-phase-sidecar/attach: "true"}
spec:
  selector: {matchLabels: {app: own}}
  template:
    metadata: {labels: {app: own}}
    spec:
      containers:
        - {name: proxy, image: registry.example.com/proxy, ports: [{name: metrics, containerPort: 9000}]}
        - {name: ours, image: registry.example.com/ours, ports: [{containerPort: 9100}, {name: web, containerPort: 9200}]}
---
apiVersion: v1
kind: Service
metadata: {name: own}
spec: {selector: {app: own}, ports: [{name: metrics, port: 9000}, {name: api, port: 80, targetPort: web}]}
"""
TWO_LINES = """\
  annotations:
    llm-phase-sidecar/engine-container: ours
    llm-phase-sidecar/engine-port: "9200"
"""


def test_the_container_and_the_port_of_an_engine_that_is_not_known_are_two_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without them nothing is written, and the message names both."""
    file = tmp_path / "own.yaml"
    file.write_text(UNKNOWN)
    assert main(["inject", IMAGE, "--kustomize", str(file)]) == 2
    output, errors = capsys.readouterr()
    assert (output, "engine-container" in errors) == ("", True)

    expected = users_folder(tmp_path, UNKNOWN.replace("  name: own\n", f"  name: own\n{TWO_LINES}", 1))
    found = made(tmp_path)

    assert found == expected
    spec = found["Deployment", "own"]["spec"]["template"]["spec"]
    assert "--engine.url=http://127.0.0.1:9200" in spec["initContainers"][0]["args"]
    assert spec["containers"][1]["ports"][1] == {"name": "web", "containerPort": 8900}


def test_the_patches_alone_do_it_too_as_flux_takes_them_for_a_rendered_chart(tmp_path: Path) -> None:
    """`spec.postRenderers[].kustomize.patches` of a HelmRelease is such a list."""
    expected = users_folder(tmp_path, (MANIFESTS / "helm-rendered.yaml").read_text())
    patches = yaml.safe_load((tmp_path / "sidecar/kustomization.yaml").read_text())["patches"]
    (tmp_path / "kustomization.yaml").write_text(json.dumps({"resources": ["x.yaml"], "patches": patches}))

    assert made(tmp_path) == expected


def test_the_command_prints_the_component_and_its_own_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x y.yaml").write_text(ONE)
    assert main(["inject", IMAGE, "--kustomize", "--all", str(tmp_path / "x y.yaml")]) == 0
    text = capsys.readouterr().out

    assert text.startswith(f"# Made by: sidecar inject {IMAGE} --kustomize --all '{tmp_path}/x y.yaml'\n")
    assert yaml.safe_load(text)["kind"] == "Component"


def test_texts_that_yaml_reads_otherwise_stay_what_they_are(tmp_path: Path) -> None:
    """Characters that JSON needs no escape for and YAML does, and keys that are booleans in YAML 1.1."""

    def change(objects: list[Any]) -> None:
        pod(objects)["containers"][0]["args"] += ["é 😀 \u2028 yes: #", "true", "'"]
        objects[0]["spec"]["template"]["metadata"]["labels"] |= {
            "No": "on",
            "y": "null",
            "long": "x" * 63,
            "é": "x" * 63,
        }

    expected = users_folder(tmp_path, changed(change))

    assert made(tmp_path) == expected


def test_an_object_without_a_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.yaml").write_text(
        (MANIFESTS / "job.yaml").read_text().replace("{name: batch", "{generateName: batch")
    )

    assert main(["inject", IMAGE, "--kustomize", "--all", str(tmp_path / "x.yaml")]) == 2
    assert "it has no name, and kustomize finds objects by their names" in " ".join(capsys.readouterr().err.split())


def test_where_nothing_would_change_no_component_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.yaml").write_text(ONE)

    assert main(["inject", IMAGE, "--kustomize", str(tmp_path / "x.yaml")]) == 2
    assert capsys.readouterr().out == ""
