"""Each proof of `make prove` runs what exists, on the Python of the wheel, and one that is broken fails the whole."""

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools import prove
from tools.on_the_wheel import PLACE, PYTHON
from tools.prove import PROOFS, Proof


CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_what_a_proof_runs_exists(proof: Proof) -> None:
    """Its module, its files, its target on the sources; and where it runs longer, it runs the same with other numbers."""
    paths = [word for word in proof.words if word.startswith("tests/")]
    targets = re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)

    assert find_spec(proof.words[0]) is not None
    assert [path for path in paths if not (CHECKOUT / path).exists()] == []
    assert [named for named in proof.on_the_sources.split(", ") if named and named.split()[1] not in targets] == []
    assert proof.command(long=False) == proof.words
    assert proof.command(long=True) == (proof.long_words or proof.words)
    assert [word for word in proof.command(long=True) if "=" not in word] == [
        word for word in proof.words if "=" not in word
    ]


@pytest.mark.parametrize(
    "proof", [proof for proof in PROOFS if "make test" in proof.on_the_sources], ids=lambda proof: proof.name
)
def test_the_target_on_the_sources_plays_what_the_proof_plays(proof: Proof) -> None:
    """`make test-long` is named where a file of it has tests that are marked long."""
    folders = [CHECKOUT / word for word in proof.words if word.startswith("tests/")]
    files = [file for each in folders for file in ([each] if each.is_file() else each.rglob("test_*.py"))]
    has_long = any("mark.long" in file.read_text() for file in files)

    assert has_long is ("make test-long" in proof.on_the_sources.split(", "))


class Played:
    """The commands that were run; those of `fails` fail."""

    def __init__(self, fails: str) -> None:
        self.fails = fails
        self.commands: list[list[str]] = []

    def __call__(
        self, command: list[str], *, cwd: Path, env: dict[str, str], check: bool
    ) -> subprocess.CompletedProcess[str]:
        assert (cwd, env["CI"], check) == (PLACE, "true", False)
        self.commands.append(command)
        return subprocess.CompletedProcess(command, int(command[2] == self.fails))


def test_a_proof_that_is_broken_fails_the_whole_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played = Played("bench.idle_edge")
    monkeypatch.setattr(subprocess, "run", played)

    assert prove.main(["--only=idle-edge,soak", "--long"]) == 1
    assert played.commands == [
        [str(PYTHON), "-m", "bench.soak", "--minutes=10"],
        [str(PYTHON), "-m", "bench.idle_edge"],
    ]
    assert "1 of 2 hold: broken: idle-edge" in capsys.readouterr().out
    assert prove.main(["--only=soak"]) == 0
