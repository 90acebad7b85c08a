"""The objects that a kustomization makes, by the kustomize inside kubectl, with the component that `sidecar inject` writes for it.

It knows kubectl and YAML, where deploy/ and the manifests of the engines' own projects stand, and nothing that is in them.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from sidecar import __version__
from sidecar.commands.inject.attaching import Settings, attach_all
from sidecar.commands.inject.kustomize_component import component
from sidecar.commands.inject.manifest_text import read
from sidecar.commands.inject.pod_with_sidecar import PodSettings
from tests.support.imports import CHECKOUT
from tests.support.tools import need_kubectl


Objects = dict[tuple[str, str], Any]
DEPLOY = CHECKOUT / "deploy"
MANIFESTS = CHECKOUT / "tests/commands/inject/manifests"
DOCUMENTED = {path.stem.removeprefix("documented-"): path for path in sorted(MANIFESTS.glob("documented-*.yaml"))}
"""The manifest of each engine's own project, by the engine's name, with our label."""
IMAGE = f"--image=registry.example.com/llm-phase-sidecar:{__version__}"
"""The flag that `sidecar inject` requires."""
WITH_CONFIG = PodSettings(image=IMAGE.partition("=")[2], config_map="llm-phase-sidecar")
"""The ConfigMap of deploy/base."""


class _Loader(yaml.CSafeLoader):
    """YAML as kustomize writes it: a bare `=` is text there, and an unknown tag for PyYAML."""


def _text(_loader: yaml.CSafeLoader, node: yaml.Node) -> str:
    return str(node.value)


_Loader.add_constructor("tag:yaml.org,2002:value", _text)


def built(folder: Path) -> tuple[str, str]:
    """The output and the errors of kustomize in `folder`; there is one of them."""
    command = [str(need_kubectl()), "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode == 0) == bool(done.stdout) == (not done.stderr), done
    return done.stdout, done.stderr


def made(folder: Path) -> Objects:
    """The objects of the kustomization in `folder`, by kind and name. Fails with what kubectl says, where it refuses."""
    output, errors = built(folder)

    assert errors == "", errors
    return keyed(objects_in(output))


def objects_in(text: str) -> list[Any]:
    """The objects of a stream of documents, without empty ones."""
    return [one for one in yaml.load_all(text, _Loader) if one is not None]


@cache
def _documented(name: str) -> Objects:
    with TemporaryDirectory() as folder:
        return attached(Path(folder), DOCUMENTED[name], ["monitoring"])


def documented(name: str) -> Objects:
    """The objects of an engine's own manifest with its sidecar and the monitoring, a copy that the test may change."""
    return deepcopy(_documented(name))


def attached(
    folder: Path, resource: Path, components: Iterable[str], *lines: str, chosen: PodSettings = WITH_CONFIG
) -> Objects:
    """The objects of a user's folder: a copy of `resource`, its component as `sidecar inject` writes it, deploy/base, components of deploy/
    and further lines of its kustomization.
    """
    shutil.copy(resource, folder)
    done = attach_all(read(resource.read_text(), resource.name), Settings(pod=chosen))
    assert done.refused == []
    (folder / "sidecar").mkdir(exist_ok=True)
    (folder / "sidecar/kustomization.yaml").write_text(component(done.changed, "sidecar inject"))
    deploy = os.path.relpath(DEPLOY, folder)
    listed = [f"  - {deploy}/components/{each}" for each in components]
    text = "\n".join((f"resources: [{resource.name}, {deploy}/base]", "components:", "  - sidecar", *listed, *lines))
    (folder / "kustomization.yaml").write_text(text)
    return made(folder)


def keyed(objects: Any) -> Objects:
    """Keyed by kind and name, by which Kubernetes tells objects apart."""
    found = [((one["kind"], one["metadata"]["name"]), one) for one in objects]

    assert len(dict(found)) == len(found)
    return dict(found)
