"""The objects that a kustomization makes, by the kustomize inside kubectl, and those of a committed file.

It knows kubectl and YAML, where deploy/ stands, and no manifest of this project.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.support.imports import CHECKOUT
from tests.support.tools import need_kubectl


Objects = dict[tuple[str, str], Any]
DEPLOY = CHECKOUT / "deploy"


class _Loader(yaml.CSafeLoader):
    """YAML as kustomize writes it: a bare `=` is text there, and an unknown tag for PyYAML."""


def _text(_loader: yaml.CSafeLoader, node: yaml.Node) -> str:
    return str(node.value)


_Loader.add_constructor("tag:yaml.org,2002:value", _text)


def made(folder: Path) -> Objects:
    """The objects of the kustomization in `folder`, by kind and name. Fails with what kubectl says, where it refuses."""
    command = [str(need_kubectl()), "kustomize", str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert (built.returncode, built.stderr) == (0, ""), built.stderr
    return keyed(yaml.load_all(built.stdout, _Loader))


@cache
def _overlay(name: str) -> Objects:
    return made(DEPLOY / "overlays" / name)


def overlay(name: str) -> Objects:
    """The objects of deploy/overlays/`name`, a copy that the test may change."""
    return deepcopy(_overlay(name))


def attached(folder: Path, resource: Path, components: Iterable[str], *lines: str) -> Objects:
    """The objects of a user's folder: a copy of `resource`, components of deploy/, and further lines of its kustomization."""
    shutil.copy(resource, folder)
    listed = [f"  - {os.path.relpath(DEPLOY, folder)}/components/{component}" for component in components]
    text = "\n".join((f"resources: [{resource.name}]", "components:", *listed, *lines))
    (folder / "kustomization.yaml").write_text(text)
    return made(folder)


def keyed(objects: Any) -> Objects:
    """Keyed by kind and name, by which Kubernetes tells objects apart."""
    found = [((one["kind"], one["metadata"]["name"]), one) for one in objects]

    assert len(dict(found)) == len(found)
    return dict(found)
