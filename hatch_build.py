"""The wheel's build: where there is a C compiler, mypyc compiles the modules of the hot path, each beside its own source.

It knows which modules (`[tool.sidecar] compiled` in pyproject.toml), and how their sources are prepared. It refuses to know what
they do: `sidecar/` is pure Python, which is the reference, and `SIDECAR_PURE=1` runs it from a compiled install too. SIDECAR_BUILD
says how the wheel is built: `auto` as above, `pure` without a compiler, `compiled` or not at all. An editable install is always pure.
Every wheel carries the files that `[tool.sidecar] carried` names; an editable install has them around it.
As a program, `python hatch_build.py FOLDER` writes the compiled package to a new folder: two minutes, one with
`SIDECAR_OPTIMISE=0`.
"""

import os
import re
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
CARRIED_TO = Path("sidecar/export/files")
"""`sidecar/export/shipped_files.py` looks for them there."""
COMPILERS = ("mypy[mypyc]>=2.4,<3", "setuptools")
BUILDS = ("auto", "pure", "compiled")
GROUP = "sidecar.compiled"
"""All modules are one shared object, `sidecar/compiled__mypyc.*.so`, in which they call each other as C functions; beside each
source lies a small one that finds its module there."""
CFLAGS = "-w -g0 -U__unix -U__linux -fvisibility=hidden -fno-asynchronous-unwind-tables -fno-plt"
"""gcc defines two names as 1, and mypyc writes an attribute `_unix` as `__unix`. The last three make calls between modules direct, and
the process 0.7 MB smaller, all of which would lie in its memory."""
FLAGS = {"CFLAGS": CFLAGS, "LDFLAGS": "-s"}
_SLOTS = re.compile(r"^(@dataclass\(.*)slots=True(?:, )?(.*\))$", re.MULTILINE)


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


def compiles() -> bool:
    """Whether this build compiles. Raises ValueError."""
    build = wanted_build()
    return build == "compiled" or (build == "auto" and lacking() is None)


def pyproject() -> dict[str, Any]:
    """The whole pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def modules() -> list[Path]:
    """The modules that are compiled, relative to the root. A pattern that begins with `!` takes away."""
    patterns = pyproject()["tool"]["sidecar"]["compiled"]
    found: set[Path] = set()
    for pattern in patterns:
        matched = {path.relative_to(ROOT) for path in ROOT.glob(pattern.removeprefix("!"))}
        if not matched:
            raise ValueError(f"pyproject.toml, tool.sidecar.compiled: no module is {pattern}")
        found = found - matched if pattern.startswith("!") else found | matched
    return sorted(found)


def carried() -> dict[Path, Path]:
    """The files that the wheel carries, relative to the root, each with its place in the wheel."""
    found: dict[Path, Path] = {}
    for pattern in pyproject()["tool"]["sidecar"]["carried"]:
        matched = [path.relative_to(ROOT) for path in sorted(ROOT.glob(pattern)) if path.is_file()]
        if not matched:
            raise ValueError(f"pyproject.toml, tool.sidecar.carried: no file is {pattern}")
        found |= {path: CARRIED_TO / path for path in matched}
    return found


def prepared(source: str) -> str:
    """The source as mypyc takes it: its classes have slots as they are, and `slots=True` would make a second class of each."""
    return _SLOTS.sub(r"\1\2", source)


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
        for path in modules():
            (work / path).write_text(prepared((work / path).read_text()))
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
    from setuptools import Distribution, Extension  # noqa: PLC0415
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415

    # Some packages state no types, and the extras need not be installed: what comes from them has no static type.
    Path("mypy.ini").write_text("[mypy]\nignore_missing_imports = True\n")
    extensions = mypycify(
        ["--config-file=mypy.ini", *paths],
        opt_level=os.environ.get("SIDECAR_OPTIMISE", "2"),
        multi_file=True,
        group_name=GROUP,
        target_dir="c",
    )
    for extension in extensions:
        extension.include_dirs.append("c/sidecar")  # the group's header lies there, and mypyc looks one folder above
    for source in sorted(Path("sidecar").rglob("*.c")):  # the twins in C of modules beside them
        level = os.environ.get("SIDECAR_OPTIMISE", "2")
        name = ".".join(source.with_suffix("").parts)
        extensions.append(Extension(name, [str(source)], extra_compile_args=[f"-O{level}"]))
    command = build_ext(Distribution({"name": "sidecar", "ext_modules": extensions}))
    command.inplace = True
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()


class CompileHook(BuildHookInterface):  # type: ignore[misc]
    """hatchling's hook (`[tool.hatch.build.targets.wheel.hooks.custom]`)."""

    def dependencies(self) -> list[str]:
        """The packages that the build needs besides hatchling: to compile, also the sidecar's own, for the types that they state."""
        return [*COMPILERS, *pyproject()["project"]["dependencies"]] if compiles() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the carried files into the wheel, and, if compiling is asked for, what it makes."""
        if version == "editable":
            return
        build_data["force_include"].update({str(ROOT / path): str(place) for path, place in carried().items()})
        if not compiles():
            self.app.display_info(f"the wheel is pure Python: {lacking() or 'SIDECAR_BUILD=pure'}")
            return
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        self.app.display_waiting("mypyc compiles the way of a request and of a token: two minutes or so")
        try:
            built = compile_into(folder)
        except UnbuildableError as error:
            if wanted_build() == "compiled":
                raise
            self.app.display_warning(f"the wheel is pure Python: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(folder / path): str(path) for path in built})

    def finalize(self, *_ended: object) -> None:
        """Remove what was built."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


if __name__ == "__main__":
    if sys.argv[1] == "--in-place":
        compile_in_place(sys.argv[2:])
    else:
        sys.stdout.write("".join(f"{path}\n" for path in compile_into(Path(sys.argv[1]))))
