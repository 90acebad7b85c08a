"""The files of dist/release, as `make release` leaves them: found, or skipped with a clear message."""

from pathlib import Path

from sidecar import __version__
from tests.support.tools import missing
from tools.release import OUT


def artefact(pattern: str) -> Path:
    """The one file of this version whose name matches; VERSION in the pattern is the version. Missing: as a tool that is missing."""
    found = sorted(OUT.glob(pattern.replace("VERSION", __version__)))
    if not found:
        missing(f"dist/release has no {pattern.replace('VERSION', __version__)} (make release)")
    (one,) = found
    return one
