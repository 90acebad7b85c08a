"""Changes that must not be applied at once, as folders in their order: for kubectl a script, for Argo CD waves, for Flux objects that wait.

A Service or an InferencePool that is turned to a port of its own leads to nothing in pods without a sidecar. So it is turned when all pods have theirs, and
turned back before the first of them loses it; what a NetworkPolicy lets in stays until the last one has. Between two folders all pods are waited
for. Argo CD applies one wave when the one before is healthy (its user guide, Sync Phases and Waves), Flux a Kustomization when those that it depends
on are ready, which `wait` makes the health of all their objects (kustomize.toolkit.fluxcd.io/v1). This module makes texts, and asks no cluster.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from shlex import quote

from sidecar.commands.inject.attaching import Pods, attached_pods, ports_of
from sidecar.commands.inject.edited_object import UNDO, Edited
from sidecar.commands.inject.manifest_text import Document, Object, of_some
from sidecar.commands.inject.pod_with_sidecar import ATTACHED, IS_ATTACHED, TRAFFIC
from sidecar.commands.inject.ways_to_pods import (
    called,
    is_policy,
    namespace_of,
    routes_to,
    same_place,
    selector_of,
    selects,
)
from sidecar.commands.inject.workload_kinds import Led
from sidecar.config.folding import printable


WAVE = "argocd.argoproj.io/sync-wave"
MADE = "# Made by: "


@dataclass(frozen=True, slots=True)
class Step:
    """One folder. `waits`: commands that end when the next one may be applied. `untold`: the pods of which Argo CD and Flux cannot tell that."""

    name: str
    objects: Sequence[Object]
    waits: Sequence[str] = ()
    untold: Sequence[str] = ()


def forward(objects: Sequence[Object], later: Sequence[Object]) -> list[Step]:
    """The pods, and then what leads to them."""
    now = [one for one in objects if not _among(one, later)]
    if not later:
        return [Step("1-pods", now)]
    behind = {id(pods.one): pods for one in later for pods in attached_pods(objects) if _leads_to(one, pods)}.values()
    waits = [*(line for pods in behind for line in _status(pods)), *(line for one in later for line in _replaced(one))]
    untold = [called(pods.one) for pods in behind if not _is_told(pods)]
    return _waved([Step("1-pods", now, waits, untold), Step("2-traffic", later)], is_undone=True)


def back(objects: Sequence[Object], first: Sequence[Object], behind: Sequence[Pods]) -> list[Step]:
    """The Services, then the pods, then their policies. `behind`: the pods that lose their sidecar."""
    policies = [one for one in objects if is_policy(one)] if first else []
    pods = [one for one in objects if not _among(one, [*first, *policies])]
    if not first:
        return [Step("1-pods", pods)]
    waits = [line for each in behind for line in _status(each)]
    steps = [Step("1-traffic", first), Step("2-pods", pods, waits if policies else ())]
    return _waved([*steps, Step("3-policies", policies)] if policies else steps, is_undone=False)


def led_first(objects: Sequence[Object], *, no_service: bool) -> tuple[list[Object], list[str]]:
    """The objects that must lead to the engines again before these pods lose their sidecars, and those that cannot be led there, a sentence each."""
    first: list[Object] = []
    cannot: list[str] = []
    for pods in attached_pods(objects):
        engine, listens = ports_of(pods) or (0, 0)
        if not _is_signed(pods.one):
            continue
        routes, past = (
            list(routes_to(dict(pods.labels), namespace_of(pods.one), pods.spec, port, objects))
            for port in (listens, engine)
        )
        if listens != TRAFFIC:  # the engine listens on the sidecar's port again
            cannot += [
                f"{called(each.one)} leads to port {engine}, past the sidecar, and the engine goes back to {listens}: let it lead there before"
                for each in past
                if each.by_number
            ]
            continue
        first += [
            each.one for each in routes if each.by_number and _is_signed(each.one) and not _among(each.one, first)
        ]
        cannot += [
            f"{called(each.one)} leads to port {listens}, and `sidecar inject` did not write that: let it lead to port {engine} before"
            for each in routes
            if each.by_number and not _is_signed(each.one)
        ]
        if not routes and not past and not no_service and pods.kind.led is Led.BY_SERVICES:
            cannot.append(
                f"what leads to port {listens} of {called(pods.one)} is not in these manifests: give it too, or let it lead to port {engine}"
                " and say --no-service then"
            )
    return first, cannot


def texts(documents: Sequence[Document], steps: Sequence[Step], out: str, command: str) -> dict[str, str]:
    """The files below the folder `out`, by their names. `command`: the one that makes them."""
    head = f"{MADE}{printable(command).replace(chr(10), ' ')}\n"
    label = re.sub(r"[^a-z0-9]+", "-", PurePath(out).name.lower()).strip("-") or "attached"
    script = [_SCRIPT.format(head=head)]
    found, flux, before = {}, head + _FLUX, ""
    for step in steps:
        file = f"{step.name}/manifests.yaml"
        found[file] = head + "".join(f"---\n{text}" for text in _texts_of(documents, step.objects))
        script += [f'kubectl apply "$@" -f {file}', *step.waits]
        flux += _FLUX_STEP.format(label=label, step=step.name, path=out.strip("/"), before=before)
        before = f"  dependsOn: [{{name: {label}-{step.name}}}]\n"
    if not any(step.untold for step in steps):
        found["kustomization.yaml"] = head + _KUSTOMIZATION.format(listed=", ".join(found))
        found["flux.yaml"] = flux
    found["apply.sh"] = "".join(f"{line}\n" for line in script)
    return found


_KUSTOMIZATION = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [{listed}]\n"
_SCRIPT = """\
#!/bin/sh
{head}# kubectl: sh apply.sh, with -n NAMESPACE or --context behind it. Argo CD: an Application with this folder; its waves keep the order.
# Flux: flux.yaml. Each way ends a step when all its pods are ready.
set -eu
cd "$(dirname "$0")\""""
_FLUX = """\
# Write the path, the source and the namespace as they are in your repository. What applied these objects before must have `prune: false` until the
# last of these is ready, or it deletes what moves to another of them.
"""
_FLUX_STEP = """\
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {{name: {label}-{step}, namespace: flux-system}}
spec:
  path: ./{path}/{step}
  sourceRef: {{kind: GitRepository, name: flux-system}}
  interval: 10m
  prune: false
  wait: true
  timeout: 1h
{before}"""


