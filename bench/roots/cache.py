"""Keeps played runs and their samples in files, so that a change of the product does not play anything again.

A played run depends on its job and on the sources that `job.py` leads to in `bench/incidents` and in the simulator;
its samples depend on all sources of the product too. Each file begins with the hash of the sources that it was made
with, and a file with another hash is made anew. It refuses to know what a run or a sample is.
"""

import ast
import gc
import hashlib
import os
import pickle
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from bench.incidents.job import Job


T = TypeVar("T")
CHECKOUT = Path(__file__).parents[2]
CACHE = Path.home() / ".cache" / "llm-phase-sidecar" / "roots"
PLAYS = "bench.incidents.job"
PLAYED_WITH = ("bench.incidents.", "sidecar.commands.simulator.")
"""Modules on which a played run depends, if `PLAYS` leads to them. Those of the product's own heart are left out."""
SAMPLED_WITH = (
    "sidecar",
    *(f"bench/incidents/{name}.py" for name in ("product", "process", "samples", "loop_lag")),
    *(f"bench/roots/{name}.py" for name in ("passage", "record")),
)
DECIDED_BY = tuple(f"sidecar/pod/{name}.py" for name in ("decision", "incident", "reasons", "weigh"))
"""Sources of the decision, on which what it was decided from does not depend, but for the constants of `reasons.py` that signs are read with
(`COMPUTES`, `COLLECTED`): after a change of one of these, delete the cache."""
FASTEST = 1


class Cache:
    """One folder of files, for one state of the sources."""

    def __init__(self, folder: Path, checkout: Path = CHECKOUT) -> None:
        self._folder = folder
        self._plays = hash_of(playing_sources(checkout), checkout)
        sampled = [path for each in SAMPLED_WITH for path in _python(checkout / each)]
        self._samples = hash_of(sampled, checkout)
        deciding = {checkout / each for each in DECIDED_BY}
        self._evidence = hash_of((path for path in sampled if path not in deciding), checkout)
        folder.mkdir(parents=True, exist_ok=True)

    def run_path(self, job: Job) -> Path:
        """The file of a job's played run, whether or not it exists. The hash of the sources is a part of its name."""
        world = "unkind" if job.unkind else "kind"
        return self._folder / f"{job.kind}.{job.seed}.{world}.{job.engine}.{self._plays}.run"

    def has(self, job: Job) -> bool:
        """Whether this job was played with these sources."""
        return self.run_path(job).exists()

    def run(self, job: Job, make: Callable[[], T]) -> T:
        """The played run of a job, from the file or made now."""
        return _kept(self.run_path(job), "", make)

    def samples(self, job: Job, name: str, make: Callable[[], T]) -> T:
        """The samples of a run, from the file or made now. `name`: one file for each."""
        return _kept(self.run_path(job).with_suffix(f".{name}"), self._samples, make)

    def evidence(self, job: Job, name: str, make: Callable[[], T]) -> T:
        """The evidence that the roots of a run were decided from, from the file or recorded now."""
        return _kept(self.run_path(job).with_suffix(f".{name}-evidence"), self._evidence, make)


def playing_sources(checkout: Path = CHECKOUT) -> list[Path]:
    """Files on which a played run depends."""
    found: dict[str, Path] = {}
    todo = [PLAYS]
    while todo:
        name = todo.pop()
        path = checkout / (name.replace(".", "/") + ".py")
        if name in found or not name.startswith(PLAYED_WITH) or not path.exists():
            continue
        found[name] = path
        todo += _imports(path)
    return sorted(found.values())


def hash_of(paths: Iterable[Path], checkout: Path = CHECKOUT) -> str:
    """Twelve hexadecimal digits that change with the name and the text of each file."""
    found = hashlib.sha256()
    for path in paths:
        found.update(f"{path.relative_to(checkout)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()[:12]


def _imports(path: Path) -> Iterable[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def _python(place: Path) -> list[Path]:
    return [place] if place.suffix == ".py" else sorted(place.rglob("*.py"))


def _kept(path: Path, stamp: str, make: Callable[[], T]) -> T:
    if path.exists():
        gc.disable()  # A run is a hundred thousand objects, and none of them is garbage.
        try:
            kept, found = pickle.loads(zlib.decompress(path.read_bytes()))
        finally:
            gc.enable()
        if kept == stamp:
            value: T = found
            return value
    made = make()
    # Another process may write the same file.
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_bytes(zlib.compress(pickle.dumps((stamp, made), pickle.HIGHEST_PROTOCOL), FASTEST))
    partial.replace(path)
    return made
