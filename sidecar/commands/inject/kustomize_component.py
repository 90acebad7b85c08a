"""The changes of `sidecar inject` as a Kustomize component: the same objects come out, or kustomize refuses.

Kustomize cannot find the pods behind a Service, the engine among containers, or the port that it listens on. So these are found here, in the manifests that
are given, and the component names each object, each container and each value that the changes were decided from. Kustomize passes over a patch
whose target is missing, but it refuses a strategic merge patch of an object that is not there, and a JSON Patch whose `test` fails (RFC 6902,
4.6): so each object has the one and the other. A test of evanphx/json-patch, which kustomize uses, prints
nothing but its path. So what holds the value is copied to a member whose name says what to do, tested there, and taken away again.

It knows Kustomize and no pod. Seen with kustomize 5.5, inside kubectl 1.32.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sidecar.commands.inject.attaching import ASKED
from sidecar.commands.inject.edited_object import UNDO, Edited
from sidecar.commands.inject.manifest_text import Object
from sidecar.commands.inject.pod_with_sidecar import ATTACHED, IS_ATTACHED
from sidecar.commands.inject.ways_to_pods import is_service
from sidecar.commands.inject.workload_kinds import POD_KINDS, group_of


_HEAD = """\
# Made by: {command}
# It is for the manifests that were given to it. If kustomize fails here, they have changed since ("testing value"), or one of them is gone
# ("no matches for Id"): run the command again. Run it again as well when you add a workload behind one of these Services.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
patches:
"""
_CHANGED_SINCE = "run `sidecar inject --kustomize` again, this has changed: {place}"
_ONE_LINE = 150
"""Columns below which a value stands on one line, as JSON, which YAML reads too."""
_PLAIN_KEY = re.compile(r"(?!(?i:y|n|yes|no|on|off|true|false|null)$)[A-Za-z]\w*")
"""YAML 1.1 and 1.2 read such a key as text."""


def component(changed: Sequence[Edited], command: str) -> str:
    """The text of its kustomization.yaml. `command`: the one that made it, for its head."""
    patches = [text for edited in changed for text in (_is_there(edited.one), _steps(edited))]
    return _HEAD.format(command=command.replace("\n", " ")) + "".join([*patches, *_labelled_have_a_sidecar()])


def _is_there(one: Object) -> str:
    """A patch with the annotation alone, if the object has it: kustomize fails where it finds no such object, and keeps other annotations."""
    metadata = {key: one["metadata"][key] for key in ("name", "namespace") if key in one["metadata"]}
    if undo := (one["metadata"].get("annotations") or {}).get(UNDO):
        metadata["annotations"] = {UNDO: undo}
    named = {"apiVersion": one.get("apiVersion", "v1"), "kind": one["kind"], "metadata": metadata}
    return f"  - patch: |-\n      {_json(named)}\n"


def _steps(edited: Edited) -> str:
    one = edited.one
    group, metadata = group_of(one), one["metadata"]
    wanted = {
        "group": group,
        "version": str(one.get("apiVersion", "v1")).rpartition("/")[2],
        "kind": one["kind"],
        "name": metadata["name"],
        "namespace": metadata.get("namespace", ""),
    }
    # Each is a regular expression for the whole of it.
    target = {key: str(value).replace(".", r"\.") for key, value in wanted.items() if value}
    return _patch(target, [step for each in _needed(edited.forward) for step in _told(each)])


_OF_THE_ANNOTATION = ("/metadata/annotations", f"/metadata/annotations/{UNDO.replace('/', '~1')}")


def _needed(steps: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Without the annotation, which the other patch has, and without tests below a place that was tested whole."""
    tested: list[str] = []
    for step in steps:
        path, is_test = step["path"], step["op"] == "test"
        if path in _OF_THE_ANNOTATION or (is_test and any(f"{path}/".startswith(each) for each in tested)):
            continue
        tested += [f"{path}/"] if is_test else []
        yield step


def _told(step: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The step; a test as three, of a copy whose name says what to do when it fails."""
    if step["op"] != "test":
        yield step
        return
    parent, _, last = step["path"].rpartition("/")
    place = parent.strip("/").replace("/", ".").replace("~1", "/")
    copied = "/" + _CHANGED_SINCE.format(place=place).replace("~", "~0").replace("/", "~1")
    yield {"op": "copy", "from": parent, "path": copied}
    yield {"op": "test", "path": f"{copied}/{last}", "value": step["value"]}
    yield {"op": "remove", "path": copied}


def _labelled_have_a_sidecar() -> Iterator[str]:
    """A workload that was labelled after the command ran fails the build, and is not left out in silence."""
    step = {"op": "test", "path": f"/spec/template/metadata/labels/{ATTACHED}", "value": IS_ATTACHED}
    kinds = [
        each.kind for each in POD_KINDS if each.template == ("spec", "template") and not is_service({"kind": each.kind})
    ]
    yield _patch({"kind": "|".join(dict.fromkeys(kinds)), "labelSelector": f"{ASKED}=true"}, [step])


def _patch(target: Mapping[str, str], steps: Sequence[Mapping[str, Any]]) -> str:
    lines = "".join(f"      {line}\n" for line in _block(list(steps)))
    return f"  - target: {_json(target)}\n    patch: |-\n{lines}"


_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
"""Characters that JSON takes as they are, and YAML escaped alone or as ends of lines (YAML 1.2.2, 5.1 and 5.4)."""


def _json(value: Any) -> str:
    """JSON that YAML reads as the same: escapes of half a character, which JSON has for those beyond 16 bits, are none in YAML."""
    text = json.dumps(value, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _block(value: Any) -> list[str]:
    """A map or a list as lines of YAML, with JSON for what is short: its quotes leave no text that YAML 1.1 or 1.2 reads as something else."""
    lines = []
    for key, each in value.items() if isinstance(value, dict) else ((None, each) for each in value):
        text = _json(each)
        below = [text] if len(text) < _ONE_LINE or not isinstance(each, dict | list) else _block(each)
        if key is None:
            lines += [f"- {below[0]}", *(f"  {line}" for line in below[1:])]
        else:
            name = key if _PLAIN_KEY.fullmatch(key) else _json(key)
            lines += [f"{name}: {text}"] if below == [text] else [f"{name}:", *(f"  {line}" for line in below)]
    return lines
