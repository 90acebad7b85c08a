"""Which package a run of the tests is about: the sources beside the tests, or the wheel that is installed where there are none."""

from pathlib import Path


def wrong_package(tree: Path, imported: Path, *, is_compiled: bool, prefix: str) -> str | None:
    """Why the package in the folder `imported` is not what tests in this tree are about; None if it is.

    Beside `sidecar/` they are about its sources. Where `tools/on_the_wheel.py` has put them, without it, they are about the
    compiled wheel in the environment `prefix`.
    """
    sources = tree / "sidecar"
    if sources.is_dir():
        return None if imported == sources else f"these tests are about {sources}, and {imported} was imported"
    if not is_compiled:
        return f"these tests are about a compiled wheel, and {imported} runs in pure Python"
    if not imported.is_relative_to(prefix):
        return f"these tests are about the wheel in {prefix}, and {imported} was imported"
    return None
