"""The cost of attaching to its user, counted over all manifests, for `inject`, for Kustomize and for `bypass`; `pytest -s` prints the table.

Lines that he writes: one command, the label of each workload, and for Kustomize `components: [sidecar]` in the kustomization that lists his
manifest. test_kustomize_component.py holds that Kustomize's objects are those of inject, so both have the same counts of objects and pods.
"""

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from sidecar.commands.inject.attaching import ASKED, Settings, attach_all, workloads_of
from sidecar.commands.inject.bypassing import commands
from sidecar.commands.inject.engine_in_pod import engine_of
from sidecar.commands.inject.manifest_text import Document, read, written
from sidecar.commands.inject.workload_kinds import containers_in
from tests.support.kustomize import MANIFESTS


@dataclass(frozen=True)
class Counts:
    """One manifest, one way."""

    way: str
    manifest: str
    lines: int
    not_named: int
    """Objects that changed, that he did not label and that neither lead to a labelled workload's pods nor guard them."""
    pods: int
    """Workloads without the label whose pods are made anew."""


def labelled(path: Path) -> list[Document]:
    """As its user leaves it: the label on each workload with an engine, unless he has labelled one himself."""
    documents = read(path.read_text(), path.name)
    objects = [one for document in documents for one in document.objects]
    engines = [
        pods.one
        for pods in workloads_of(objects, Settings())
        if any(engine_of(each) for _, each in containers_in(pods.spec))
    ]
    if not any(ASKED in (one["metadata"].get("labels") or {}) for one in engines):
        for one in engines:
            one["metadata"].setdefault("labels", {})[ASKED] = "true"
    return documents


def flat(documents: list[Document]) -> list[Any]:
    return [json.loads(json.dumps(one)) for document in documents for one in document.objects]


def is_named(one: Any) -> bool:
    return (one["metadata"].get("labels") or {}).get(ASKED) == "true"


def concerns(one: Any, pods: list[dict[str, object]]) -> bool:
    """Whether it selects some of these pods, by the selector that a Service, a pool or a policy has."""
    spec: dict[str, Any] = one.get("spec", {})
    selector: dict[str, Any] = spec.get("podSelector", spec.get("selector", {}))
    chosen = selector.get("matchLabels", selector)
    return bool(chosen) and any(chosen.items() <= labels.items() for labels in pods)


def counted(path: Path) -> list[Counts]:
    documents = labelled(path)
    before = flat(documents)
    labels = sum(is_named(one) for one in before)
    pods = [dict(each.labels) for each in workloads_of(before, Settings()) if is_named(each.one)]
    done = attach_all(documents, Settings())
    assert (done.refused, done.workloads) == ([], labels)
    after = flat(read(written(documents), "again"))
    changed = [was for was, now in zip(before, after, strict=True) if was != now]
    strangers = [one for one in changed if not is_named(one)]
    restarted = len([*workloads_of(strangers, Settings())])
    not_named = sum(not concerns(one, pods) for one in strangers)
    told, _ = commands(read(written(documents), "again"), back=False)
    patched = [object_of(line, after) for line in told]
    past = [one for one in patched if not concerns(one, pods)]
    makes_pods = len([*workloads_of(patched, Settings())])
    return [
        Counts("inject", path.stem, 1 + labels, not_named, restarted),
        Counts("kustomize", path.stem, 2 + labels, not_named, restarted),
        Counts("bypass", path.stem, 1, len(past), makes_pods),
    ]


def object_of(command: str, objects: list[Any]) -> Any:
    """The object that `kubectl patch KIND NAME ...` changes."""
    kubectl, patch, kind, name, *_ = shlex.split(command)
    assert (kubectl, patch) == ("kubectl", "patch")
    (found,) = [
        one
        for one in objects
        if (one["kind"].lower(), one["metadata"]["name"]) == (kind.partition(".")[0], name)
        and one["apiVersion"].partition("/")[0] in ("v1", kind.partition(".")[2])
    ]
    return found


@pytest.mark.long
def test_a_user_writes_few_lines_and_nothing_else_changes() -> None:
    every = [each for path in sorted(MANIFESTS.glob("*.yaml")) for each in counted(path)]
    sys.stdout.writelines(
        f"{each.way:9} {each.manifest:22} {each.lines} {each.not_named} {each.pods}\n" for each in every
    )
    lines = {way: [each.lines for each in every if each.way == way] for way in ("inject", "kustomize", "bypass")}

    assert min(len(each) for each in lines.values()) >= 14
    assert {way: median(each) for way, each in lines.items()} == {"inject": 2, "kustomize": 3, "bypass": 1}
    assert max(max(each) for each in lines.values()) <= 8
    assert [each for each in every if each.not_named or each.pods] == []
