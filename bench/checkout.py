"""The commit that a bench measures, and the files of another one. A tree with changes that are not committed has no name: its figures cannot be taken again."""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path


REPOSITORY = Path(__file__).parents[1]


def commit() -> str:
    """The first twelve digits of the hash of the commit that is checked out."""
    return _git("rev-parse", "--short=12", "HEAD")


def is_frozen() -> bool:
    """Whether the tree has no change that is not committed. False as well where there is no git, or no repository."""
    try:
        return not _git("status", "--porcelain")
    except (OSError, subprocess.CalledProcessError):
        return False


def named() -> str:
    """The tree as a report names it: its commit and the day of that commit."""
    return f"tree {commit()} of {_git('show', '--no-patch', '--format=%cs')}" if is_frozen() else "a tree with changes"


def unpacked(revision: str, folder: Path) -> Path:
    """The files of a commit, in a folder below this one that has its hash as a name. Raises subprocess.CalledProcessError."""
    found = folder / _git("rev-parse", "--short=12", "--verify", f"{revision}^{{commit}}")
    if not found.exists():
        archive = subprocess.run(["git", "-C", str(REPOSITORY), "archive", found.name], capture_output=True, check=True)
        made = found.with_suffix(".new")
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
            files.extractall(made, filter="data")
        made.rename(found)
    return found


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(REPOSITORY), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
