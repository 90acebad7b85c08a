"""The cache of played runs: a source that playing depends on makes it anew, any other source does not."""

from functools import partial
from pathlib import Path

import pytest

from bench.incidents.job import Job
from bench.roots.cache import Cache


JOB = Job("crash", "chunks-2048", 20, unkind=False)
SOURCES = {
    "bench/incidents/job.py": "from bench.incidents.play import play\nfrom sidecar.objectives import judge\n",
    "bench/incidents/play.py": "from sidecar.commands.simulator import physics\n",
    "bench/incidents/grade.py": "RIGHT = 1\n",
    "sidecar/commands/simulator/physics.py": "G = 9.81\n",
    "sidecar/objectives/judge.py": "KEPT = True\n",
    "sidecar/pod/weigh.py": "SURE = 1.0\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("product", "process", "samples", "loop_lag"):
        (tmp_path / f"checkout/bench/incidents/{name}.py").write_text("")
    (tmp_path / "checkout/bench/roots").mkdir()
    for name in ("passage", "record"):
        (tmp_path / f"checkout/bench/roots/{name}.py").write_text("")
    return tmp_path / "checkout"


def made(cache: Cache, *, samples: bool = False, evidence: bool = False) -> bool:
    """Whether the run, its samples, or what it was decided from had to be made."""
    calls: list[int] = []

    def make() -> int:
        calls.append(1)
        return 7

    keep = partial(cache.evidence, JOB, "blind") if evidence else partial(cache.samples, JOB, "blind")
    assert (keep(make) if samples or evidence else cache.run(JOB, make)) == 7
    return bool(calls)


@pytest.mark.parametrize(
    ("source", "plays"),
    [
        ("bench/incidents/play.py", True),
        ("sidecar/commands/simulator/physics.py", True),
        ("bench/incidents/grade.py", False),
        ("sidecar/objectives/judge.py", False),
    ],
)
def test_a_change_of_a_source_plays_again_only_if_playing_reads_it(
    tmp_path: Path, checkout: Path, source: str, plays: bool
) -> None:
    made(Cache(tmp_path / "cache", checkout))
    (checkout / source).write_text("changed = 1\n")

    assert made(Cache(tmp_path / "cache", checkout)) is plays
