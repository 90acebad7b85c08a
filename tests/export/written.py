"""`sidecar export` run in this process, and what it wrote: the texts, and the folders that `kubectl apply -k` takes.

It knows no content of a file but the kind of a kustomization.
"""

from functools import cache
from pathlib import Path
from unittest.mock import patch

from sidecar.cli import main
from sidecar.config.quick_yaml import read_yaml
from sidecar.export import manifests
from sidecar.export.rules.rule_files import files


_rule_files = cache(files)
"""Composing them takes most of the time of a command, and few flags change them. Real commands: test_export_command_live.py."""


def export(out: Path, what: str, *flags: str) -> dict[str, str]:
    """Path below `out` to text of each file. The command must end with 0."""
    with patch.object(manifests, "files", _rule_files):
        assert main(["export", what, f"--out={out}", *flags]) == 0
    return texts_below(out)


def texts_below(folder: Path, endings: str | tuple[str, ...] = "") -> dict[str, str]:
    """Texts of the files whose names end so: the folder of the repository may hold compiled Python too."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name.endswith(endings))
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def kustomizations(folder: Path) -> list[Path]:
    """The folders that `kubectl apply -k` takes; a Component is none."""
    found = sorted(folder.rglob("kustomization.yaml"))
    return [path.parent for path in found if read_yaml(path.read_text()).get("kind") != "Component"]
