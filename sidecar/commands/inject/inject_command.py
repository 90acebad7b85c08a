"""`sidecar inject`, `sidecar uninject` and `sidecar bypass`: manifests in; manifests, a component or commands out, and what was done on the error output.

Exit codes: 0 written; 1 a file cannot be read; 2 a wrong flag, no manifest, or something is refused. Nothing is written then: in a
pipe to kubectl half of the manifests would be worse than none. This module knows flags, streams and texts.
"""

import argparse
import difflib
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path as File
from typing import Any

from sidecar import __version__
from sidecar.commands.inject import bypassing, steps_in_order
from sidecar.commands.inject.attaching import Settings, attach_all, attached_pods
from sidecar.commands.inject.edited_object import ChangedSinceError, undone
from sidecar.commands.inject.fitted_container import is_range
from sidecar.commands.inject.inject_flags import bypass_parser, inject_parser, uninject_parser
from sidecar.commands.inject.kustomize_component import component
from sidecar.commands.inject.manifest_shapes import odd_shapes
from sidecar.commands.inject.manifest_text import Document, ManifestError, read, written
from sidecar.commands.inject.pod_with_sidecar import PodSettings
from sidecar.commands.inject.ways_to_pods import called
from sidecar.commands.inject.workload_kinds import Path
from sidecar.config.folding import FAILED, MISUSED, OK, errors_text, printable


_STANDARD_INPUT = "-"
_EQUALITIES = re.compile(r"[^=,\s]+=[^=,\s]*(?:,[^=,\s]+=[^=,\s]*)*")
_IMAGE = re.compile(r"[a-z0-9][\w.:/@-]{0,255}")
_NO_IMAGE = (
    "--image is required, and missing: no registry has the sidecar's image yet. Build one of your own from the Dockerfile of its"
    f" repository (docker build -t REGISTRY/llm-phase-sidecar:{__version__} .), push it, and name it here (docs/inject.md)"
)
_SPEC_PATH = re.compile(r"(\w+)=([\w-]+(?:\.[\w-]+)*)")
_RANGE = "REQUEST or REQUEST:LIMIT is meant, in quantities of Kubernetes and no limit below its request, such as"
_FLAGS_MEANT: tuple[tuple[str, Callable[[Any], object], str], ...] = (
    ("selector", _EQUALITIES.fullmatch, "NAME=VALUE is meant, with commas between"),
    ("pod-spec-path", _SPEC_PATH.fullmatch, "KIND=PATH is meant, such as ModelServer=spec.template.spec"),
    ("engine-port", range(1, 65_536).__contains__, "1 to 65535 are allowed"),
    ("image", _IMAGE.fullmatch, "registry/name:tag or registry/name@sha256:digest is meant"),
    ("cpu", is_range, f"{_RANGE} 500m or 1:2"),
    ("memory", is_range, f"{_RANGE} 1Gi or 128Mi:2Gi"),
    ("scraper", re.compile(r"[^=,\s]+=[^=,\s]+").fullmatch, "NAME=VALUE is meant"),
    ("mesh-port", range(1, 65_536).__contains__, "1 to 65535 are allowed"),
)
"""Flags with what each of their values must be."""


def inject(argv: Sequence[str]) -> int:
    """Run `sidecar inject`. Raises for nothing that a user can type."""
    name = "sidecar inject"
    known = _known(inject_parser(), argv)
    if isinstance(known, int):
        return known
    if wrong := _wrong_flags(known):
        return _refused(name, wrong)
    given = _read(name, known.files)
    if isinstance(given, int):
        return given
    done = attach_all(given, _settings(known))
    if done.refused:
        return _refused(name, done.refused)
    if done.later and not (known.out or known.diff):
        return _refused(name, [*done.in_steps, *_two_steps(name, argv)])
    sys.stderr.write(errors_text(f"{name}: {line}" for line in done.lines or [_NOTHING_ASKED]))
    objects = [one for document in given for one in document.objects]
    if known.out:
        steps = steps_in_order.forward(objects, done.later)
        untold = [_ONLY_BY_SCRIPT.format(called=each) for step in steps for each in step.untold]
        sys.stderr.write(errors_text(f"{name}: {line}" for line in [*_NOT_UNDONE, *untold] if done.later))
        texts = steps_in_order.texts(given, steps, known.out, shlex.join(["sidecar", "inject", *argv]))
        return _write_folder(name, known.out, texts)
    if known.kustomize:
        without_name = [called(each.one) for each in done.changed if "name" not in each.one["metadata"]]
        if without_name or not done.changed:
            told = [f"{each}: it has no name, and kustomize finds objects by their names" for each in without_name]
            return _refused(name, told or ["nothing would change, and a component needs a patch"])
        sys.stdout.write(component(done.changed, printable(shlex.join(["sidecar", "inject", *argv]))))
        return OK
    return _write(given, diff=known.diff)


