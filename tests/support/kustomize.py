"""The objects that a kustomization makes, by the kustomize inside kubectl, and those of a committed file.

It knows kubectl and YAML, and no manifest of this project.
"""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.support.tools import need_tool


Objects = dict[tuple[str, str], Any]


class _Loader(yaml.SafeLoader):
    """YAML as kustomize writes it: a bare `=` is text there, and an unknown tag for PyYAML."""


def _text(_loader: yaml.SafeLoader, node: yaml.Node) -> str:
    return str(node.value)


_Loader.add_constructor("tag:yaml.org,2002:value", _text)


def made(folder: Path) -> Objects:
    """The objects of the kustomization in `folder`, by kind and name."""
    command = [str(need_tool("kubectl")), "kustomize", str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert (built.returncode, built.stderr) == (0, "")
    return keyed(yaml.load_all(built.stdout, _Loader))


def keyed(objects: Any) -> Objects:
    """Keyed by kind and name, by which Kubernetes tells objects apart."""
    found = [((one["kind"], one["metadata"]["name"]), one) for one in objects]

    assert len(dict(found)) == len(found)
    return dict(found)
