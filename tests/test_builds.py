"""The compiled build: which modules may be compiled, where a wheel is compiled, and that it does what the pure one does."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hatch_build
from hatch_build import UnbuildableError, compile_into, compiles, modules, prepared


CHECKOUT = Path(__file__).parents[1]


def classes(path: Path) -> Iterator[tuple[ast.ClassDef, set[str]]]:
    """The classes of a module, with the names of their bases."""
    for node in ast.walk(ast.parse((CHECKOUT / path).read_text())):
        if isinstance(node, ast.ClassDef):
            heads = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
            yield node, {base.id if isinstance(base, ast.Name) else ast.unparse(base) for base in heads}


def breaks_compiled(node: ast.ClassDef, bases: set[str]) -> str | None:
    """Why mypyc 2.4 makes another class of it, or none at all."""
    members = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
    slotted = any(
        isinstance(member, ast.Assign) and ast.unparse(member.targets[0]) == "__slots__" for member in node.body
    )
    if any(base.endswith("Struct") for base in bases):
        return "a msgspec struct loses its keywords and its annotations"
    if "Generic" in bases and node.decorator_list:
        return "a generic dataclass fails at import"
    if bases & {"Enum", "StrEnum"} and "__init__" in members:
        return "its members are no members"
    if slotted and any("." in base for base in bases):
        return "slots on a class of the library fail at import"
    return None


def test_what_is_compiled_is_what_mypyc_compiles_as_it_stands() -> None:
    broken = {
        f"{path}: {node.name}": why
        for path in modules()
        for node, bases in classes(path)
        if (why := breaks_compiled(node, bases)) is not None
    }

    assert broken == {}


def test_no_class_of_the_package_inherits_from_a_compiled_one_unless_it_is_compiled_too() -> None:
    """Python refuses to make it: "interpreted classes cannot inherit from compiled"."""
    compiled = set(modules())
    found = {node.name for path in compiled for node, _ in classes(path)}
    others = {path.relative_to(CHECKOUT) for path in (CHECKOUT / "sidecar").rglob("*.py")} - compiled
    of_their_own = {node.name for path in others for node, _ in classes(path)}
    inherited = [
        f"{path}: {node.name}"
        for path in sorted(others)
        for node, bases in classes(path)
        if bases & (found - of_their_own)
    ]

    assert inherited == []


def test_a_pattern_that_names_no_module_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.sidecar]\ncompiled = ["sidecar/no_such_room/*.py"]\n')
    monkeypatch.setattr(hatch_build, "ROOT", tmp_path)

    with pytest.raises(ValueError, match="no module is sidecar/no_such_room"):
        modules()


@pytest.mark.parametrize(
    ("stated", "compiler", "compiled"),
    [
        ("", sys.executable, True),
        ("", "no-such-compiler", False),
        ("auto", sys.executable, True),
        ("pure", sys.executable, False),
        ("compiled", "no-such-compiler", True),
    ],
)
def test_a_build_compiles_where_it_can_unless_it_is_told(
    stated: str, compiler: str, *, compiled: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Told to compile, it tries without a compiler too: that build fails, and says why."""
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path))
    monkeypatch.setenv("SIDECAR_BUILD", stated)
    monkeypatch.setenv("CC", compiler)

    assert compiles() is compiled


def test_another_word_is_an_error_that_names_the_allowed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIDECAR_BUILD", "fast")

    with pytest.raises(ValueError, match="SIDECAR_BUILD=fast: allowed are auto, pure, compiled"):
        compiles()


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")

    with pytest.raises(UnbuildableError, match=r"no-such-compiler .* missing \(Debian: apt-get install gcc"):
        compile_into(tmp_path)


def test_slots_are_left_to_mypyc() -> None:
    assert prepared("@dataclass(frozen=True, slots=True)\nclass A:") == "@dataclass(frozen=True, )\nclass A:"
    assert prepared("@dataclass(slots=True)\nclass A:") == "@dataclass()\nclass A:"
    assert prepared("@dataclass(slots=True, frozen=True)\nclass A:") == "@dataclass(frozen=True)\nclass A:"


def told(*arguments: str, **variables: str) -> str:
    """The standard output of a Python in this tree."""
    command, env = [sys.executable, *arguments], os.environ | variables
    done = subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(5))
def test_compiled_the_same_history_is_written_byte_by_byte(seed: int) -> None:
    """Ten thousand requests in all, interleaved, reported late, twice and in contradiction, with reloads and restarts: the page, the
    log lines and the diagnoses of the compiled build are those of its own sources.
    """
    history = ("-m", "tests.histories.history", str(seed), "2000")
    where = ("-c", "import sidecar.proxy.relay as relay; print(relay.__file__)")

    assert told(*where).endswith(".so\n")
    assert told(*where, SIDECAR_PURE="1").endswith("relay.py\n")
    assert told("-m", "sidecar", "--version", SIDECAR_PURE="1").endswith("(pure Python)\n")
    assert told(*history) == told(*history, SIDECAR_PURE="1")
