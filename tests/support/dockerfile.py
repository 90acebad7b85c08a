"""The Dockerfile, instruction by instruction, and its commands run without Docker: in virtual environments in a folder.

It knows the form of the project's own Dockerfile. The base image is not there: the interpreter, its libraries and the C compiler are
this machine's, and the paths at the root of the image are below the folder.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.wheels import image_python


CHECKOUT = Path(__file__).parents[2]
DOCKERFILE = CHECKOUT / "Dockerfile"
LOCK = "requirements.lock"


@dataclass
class Stage:
    """One `FROM` with what follows it."""

    image: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, keyword: str) -> list[str]:
        """The arguments of each instruction of this name, in order."""
        return [argument for name, argument in self.instructions if name == keyword]


def stages() -> list[Stage]:
    """The stages of the Dockerfile, without comments, each instruction in one line."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    found: list[Stage] = []
    for line in text.splitlines():
        keyword, _, argument = line.partition(" ")
        if keyword == "FROM":
            found.append(Stage(argument.split()[0].replace("${PYTHON}", image_python())))
        elif keyword and found:  # the argument PYTHON stands before
            found[-1].instructions.append((keyword, " ".join(argument.split())))
    return found


def interpreters() -> Iterator[str]:
    """Pythons of this machine that may stand for the image's, that of its own version first."""
    for name in (f"python{image_python()}", "/usr/bin/python3", sys.executable):
        found = shutil.which(name)
        if found is not None:
            yield found


@dataclass(frozen=True, slots=True)
class Built:
    """A virtual environment with what the image adds to its base. `brought`: files that it had from the beginning."""

    environment: Path
    brought: frozenset[Path]

    def bytes_of(self, *, without: str = "$^") -> int:
        """The bytes of all files that were added, as `docker images` counts them. `without`: a pattern of paths to leave out."""
        added = [path for path in self.environment.rglob("*") if path.is_file() and path not in self.brought]
        counted = [path for path in added if re.search(without, str(path.relative_to(self.environment))) is None]
        return sum(path.stat().st_size for path in counted)


def run_steps(python: str, folder: Path) -> Built:
    """Run the commands of both stages in new environments below the folder."""
    first, last = stages()
    source = folder / "source"
    source.mkdir()
    for argument in first.all("COPY"):
        *names, place = argument.split()
        for name in names:
            given, copy = CHECKOUT / name, source / (name if place == "./" else place)
            copy.parent.mkdir(exist_ok=True)
            skipped = shutil.ignore_patterns("__pycache__")
            shutil.copytree(given, copy, ignore=skipped) if given.is_dir() else shutil.copy(given, copy)
    _fit_lock(source / LOCK, python)
    brought: frozenset[Path] = frozenset()
    for name, stage in (("builder", first), ("image", last)):
        subprocess.run([python, "-m", "venv", str(folder / name)], check=True, timeout=120)
        brought = frozenset((folder / name).rglob("*"))
        for command in stage.all("RUN"):
            if "apt-get" not in command:  # this machine's own compiler serves
                _shell(_here(command, folder), folder / name, source)
    return Built(folder / "image", brought)


def _fit_lock(lock: Path, python: str) -> None:
    """Another Python has other wheels of the same versions: their hashes are not in the lock."""
    version = subprocess.run([python, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    if f" {image_python()}." not in version:
        lock.write_text("\n".join(re.findall(r"^[\w.-]+==[\w.!+-]+", lock.read_text(), re.MULTILINE)) + "\n")


def _here(command: str, folder: Path) -> str:
    command = re.sub(r"--mount=\S+ ", "", command)
    if "--hash" not in (folder / "source" / LOCK).read_text():
        command = command.replace("--require-hashes ", "")
    return re.sub(r"(?<= )/(locked|built|wheels)\b", lambda match: f"{folder}/{match[1]}", command)


def _shell(command: str, environment: Path, cwd: Path) -> None:
    env = os.environ | {"PATH": f"{environment / 'bin'}:{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        ["sh", "-euc", command], cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
