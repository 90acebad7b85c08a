"""The program of the bench, which is engine and load in one, and the environments of the peers and of the sidecar: made in
.cache/peers when they are missing or their source changed.

Knows g++ and pip. Refuses to touch .venv: what the peers bring in stays in an environment of their own, and the sidecar is measured
as `pip install` gives it. Raises MissingError with the reason when something cannot be made; the reason stands in the table, so that
no row is left out in silence.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path


HERE = Path(__file__).parent
CACHE = Path(__file__).parents[2] / ".cache" / "peers"
COMPILER = "g++"
PIP_INSTALL = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet")
FLAGS = ("-std=c++17", "-O2", "-Wall", "-Wextra")


class MissingError(RuntimeError):
    """Something that the bench needs is not installed here, or cannot be made; the message says what, and how to get it."""


def generator(folder: Path = CACHE) -> Path:
    """The program, compiled anew if a source or a flag changed. Raises MissingError."""
    sources = [HERE / name for name in ("load.cpp", "client.hpp", "engine.hpp", "wire.hpp")]
    told = hashlib.sha256(b"".join(source.read_bytes() for source in sources) + " ".join(FLAGS).encode())
    program = folder / f"generator-{told.hexdigest()[:12]}"
    if program.exists():
        return program
    if shutil.which(COMPILER) is None:
        raise MissingError(f"no {COMPILER}, which compiles engine and load (Debian: apt-get install g++)")
    folder.mkdir(parents=True, exist_ok=True)
    made = program.with_suffix(".new")
    command = [COMPILER, *FLAGS, "-o", str(made), str(sources[0])]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise MissingError(f"{' '.join(command)}\n{result.stderr[-4000:]}")
    made.rename(program)
    return program


def environment(requirements: str, name: str, folder: Path = CACHE) -> Path:
    """The folder of programs of an environment with these requirements (a file beside this one). Raises MissingError."""
    wanted = (HERE / requirements).read_text()
    return _installed(folder / name, wanted, requirements, ["--only-binary=:all:", "-r", str(HERE / requirements)])


def wheel(tree: Path, name: str, folder: Path = CACHE) -> Path:
    """The folder of programs of an environment with the compiled wheel of this tree, and the packages of its lock, as in its image: two
    minutes. Raises MissingError.
    """
    lock = tree / "requirements.lock"
    told = hashlib.sha256()
    for source in sorted([tree / "pyproject.toml", tree / "hatch_build.py", lock, *(tree / "sidecar").rglob("*")]):
        if source.is_file() and source.suffix not in (".pyc", ".so"):
            told.update(f"{source.relative_to(tree)}\n".encode() + source.read_bytes())
    packages = ["--only-binary=:all:", "-r", str(lock)]
    return _installed(
        folder / name, told.hexdigest(), str(tree), packages, ["--no-deps", str(tree)], SIDECAR_BUILD="compiled"
    )


def _installed(place: Path, wanted: str, what: str, *installs: list[str], **variables: str) -> Path:
    """The folder of programs of the environment in this place, made anew if `wanted` changed. `installs`: pip's words, one call each."""
    stamp = place / "wanted"
    if stamp.exists() and stamp.read_text() == wanted:
        return place / "bin"
    print(f"installing {what} into {place}", file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    pip = [str(place / "bin/python"), *PIP_INSTALL]
    commands = ([sys.executable, "-m", "venv", str(place)], *([*pip, *words] for words in installs))
    for command in commands:
        result = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
        if result.returncode:
            raise MissingError(
                f"{what} cannot be installed: {' '.join((result.stdout + result.stderr).split())[-400:]}"
            )
    stamp.write_text(wanted)
    return place / "bin"
