"""The wheel's build. `pip install .` gives pure Python; `SIDECAR_BUILD=compiled pip install .` compiles the hot path, with mypyc.

It knows which modules are compiled (`[tool.sidecar] compiled` in pyproject.toml, a list of files), each as it stands and beside its
own source. It refuses to know what they do: `sidecar/` is pure Python, which is the reference, and `SIDECAR_PURE=1` runs it from a
compiled install too. An editable install is always pure. Every wheel carries the files that `[tool.sidecar] carried` names, which
an editable install has around it, and in its metadata a `build.txt` that says how it was made.
As a program, `python hatch_build.py FOLDER` writes the compiled package to a new folder.
"""

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path
from typing import Any


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # as a program
    BuildHookInterface = object  # type: ignore[assignment,misc]

ROOT = Path(__file__).parent
CARRIED_TO = Path("sidecar/commands/export/files")
"""`sidecar/commands/export/shipped_files.py` looks for them there."""
BUILDS = ("pure", "compiled")
"""The values that SIDECAR_BUILD may have; the first is the default."""
GROUP = "sidecar.compiled"
"""All modules are one shared object, `sidecar/compiled__mypyc.*.so`, in which they call each other as C functions; beside each
source lies a small one that finds its module there."""
OPTIMISATION = "2"
CFLAGS = "-w -g0 -U__unix -U__linux -fvisibility=hidden -fno-asynchronous-unwind-tables -fno-plt"
"""gcc defines two names as 1, and mypyc writes an attribute `_unix` as `__unix`. The last three make calls between modules direct, and
the process 0.7 MB smaller, all of which would lie in its memory."""
FLAGS = {"CFLAGS": CFLAGS, "LDFLAGS": "-s"}


class UnbuildableError(Exception):
    """Nothing can be compiled here; the message says why."""


def wanted_build() -> str:
    """One of BUILDS: the build that SIDECAR_BUILD asks for. Raises ValueError."""
    stated = os.environ.get("SIDECAR_BUILD") or BUILDS[0]
    if stated not in BUILDS:
        raise ValueError(f"SIDECAR_BUILD={stated}: allowed are {', '.join(BUILDS)}")
    return stated


def c_compiler() -> str:
    """The program that compiles C for this interpreter."""
    stated: str = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return stated.split(maxsplit=1)[0]


def lacking() -> str | None:
    """The reason why nothing can be compiled here, and the way to change that; None if there is a compiler."""
    compiler = c_compiler()
    if sys.implementation.name != "cpython":
        return f"mypyc compiles for CPython, and this is {sys.implementation.name}"
    if shutil.which(compiler) is None or not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return f"{compiler} or Python.h is missing (Debian: apt-get install gcc python3-dev)"
    return None


def pyproject() -> dict[str, Any]:
    """The whole pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def modules() -> list[Path]:
    """The modules that are compiled, relative to the root. Raises ValueError that names each one that is no file."""
    paths = [Path(each) for each in pyproject()["tool"]["sidecar"]["compiled"]]
    absent = [str(path) for path in paths if not (ROOT / path).is_file()]
    if absent:
        raise ValueError(f"pyproject.toml, tool.sidecar.compiled: no file is {', '.join(absent)}")
    return paths


def carried() -> dict[Path, Path]:
    """The files that the wheel carries, relative to the root, each with its place in the wheel."""
    found: dict[Path, Path] = {}
    for pattern in pyproject()["tool"]["sidecar"]["carried"]:
        # The files to which the chart links travel once; `sidecar export chart` puts them there again.
        files = [path for path in sorted(ROOT.glob(pattern)) if path.is_file() and not path.is_symlink()]
        matched = [path.relative_to(ROOT) for path in files]
        if not matched:
            raise ValueError(f"pyproject.toml, tool.sidecar.carried: no file is {pattern}")
        found |= {path: CARRIED_TO / path for path in matched}
    return found


def compile_into(folder: Path) -> list[Path]:
    """Write the package with its compiled modules to this folder; returns the shared objects, relative to it. Raises
    UnbuildableError.
    """
    reason = lacking()
    if reason is not None:
        raise UnbuildableError(reason)
    shutil.copytree(ROOT / "sidecar", folder / "sidecar", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        shutil.copytree(folder / "sidecar", work / "sidecar")
        done = subprocess.run(  # noqa: S603  our own program
            [sys.executable, str(Path(__file__)), "--in-place", *map(str, modules())],
            cwd=work,
            env=os.environ | {name: f"{os.environ.get(name, '')} {flags}" for name, flags in FLAGS.items()},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise UnbuildableError(f"mypyc or the compiler failed\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        built = sorted(path.relative_to(work) for path in (work / "sidecar").rglob("*.so"))
        for path in built:
            shutil.copy2(work / path, folder / path)
    return built


def compile_in_place(paths: list[str]) -> None:
    """Compile these modules of the package in the working directory, each beside its source."""
    from mypyc.build import mypycify  # noqa: PLC0415  only this process has them
    from setuptools import Distribution  # noqa: PLC0415
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415

    # Some packages state no types, and the extras need not be installed: what comes from them has no static type.
    Path("mypy.ini").write_text("[mypy]\nignore_missing_imports = True\n")
    extensions = mypycify(
        ["--config-file=mypy.ini", *paths],
        opt_level=OPTIMISATION,
        multi_file=True,
        group_name=GROUP,
        target_dir="c",
    )
    for extension in extensions:
        extension.include_dirs.append("c/sidecar")  # the group's header lies there, and mypyc looks one folder above
    command = build_ext(Distribution({"name": "sidecar", "ext_modules": extensions}))
    command.inplace = True
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()


def made_how(build: str) -> str:
    """The text of a wheel's build.txt: its build and, if compiled, with what. Raises UnbuildableError."""
    if build == "pure":
        return "build: pure\n"
    compiler = subprocess.run([c_compiler(), "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    return (
        f"build: compiled\nmodules: {len(modules())}, those of pyproject.toml, tool.sidecar.compiled\n"
        f"python: {platform.python_implementation()} {platform.python_version()}, {platform.machine()}\n"
        f"mypy: {importlib.metadata.version('mypy')}\n"
        f"compiler: {compiler.stdout.partition(chr(10))[0]}\nflags: -O{OPTIMISATION} {CFLAGS}\n"
    )


class CompileHook(BuildHookInterface):  # type: ignore[misc]
    """hatchling's hook (`[tool.hatch.build.targets.wheel.hooks.custom]`)."""

    def dependencies(self) -> list[str]:
        """The packages that the build needs besides hatchling: to compile, also the sidecar's own, for the types that they state."""
        if wanted_build() == "pure":
            return []
        told = pyproject()
        return [*told["dependency-groups"]["compilers"], *told["project"]["dependencies"]]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the carried files into the wheel, how it was made, and, if compiling is asked for, what it makes."""
        if version == "editable":
            return
        build = wanted_build()
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        build_data["force_include"].update({str(ROOT / path): str(place) for path, place in carried().items()})
        if build == "compiled":
            self.app.display_waiting("mypyc compiles the way of a request and of a token: a minute or so")
            built = compile_into(folder)
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"].update({str(folder / path): str(path) for path in built})
        said = folder / "build.txt"
        said.write_text(made_how(build))
        build_data["extra_metadata"][str(said)] = said.name

    def finalize(self, *_ended: object) -> None:
        """Remove what was built."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


if __name__ == "__main__":
    if sys.argv[1] == "--in-place":
        compile_in_place(sys.argv[2:])
    else:
        sys.stdout.write("".join(f"{path}\n" for path in compile_into(Path(sys.argv[1]))))
