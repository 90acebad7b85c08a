"""`.ci/run`: its parts fit into the time that CONTRIBUTING.md states, a core of real engines is among them, and it skips what it has just played."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tools import landing
from tools.thorough import PARTS


CHECKOUT = Path(__file__).parents[1]
GATE = (CHECKOUT / ".ci/run").read_text()
MINUTES = {command: int(minutes) for minutes, command in re.findall(r"^ ?(\d+) (.+)$", GATE, re.MULTILINE)}
CORE = 'make test-engines ARGS="-m core tests/real"'
MOST_OF_CORE = 8
"""Minutes for the real engines, their installation included."""


def functions_of(path: Path) -> list[ast.FunctionDef]:
    return [
        each
        for each in ast.parse(path.read_text()).body
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
    ]


def is_core(test: ast.FunctionDef) -> bool:
    return "pytest.mark.core" in map(ast.unparse, test.decorator_list)


REAL = {path: functions_of(path) for path in sorted((CHECKOUT / "tests/real").glob("test_*.py"))}


def test_the_parts_fit_into_the_time_that_is_stated() -> None:
    (together,) = re.findall(r"^together=(\d+)$", GATE, re.MULTILINE)
    (stated,) = re.findall(
        r"decides whether a change lands: at most (\d+) minutes", (CHECKOUT / "CONTRIBUTING.md").read_text()
    )

    assert sum(MINUTES.values()) <= int(together) == int(stated) == 33


def test_a_core_of_real_engines_decides_too() -> None:
    """vLLM, Triton and Dynamo, which are installed as wheels; llama.cpp would be compiled for ten minutes."""
    core = {test.name for tests in REAL.values() for test in tests if is_core(test)}

    assert MINUTES[CORE] <= MOST_OF_CORE
    assert {name.split("_")[1].removesuffix("s") for name in core} >= {"vllm", "triton", "dynamo"}
    assert [name for name in core if "llama" in name] == []


def test_the_parts_that_a_record_skips_are_parts_of_it() -> None:
    commands = {part.command: part.minutes for part in landing.PARTS}

    assert commands.items() <= MINUTES.items()


@pytest.mark.long
def test_a_part_is_skipped_while_its_last_green_run_was_on_its_very_files(tmp_path: Path) -> None:
    """The script itself, with two parts of its own: the record is written when all was green, and as the files were when it began."""
    own = re.sub(r"parts='.*?'", r"parts='\n 3 make one\n 1 make two\n'", GATE, count=1, flags=re.DOTALL)
    files = {
        ".ci/run": own.replace("python -m tools.landing", "python gate.py"),
        "Makefile": "one:\n\t@echo played; $(WHILE)\ntwo:\n\t@! [ -e red ]\n",
        "gate.py": "import pathlib, sys\n"
        f"sys.path.insert(0, {str(CHECKOUT)!r})\n"
        "from tools import landing\n"
        "one = landing._part(3, 'make one', 'of-one', without=())\n"
        "sys.exit(landing.main(sys.argv[1:], [one], pathlib.Path.cwd()))\n",
        "of-one": "1",
        ".gitignore": "/.cache/\n/.venv\n/red\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)

    def runs(**more: str) -> tuple[int, bool, bool]:
        """Its exit code, whether it played the part, and whether there is a record."""
        told = subprocess.run(
            ["bash", ".ci/run"], cwd=tmp_path, env=os.environ | more, capture_output=True, text=True, check=False
        )
        return told.returncode, "played" in told.stdout, (tmp_path / landing.RECORDS / "one.json").exists()

    (tmp_path / "red").touch()
    red = runs()
    (tmp_path / "red").unlink()
    changed = runs(WHILE="echo 2 >of-one")
    green, again = runs(), runs()
    (tmp_path / "of-one").write_text("3")

    assert (red, changed) == ((2, True, False), (1, True, False))
    assert (green, again, runs()) == ((0, True, True), (0, False, True), (0, True, True))


def test_no_test_outside_has_the_mark_of_the_core() -> None:
    """`-m core` takes the place of `-m engine`."""
    files = [path for path in (CHECKOUT / "tests").rglob("test_*.py") if "mark.core" in path.read_text()]
    marked = [path for path in files if any(map(is_core, functions_of(path)))]

    assert marked
    assert [path for path in marked if path not in REAL] == []


@pytest.mark.parametrize("path", [path for path in REAL if not path.stem.endswith("_live")], ids=lambda path: path.stem)
def test_each_test_of_a_real_engine_is_in_a_part_of_make_thorough(path: Path) -> None:
    """The parts name them by words of their names."""
    words = [
        found for part in PARTS for found in re.findall(r"make test-engines ARGS=\"-k '?([^'\"]+)'?\"", part.command)
    ]
    files = [found for part in PARTS for found in re.findall(r"make test-engines ARGS=(\S+\.py)$", part.command)]

    assert len(words) > 2
    assert [test.name for test in REAL[path] if not is_played(path, test.name, words, files)] == []


def is_played(path: Path, name: str, words: list[str], files: list[str]) -> bool:
    names = f"{path.relative_to(CHECKOUT).as_posix()} {name}"
    return names.split(maxsplit=1)[0] in files or any(
        Expression.compile(each).evaluate(lambda word, /, **_: word in names) for each in words
    )
