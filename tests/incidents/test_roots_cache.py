"""The cache of played runs: a source that playing depends on makes it anew, any other source does not."""

from functools import partial
from pathlib import Path

import pytest

from bench.incidents.job import Job
from bench.roots.cache import Cache, playing_sources


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


def test_a_run_is_played_once(tmp_path: Path, checkout: Path) -> None:
    cache = Cache(tmp_path / "cache", checkout)

    assert not cache.has(JOB)
    assert made(cache)
    assert cache.has(JOB)
    assert not made(cache)
    assert not made(Cache(tmp_path / "cache", checkout))


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


def test_a_change_of_the_product_takes_samples_again_and_one_of_the_grades_does_not(
    tmp_path: Path, checkout: Path
) -> None:
    made(Cache(tmp_path / "cache", checkout), samples=True)
    (checkout / "bench/incidents/grade.py").write_text("RIGHT = 2\n")
    assert not made(Cache(tmp_path / "cache", checkout), samples=True)

    (checkout / "sidecar/objectives/judge.py").write_text("KEPT = False\n")
    assert made(Cache(tmp_path / "cache", checkout), samples=True)
    assert not made(Cache(tmp_path / "cache", checkout), samples=True)


def test_another_decision_needs_no_other_evidence_while_another_product_does(tmp_path: Path, checkout: Path) -> None:
    made(Cache(tmp_path / "cache", checkout), samples=True)
    assert made(Cache(tmp_path / "cache", checkout), evidence=True)
    (checkout / "sidecar/pod/weigh.py").write_text("SURE = 0.9\n")
    assert not made(Cache(tmp_path / "cache", checkout), evidence=True)
    assert made(Cache(tmp_path / "cache", checkout), samples=True)

    (checkout / "sidecar/objectives/judge.py").write_text("KEPT = False\n")
    assert made(Cache(tmp_path / "cache", checkout), evidence=True)


def test_a_run_of_another_world_or_engine_is_another_run(tmp_path: Path, checkout: Path) -> None:
    cache = Cache(tmp_path / "cache", checkout)
    others = (Job("crash", "chunks-2048", 20), Job("crash", "moe", 20, unkind=False), Job("crash", "moe", 21))

    assert len({cache.run_path(job) for job in (JOB, *others)}) == 4
    assert cache.run_path(JOB) == cache.run_path(Job("crash", "chunks-2048", 20, modes=(), unkind=False))


def test_playing_reads_the_simulator_and_neither_the_product_nor_the_grades() -> None:
    names = {path.stem for path in playing_sources()}

    assert {"job", "play", "truth", "kinds", "world", "physics"} <= names
    assert not {"grade", "prometheus", "product", "process", "measures"} & names
