"""The changes of `sidecar inject` as a Kustomize component: the same objects come out, or kustomize refuses.

Kustomize cannot find the pods behind a Service, the engine among containers, or the port that it listens on. So these are found here, in the manifests that
are given, and the component names each object, each container and each value that the changes were decided from. Kustomize passes over a patch
whose target is missing, but it refuses a strategic merge patch of an object that is not there, and a JSON Patch whose `test` fails (RFC 6902,
4.6): so each object has the one and the other. A test of evanphx/json-patch, which kustomize uses, prints its path alone, so the head of the file
says what to do then.

It knows Kustomize and no pod. Seen with kustomize 5.5, inside kubectl 1.32.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sidecar.commands.inject.attaching import ASKED
from sidecar.commands.inject.edited_object import UNDO, Change, Edited, pointer
from sidecar.commands.inject.pod_with_sidecar import ATTACHED, IS_ATTACHED
from sidecar.commands.inject.ways_to_pods import is_service
from sidecar.commands.inject.workload_kinds import POD_KINDS, Path, group_of


_HEAD = """\
# Made by: {command}
# It is for the manifests that were given to it. If kustomize fails here, they have changed since ("testing value"), or one of them is gone
# ("no matches for Id"): run the command again. Run it again as well when you add a workload behind one of these Services.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
patches:
"""
_ONE_LINE = 150
"""Columns below which a step stands on one line."""


def component(changed: Sequence[Edited], command: str) -> str:
    """The text of its kustomization.yaml. `command`: the one that made it, for its head."""
    patches = [*(text for edited in changed for text in _both(edited)), _labelled_have_a_sidecar()]
    return _HEAD.format(command=command.replace("\n", " ")) + "".join(patches)


def _both(edited: Edited) -> Iterator[str]:
    """The annotation alone, if the object has it: kustomize fails where it finds no such object, and keeps other annotations. Then the steps."""
    one, metadata = edited.one, edited.one["metadata"]
    version = str(one.get("apiVersion", "v1"))
    named = {key: metadata[key] for key in ("name", "namespace") if metadata.get(key)}
    undo = (metadata.get("annotations") or {}).get(UNDO)
    there = {**named, "annotations": {UNDO: undo}} if undo else named
    yield f"  - patch: |-\n      {_json({'apiVersion': version, 'kind': one['kind'], 'metadata': there})}\n"
    target = {"group": group_of(one), "version": version.rpartition("/")[2], "kind": one["kind"], **named}
    # Each is a regular expression for the whole of it.
    yield _patch({key: str(each).replace(".", r"\.") for key, each in target.items() if each}, _of(edited.changes))


_OF_THE_ANNOTATION = (("metadata", "annotations"), ("metadata", "annotations", UNDO))


def _of(changes: Sequence[Change]) -> Iterator[Mapping[str, Any]]:
    """The changes but that of the annotation, which the other patch has; each behind a test of what was there, unless that was tested whole.

    A test of null holds where nothing is.
    """
    tested: list[Path] = []
    for path, was, now in changes:
        if path in _OF_THE_ANNOTATION:
            continue
        if was is None and now is not None and isinstance(path[-1], int):
            yield {"op": "add", "path": f"{pointer(path[:-1])}/-", "value": now}
            continue
        if not any(path[: len(each)] == each for each in tested):
            tested.append(path)
            yield {"op": "test", "path": pointer(path), "value": was}
        if was is not None and now is None:
            yield {"op": "remove", "path": pointer(path)}
        elif was != now:
            yield {"op": "add" if was is None else "replace", "path": pointer(path), "value": now}


def _labelled_have_a_sidecar() -> str:
    """A workload that was labelled after the command ran fails the build, and is not left out in silence."""
    step = {"op": "test", "path": f"/spec/template/metadata/labels/{ATTACHED}", "value": IS_ATTACHED}
    kinds = [
        each.kind for each in POD_KINDS if each.template == ("spec", "template") and not is_service({"kind": each.kind})
    ]
    return _patch({"kind": "|".join(dict.fromkeys(kinds)), "labelSelector": f"{ASKED}=true"}, [step])


def _patch(target: Mapping[str, str], steps: Iterable[Mapping[str, Any]]) -> str:
    short = ((each, _json(each)) for each in steps)
    text = ",\n".join(text if len(text) < _ONE_LINE else _json(each, indent=1) for each, text in short)
    lines = "".join(f"      {line}\n" for line in f"[{text}]".splitlines())
    return f"  - target: {_json(target)}\n    patch: |-\n{lines}"


_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
"""Characters that JSON takes as they are, and YAML escaped alone or as ends of lines (YAML 1.2.2, 5.1 and 5.4)."""


def _json(value: Any, indent: int | None = None) -> str:
    """JSON that YAML reads as the same: escapes of half a character, which JSON has for those beyond 16 bits, are none in YAML."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
