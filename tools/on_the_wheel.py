"""`make .cache/on-the-wheel/.made`: a place in which tests, benches and their child processes run the wheel that the image installs.

The place holds `venv`, an environment of the image's Python with the packages of requirements.lock and the compiled wheel, and a copy of
this tree without `sidecar/`: there `venv/bin/python -m pytest ...` and `venv/bin/python -m bench.soak` import what the wheel installed.
The development tools are those of `.venv`, behind the locked packages; its editable install is not seen. `tools/only_compiled.py` makes
the environment refuse every sidecar that is not compiled, and `tests/conftest.py` every one but the installed. Nothing is built
again unless something that the wheel is made of has changed.
`make wheels`, or `--dist`, makes the compiled wheel and the pure one, and copies both to dist/.
"""

import argparse
import hashlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import hatch_build
from tools.wheels import CHECKOUT, WheelError, check_python


PLACE = CHECKOUT / ".cache" / "on-the-wheel"
ENVIRONMENT = PLACE / "venv"
PYTHON = ENVIRONMENT / "bin" / "python"
WHEELS = CHECKOUT / ".cache" / "wheels"
LOCK = CHECKOUT / "requirements.lock"
STAMP = PLACE / ".made"
_OF_THE_PLACE = {"venv", ".cache", ".made"}
_ANSWER = "import sidecar; print(sidecar.BUILD, sidecar.__file__)"


def key_of(paths: Iterable[Path], *words: str) -> str:
    """A hash of these files, by name and content, and of these words."""
    told = hashlib.sha256("\n".join(words).encode())
    for path in sorted(paths):
        told.update(f"\n{path.relative_to(CHECKOUT)} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return told.hexdigest()[:16]


def made_of() -> list[Path]:
    """The files that a wheel is made of."""
    names = (
        "pyproject.toml",
        "hatch_build.py",
        "tools/wheels.py",
        "requirements.lock",
        "Dockerfile",
        "README.md",
        "LICENSE",
    )
    package = (path for path in (CHECKOUT / "sidecar").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return [*(CHECKOUT / name for name in names), *package, *(CHECKOUT / path for path in hatch_build.carried())]


def _run(*command: str | Path, cwd: Path | None = None) -> str:
    """The standard output of a program. Raises WheelError with what it said."""
    words = [str(each) for each in command]
    done = subprocess.run(words, cwd=cwd or CHECKOUT, capture_output=True, text=True, check=False)  # noqa: S603  our own words
    if done.returncode:
        raise WheelError(f"{' '.join(words)} failed\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def _said(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def make_environment() -> None:
    """The environment with the locked packages and, behind them, the development tools of `.venv`. Raises WheelError."""
    check_python()  # this is .venv's Python, whose development tools the environment takes
    only_compiled = CHECKOUT / "tools" / "only_compiled.py"
    wanted = key_of([LOCK, only_compiled, Path(__file__)], sys.version, sys.prefix)
    stamp = ENVIRONMENT / "made"
    if stamp.is_file() and stamp.read_text("utf-8") == wanted:
        return
    _said(f"installing the image's packages into {ENVIRONMENT.relative_to(CHECKOUT)}")
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    _run(sys.executable, "-m", "venv", "--without-pip", ENVIRONMENT)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", PYTHON, "install", "--quiet")
    _run(*pip, "--no-compile", "--only-binary=:all:", "--require-hashes", "--requirement", LOCK)
    (site,) = ENVIRONMENT.glob("lib/python*/site-packages")
    (tools,) = Path(sys.prefix).glob("lib/python*/site-packages")
    shutil.copy(only_compiled, site)
    # Python runs the .pth files of this folder only: that of the editable install, in the other folder, is not read.
    (site / "on_the_wheel.pth").write_text(f"import only_compiled; only_compiled.install()\n{tools}\n", "utf-8")
    stamp.write_text(wanted, "utf-8")


def wheel(build: str) -> Path:
    """The wheel of this build, made unless there is one of the same files. Raises WheelError."""
    python = f"{platform.python_version()} {platform.machine()}"
    folder = WHEELS / f"{build}-{key_of(made_of(), python)}"
    if not any(folder.glob("*.whl")):
        _said(f"making the {build} wheel{': a minute or so' if build == 'compiled' else ''}")
        for other in WHEELS.glob(f"{build}-*"):
            shutil.rmtree(other)
        _run(PYTHON, CHECKOUT / "tools" / "wheels.py", build, folder)
    (made,) = folder.glob("*.whl")
    return made


def install(made: Path) -> None:
    """The wheel in the environment, if another one or none is there. Raises WheelError."""
    stamp = ENVIRONMENT / "installed"
    if stamp.is_file() and stamp.read_text("utf-8") == str(made):
        return
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", PYTHON, "install", "--quiet")
    _run(*pip, "--no-index", "--no-deps", "--force-reinstall", made)
    stamp.write_text(str(made), "utf-8")


def copy_tree() -> None:
    """Every file that git has or would take, but for the package; what is the same already stays, and what has gone goes."""
    told = _run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    files = {
        Path(each)
        for each in told.split("\0")
        if each and not each.startswith("sidecar/") and (CHECKOUT / each).is_file()
    }
    for path in files:
        source, copy = CHECKOUT / path, PLACE / path
        if not copy.is_file() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
    for entry in PLACE.iterdir():
        if entry.name == "sidecar":
            shutil.rmtree(entry)
        elif entry.name not in _OF_THE_PLACE:
            for copy in [entry, *entry.rglob("*")]:
                if copy.is_file() and copy.suffix != ".pyc" and copy.relative_to(PLACE) not in files:
                    copy.unlink()
    link = PLACE / ".cache"  # Prometheus, kubectl and the programs of the benches
    if not link.is_symlink():
        link.symlink_to(CHECKOUT / ".cache")


def check() -> None:
    """Raises WheelError unless a Python of the place imports the compiled package that the wheel installed."""
    build, _, path = _run(PYTHON, "-c", _ANSWER, cwd=PLACE).strip().partition(" ")
    if build != "compiled" or not Path(path).is_relative_to(ENVIRONMENT):
        raise WheelError(f"{PLACE} imports the {build} sidecar of {path}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.on_the_wheel", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--dist", action="store_true", help="both wheels, into dist/, instead of the place")
    asked = parser.parse_args()
    try:
        make_environment()
        if asked.dist:
            dist = CHECKOUT / "dist"
            dist.mkdir(exist_ok=True)
            for build in hatch_build.BUILDS:
                sys.stdout.write(f"{Path(shutil.copy2(wheel(build), dist)).relative_to(CHECKOUT)}\n")
            return 0
        install(wheel("compiled"))
        copy_tree()
        check()
    except WheelError as error:
        _said(f"tools/on_the_wheel.py: {error}")
        return 1
    STAMP.touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