def _texts_of(documents: Sequence[Document], objects: Sequence[Object]) -> Iterator[str]:
    for document in documents:
        chosen = [one for one in document.objects if _among(one, objects)]
        if chosen:
            text = document.written() if len(chosen) == len(document.objects) else of_some(document, chosen)
            yield text if text.endswith("\n") else f"{text}\n"


def _waved(steps: list[Step], *, is_undone: bool) -> list[Step]:
    """The steps as waves of Argo CD: the pods keep theirs, or none. `is_undone`: `sidecar uninject` takes the others away again."""
    at = next(at for at, step in enumerate(steps) if step.name.endswith("-pods"))
    waves = [_wave(one) for one in steps[at].objects]
    for place, step in enumerate(steps):
        for one in step.objects if place != at else ():
            edited = Edited(one)
            edited.set(
                ("metadata", "annotations", WAVE), str((max if place > at else min)(waves, default=0) + place - at)
            )
            if is_undone:
                edited.sign()
    return steps


def _wave(one: Object) -> int:
    stated = str(((one.get("metadata") or {}).get("annotations") or {}).get(WAVE, "0"))
    return int(stated) if re.fullmatch(r"-?\d+", stated) else 0


def _leads_to(one: Object, pods: Pods) -> bool:
    return same_place(one, pods.one) and selects(selector_of(one), pods.labels)


def _replaced(one: Object) -> Iterator[str]:
    """A command that ends when no pod without a sidecar is behind this object, if a rollout or a person makes them anew, and all are ready."""
    chosen: Mapping[str, object] = selector_of(one)  # type: ignore[assignment]  # it selects
    labels = ",".join(f"{key}={value}" for key, value in chosen.items())
    runs = f"{_place(one)} --field-selector=status.phase!=Failed,status.phase!=Succeeded"
    without = f"kubectl get pods {runs} -o name -l {quote(f'{labels},{ATTACHED}!={IS_ATTACHED}')}"
    ready = f"kubectl wait {runs} --for=condition=Ready --timeout=60s pod -l {quote(labels)}"
    yield f'until without="$({without})" && test -z "$without" && {ready}; do sleep 5; done'


def _is_told(pods: Pods) -> bool:
    """Whether the state of the workload says when all its pods are new: not of a kind, or by a strategy, that leaves pods of before to others."""
    strategy = (pods.one.get("spec") or {}).get("updateStrategy") or {}
    partition = (strategy.get("rollingUpdate") or {}).get("partition")
    return bool(pods.kind.status) and strategy.get("type") != "OnDelete" and not partition


def _status(pods: Pods) -> Iterator[str]:
    if _is_told(pods):
        yield f"kubectl {pods.kind.status.format(name=quote(str(pods.one['metadata']['name'])))} {_place(pods.one)}"


def _place(one: Object) -> str:
    return f"-n {quote(namespace_of(one))}" if namespace_of(one) else '"$@"'


def _is_signed(one: Object) -> bool:
    return UNDO in ((one.get("metadata") or {}).get("annotations") or {})


def _among(one: Object, objects: Sequence[Object]) -> bool:
    return any(one is each for each in objects)
