"""`sidecar export` run in this process, and what it wrote."""

from pathlib import Path

from sidecar.cli import main


def export(out: Path, what: str, *flags: str) -> dict[str, str]:
    """Path below `out` to text of each file. The command must end with 0."""
    assert main(["export", what, f"--out={out}", *flags]) == 0
    return texts_below(out)


def texts_below(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
