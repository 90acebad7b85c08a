"""A table of rollouts: at each instant, forwards and back, every pod that is ready is reached, and through its sidecar where it has one.

Each manifest goes through the command, and its folders through a model of Kubernetes (`tests/support/rollouts.py`). In the same change of the
template without us each ready pod is reached; so as many endpoints are ready as then, if each of them is reached here.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.cli import main
from tests.support.kustomize import MANIFESTS
from tests.support.rollouts import Objects, Template, applied, engines_port, instants, reached, routes, templates


EVERY = sorted(MANIFESTS.glob("*.yaml"))
BEFORE = sorted((Path(__file__).parent / "attached_before").glob("*.yaml"))
"""The output of the tree 7628e029 of 1 December 2026 of the manifests with the same names: with turned Services, and names that went along."""
ONLY_LABELLED = ("canary-beside",)
IN_STEPS = ("redis-beside",)
"""TGI listens on port 80, where the sidecar may not."""


def objects_of(text: str) -> list[Any]:
    found: list[Any] = []
    for one in yaml.safe_load_all(text):
        if one:
            found += one["items"] if one["kind"] == "List" else [one]
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def played(command: str, text: str, folder: Path, *flags: str) -> list[Objects]:
    """The objects of each folder that the command writes, in the order of the folders' names."""
    folder.mkdir()
    (folder / "given.yaml").write_text(text)
    assert main([command, *flags, f"--out={folder / 'out'}", str(folder / "given.yaml")]) == 0
    return [objects_of(path.read_text()) for path in sorted((folder / "out").glob("*/manifests.yaml"))]


def injected(path: Path, folder: Path, text: str = "") -> list[Objects]:
    every = [] if path.stem in ONLY_LABELLED else ["--all"]
    return played("inject", text or path.read_text(), folder, *every, "--image=r.example.com/s:1")


def text_of(objects: Objects) -> str:
    return yaml.safe_dump_all(objects)


def lost(cluster: Objects, steps: Sequence[Objects], wanted: tuple[str, ...], *, leads_first: bool = False) -> set[str]:
    """The pods that are not reached at some instant of these steps although it was before, or not as is wanted."""
    found = set()
    led = {key for each in templates(cluster) for key, who in reached(cluster, each).items() if who}
    for step in steps:
        for instant in instants(cluster, step, leads_first=leads_first):
            for pod in instant.ready:
                asked = reached(instant.leads, pod)
                needs = wanted if pod.sidecar is not None else ("engine",)
                found |= {
                    f"{pod.name}: {key} reaches {asked[key]}" for key in led & asked.keys() if asked[key] not in needs
                }
        cluster = applied(cluster, step)
    return found


THROUGH = ("sidecar",)
IN_ANY_WAY = ("sidecar", "engine")


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_going_in_loses_no_pod_and_goes_back_by_the_same_way(path: Path, tmp_path: Path) -> None:
    """Back: the files of before, folder by folder in the other order; and where one step was enough, `kubectl rollout undo`, which is the pods alone."""
    before = objects_of(path.read_text())
    steps = injected(path, tmp_path / "in")
    through = IN_ANY_WAY if len(steps) > 1 else THROUGH
    after: Objects = before
    for step in steps:
        after = applied(after, step)
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in before}
    same_way = [[by_name[one["kind"], one["metadata"]["name"]] for one in step] for step in reversed(steps)]

    assert len(steps) == (2 if path.stem in IN_STEPS else 1)
    assert lost(before, steps, through) == set()
    assert lost(after, same_way, through) == set()
    assert [
        who for each in templates(after) if each.sidecar for who in reached(after, each).values() if who == "engine"
    ] == []


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_going_out_loses_no_pod_and_leaves_what_was_there(path: Path, tmp_path: Path) -> None:
    before = objects_of(path.read_text())
    after: Objects = before
    for step in injected(path, tmp_path / "in"):
        after = applied(after, step)
    steps = played("uninject", text_of(after), tmp_path / "out")
    there: Objects = after
    for step in steps:
        there = applied(there, step)

    assert lost(after, steps, IN_ANY_WAY) == set()
    assert [without_wave(one) for one in there] == before


def without_wave(one: Any) -> Any:
    """Argo CD's wave of the way back is the one thing that stays, in the folder."""
    annotations = one["metadata"].get("annotations", {})
    if annotations.pop("argocd.argoproj.io/sync-wave", None) and not annotations:
        del one["metadata"]["annotations"]
    return one


@pytest.mark.parametrize("path", BEFORE, ids=lambda path: path.stem)
def test_what_an_earlier_tree_attached_is_taken_back_in_a_safe_order(path: Path, tmp_path: Path) -> None:
    after = objects_of(path.read_text())
    steps = played("uninject", path.read_text(), tmp_path / "out")
    there: Objects = after
    for step in steps:
        there = applied(there, step)

    turned = [asked for _, asked in routes(after).values() if 8900 in asked]
    assert len(steps) > 1 or not turned
    assert lost(after, steps, IN_ANY_WAY) == set()
    assert [without_wave(one) for one in there] == objects_of((MANIFESTS / path.name).read_text())


@pytest.mark.parametrize("path", BEFORE, ids=lambda path: path.stem)
def test_a_pipeline_that_injects_anew_what_an_earlier_tree_attached_loses_no_pod(path: Path, tmp_path: Path) -> None:
    """The cluster is as that tree left it; the pipeline has the user's own files. Pods of then may be asked past their sidecar for as long as they live."""
    steps = injected(MANIFESTS / path.name, tmp_path / "in")
    cluster = objects_of(path.read_text())

    assert lost(cluster, steps, IN_ANY_WAY, leads_first=True) == set()


@pytest.mark.parametrize("path", BEFORE, ids=lambda path: path.stem)
def test_what_an_earlier_tree_attached_stays_as_it_is_when_it_is_given_again(path: Path, tmp_path: Path) -> None:
    (step,) = injected(MANIFESTS / path.name, tmp_path / "in", path.read_text())

    assert step == objects_of(path.read_text())


PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def asked_by_probes(pod: Template) -> list[tuple[str, object]]:
    """The ports that the engine's own probes ask: kubelet reads a name in the container itself."""
    names = {port.get("name"): port["containerPort"] for port in pod.engine.get("ports") or ()}
    asked = [
        (probe, handler.get(way, {}).get("port"))
        for probe in PROBES
        for handler in [pod.engine.get(probe) or {}]
        for way in ("httpGet", "tcpSocket", "grpc")
        if way in handler
    ]
    return [(probe, names.get(port, port)) for probe, port in asked]


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_the_engines_own_probes_ask_the_engine_and_never_the_proxy(path: Path, tmp_path: Path) -> None:
    for step in injected(path, tmp_path / "in"):
        for pod in templates(step):
            if pod.sidecar is not None:
                assert {port for _, port in asked_by_probes(pod)} <= {engines_port(pod.engine)}