_NOT_UNDONE = (
    "these are steps, and `kubectl rollout undo` alone is not safe here: pods of before do not listen where traffic is led then",
    "the way back is `sidecar uninject --out=OTHER DIR/*/manifests.yaml`, and its steps",
)
_ONLY_BY_SCRIPT = "neither Argo CD nor Flux can tell when all pods of {called} are new, so DIR/apply.sh alone is written: it waits for them"


def _two_steps(name: str, argv: Sequence[str]) -> list[str]:
    """The commands to type instead, where the changes may not be applied at once."""
    words = [each for each in argv if each not in ("--kustomize", "--diff")]
    return [
        "applied at once it would lead to a port on which pods without a sidecar do not listen; so go in steps:",
        shlex.join([*name.split(), "--out=DIR", *words]),
        "sh DIR/apply.sh, which is kubectl apply -f of each folder of DIR in its order, and a wait for its pods between them",
    ]


_NOTHING_ASKED = 'no workload asks for a sidecar: label it llm-phase-sidecar/attach: "true", or say --all or --selector'


def uninject(argv: Sequence[str]) -> int:
    """Run `sidecar uninject`."""
    name = "sidecar uninject"
    known = _known(uninject_parser(), argv)
    if isinstance(known, int):
        return known
    given = _read(name, known.files)
    if isinstance(given, int):
        return given
    objects = [one for document in given for one in document.objects]
    behind = list(attached_pods(objects))
    first, refused = steps_in_order.led_first(objects, no_service=known.no_service)
    lines = []
    for document in given:
        for one in document.objects:
            try:
                if undone(one):
                    document.changed = True
                    lines.append(f"{called(one)} is as it was")
            except ChangedSinceError as error:
                refused.append(f"{called(one)}: {error}")
    if first and not (refused or known.out or known.diff):
        refused = [f"{called(one)} leads to the sidecars until it is turned back" for one in first] + _two_steps(
            name, argv
        )
    if refused:
        return _refused(name, refused)
    sys.stderr.write(errors_text(f"{name}: {line}" for line in lines or ["nothing here was injected"]))
    if known.out:
        made = steps_in_order.texts(
            given, steps_in_order.back(objects, first, behind), known.out, shlex.join(["sidecar", "uninject", *argv])
        )
        return _write_folder(name, known.out, made)
    return _write(given, diff=known.diff)


def bypass(argv: Sequence[str]) -> int:
    """Run `sidecar bypass`."""
    name = "sidecar bypass"
    known = _known(bypass_parser(), argv)
    if isinstance(known, int):
        return known
    given = _read(name, known.files)
    if isinstance(given, int):
        return given
    if odd := odd_shapes([one for document in given for one in document.objects], {}):
        return _refused(name, odd)
    told, cannot = bypassing.commands(given, back=known.back)
    if not told and not cannot:
        return _refused(
            name, ["no workload of these manifests has a sidecar: give it what `sidecar inject` has written"]
        )
    sys.stderr.write(errors_text(f"{name}: {line}" for line in cannot))
    sys.stdout.write("".join(f"{printable(line)}\n" for line in told))
    return OK if told else MISUSED


COMMANDS: Mapping[str, Callable[[Sequence[str]], int]] = {"inject": inject, "uninject": uninject, "bypass": bypass}
"""By their names."""


