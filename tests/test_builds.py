"""The compiled build: that it is asked for, what mypyc would break in silence, and that it does what the pure one does."""

import ast
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

import hatch_build
import sidecar
from hatch_build import UnbuildableError, compile_into, modules, wanted_build
from tests.support.sidecar_process import running_sidecar


CHECKOUT = Path(__file__).parents[1]
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


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


@pytest.mark.reaches_in
def test_what_is_compiled_is_what_mypyc_compiles_as_it_stands() -> None:
    broken = {
        f"{path}: {node.name}": why
        for path in modules()
        for node, bases in classes(path)
        if (why := breaks_compiled(node, bases)) is not None
    }

    assert broken == {}


@pytest.mark.long
@pytest.mark.reaches_in
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


def test_a_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.sidecar]\ncompiled = ["sidecar/gone.py", "sidecar/proxy/*.py"]\n')
    monkeypatch.setattr(hatch_build, "ROOT", tmp_path)

    with pytest.raises(ValueError, match=r"no file is sidecar/gone.py, sidecar/proxy/\*.py$"):
        modules()


@pytest.mark.parametrize(("stated", "build"), [("", "pure"), ("pure", "pure"), ("compiled", "compiled")])
def test_a_build_is_pure_unless_compiling_is_asked_for(
    stated: str, build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIDECAR_BUILD", stated)

    assert wanted_build() == build


@pytest.mark.parametrize("stated", ["auto", "fast", "PURE"])
def test_another_word_is_an_error_that_names_the_allowed_ones(stated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIDECAR_BUILD", stated)

    with pytest.raises(ValueError, match=f"SIDECAR_BUILD={stated}: allowed are pure, compiled$"):
        wanted_build()


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")

    with pytest.raises(UnbuildableError, match=r"no-such-compiler .* missing \(Debian: apt-get install gcc"):
        compile_into(tmp_path)


def told(*arguments: str, **variables: str) -> str:
    """The standard output of a Python in this tree."""
    command, env = [sys.executable, *arguments], os.environ | variables
    done = subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_the_logs_first_line_and_the_metrics_say_which_build_runs(tmp_path: Path) -> None:
    with running_sidecar("http://127.0.0.1:1", tmp_path, until="/-/healthy") as running:
        first, *_ = running.log.read_text().splitlines()
        metrics = running.page("/metrics")
    line = json.loads(first)
    (info,) = re.findall(r"^llm_sidecar_build_info\{(.*)\} 1$", metrics, re.MULTILINE)

    assert (line["event"], line["build"], line["version"]) == ("listening", sidecar.BUILD, sidecar.__version__)
    assert f'build="{sidecar.BUILD}"' in info
    assert 'profile="full"' in info


@pytest.mark.compiled
def test_the_wheel_compiles_the_files_of_the_list_and_says_how_it_was_made() -> None:
    """Each has its shared object beside it, in one group; what its metadata state is what SIDECAR_BUILD asked for."""
    package = Path(sidecar.__file__).parent
    built = {str(path.relative_to(package.parent)) for path in package.rglob("*.so")}
    listed = [Path(each) for each in hatch_build.pyproject()["tool"]["sidecar"]["compiled"]]
    beside = {f"{path.with_suffix('')}{SUFFIX}" for path in listed}
    said = importlib.metadata.distribution("llm-phase-sidecar").read_text("extra_metadata/build.txt")

    assert built == beside | {f"{hatch_build.GROUP.replace('.', '/')}__mypyc{SUFFIX}"}
    assert said is not None
    assert said.startswith(f"build: compiled\nmodules: {len(listed)}, ")
    assert f"\npython: CPython {platform.python_version()}, " in said


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
    assert told("-m", "sidecar", "--version", SIDECAR_PURE="1").endswith("(pure)\n")
    assert told(*history) == told(*history, SIDECAR_PURE="1")