def _known(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace | int:
    try:
        return parser.parse_args(list(argv))
    except SystemExit as stop:  # help: 0; a wrong flag: 2
        return stop.code if isinstance(stop.code, int) else MISUSED


def _wrong_flags(known: argparse.Namespace) -> list[str]:
    wrong = [] if known.image else [_NO_IMAGE]
    for flag, is_right, meant in _FLAGS_MEANT:
        stated = getattr(known, flag.replace("-", "_"))
        listed = stated if isinstance(stated, list) else [stated] if stated not in ("", None) else []
        wrong += [f"--{flag} {each}: {meant}" for each in listed if not is_right(each)]
    return wrong


def _settings(known: argparse.Namespace) -> Settings:
    labels: Mapping[str, str] = dict(each.split("=", 1) for each in known.selector.split(",")) if known.selector else {}
    kinds: dict[str, Path] = {}
    for each in known.pod_spec_path:
        kind, path = each.split("=", 1)
        kinds[kind] = tuple(path.split("."))
    names = ("image", "config_map", "hook", "plain", "cpu", "memory")
    pod = PodSettings(**{name: getattr(known, name) for name in names})
    return Settings(
        every=known.all,
        selector=labels,
        no_service=known.no_service,
        container=known.engine_container,
        port=known.engine_port,
        further_kinds=kinds,
        scrapers=known.scraper,
        mesh_ports=known.mesh_port,
        pod=pod,
    )


def _read(name: str, files: Sequence[str]) -> list[Document] | int:
    """All files, one behind the other. An exit code if one of them cannot be read; all errors are told."""
    if not files and sys.stdin.isatty():
        return _refused(name, ["no FILE, and the standard input is a terminal: name manifests, or pipe them in"])
    found: list[Document] = []
    failed, wrong = [], []
    for each in files or [_STANDARD_INPUT]:
        source = "standard input" if each == _STANDARD_INPUT else each
        try:
            text = _text_of(each)
            if found and text:
                ends = found[-1].text.endswith("\n")
                found.append(Document(source, 1, "---\n" if ends else "\n---\n", None))
            found += read(text, source)
        except OSError as error:
            failed.append(f"{each}: {error.strerror}")
        except UnicodeDecodeError as error:
            wrong.append(f"{source}: byte {error.start + 1} is no UTF-8")
        except ManifestError as error:
            wrong.append(str(error))
    if failed:
        sys.stderr.write(errors_text(f"{name}: {line}" for line in [*failed, *wrong]))
        return FAILED
    if wrong:
        return _refused(name, wrong)
    if not any(document.objects for document in found):
        return _refused(name, ["no object of Kubernetes was given: a manifest has `kind`"])
    return found


def _text_of(file: str) -> str:
    """The text with its own ends of lines, which a text stream would change."""
    if file != _STANDARD_INPUT:
        return File(file).read_bytes().decode()
    buffer = getattr(sys.stdin, "buffer", None)  # a test's stream has none
    return buffer.read().decode() if buffer is not None else sys.stdin.read()


def _write(documents: Sequence[Document], *, diff: bool) -> int:
    if not diff:
        sys.stdout.write(written(documents))
        return OK
    sources = dict.fromkeys(document.source for document in documents)
    for source in sources:
        of_it = [document for document in documents if document.source == source]
        was, now = "".join(document.text for document in of_it), written(of_it)
        sys.stdout.writelines(
            difflib.unified_diff(
                was.splitlines(keepends=True), now.splitlines(keepends=True), source, f"{source} with the sidecar"
            )
        )
    return OK


def _write_folder(name: str, out: str, texts: Mapping[str, str]) -> int:
    """The files of a folder. One that is there and is none of these, or was not made by this command, is refused."""
    folder = File(out)
    try:
        there = {path.relative_to(folder).as_posix(): path for path in folder.glob("**/*") if path.is_file()}
        if other := [
            f"{path} is there, and this command would not write it, or has not: remove it, or name another folder"
            for relative, path in there.items()
            if relative not in texts or steps_in_order.MADE not in path.read_text(errors="replace")[:100]
        ]:
            return _refused(name, other)
        for relative, text in texts.items():
            path = folder / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    except OSError as error:
        sys.stderr.write(errors_text([f"{name}: {error.filename}: {error.strerror}"]))
        return FAILED
    sys.stdout.write("".join(f"{folder / relative}\n" for relative in texts))
    return OK


def _refused(name: str, lines: Sequence[str]) -> int:
    end = f"nothing is written; `{name} --help` explains every flag"
    sys.stderr.write(errors_text(f"{name}: {line}" for line in [*lines, end]))
    return MISUSED
