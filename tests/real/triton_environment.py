"""Brings a real Triton, once per machine, outside the checkout: the server that `nvidia-pytriton` carries, with its Python backend.

The environment is a venv beside vLLM's (`environment.py`, whose lock, marks and log it shares), keyed by its pin and its Python. It knows
nothing about serving (`triton_server.py`). pytriton itself is not used: its way to a model starts processes of another Python.
"""

import hashlib
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.real.environment import Say, cache_folder, one_builder, run, step


PYTRITON = "nvidia-pytriton==0.7.0"
"""370 MB."""
TRITON = "Triton 2.51"
"""The server that it carries."""


@dataclass(frozen=True, slots=True)
class TritonBuild:
    server: Path
    backends: Path
    libraries: tuple[Path, ...]
    packages: Path
    """In which the backend's models find NumPy."""


def triton_environment(say: Say) -> TritonBuild:
    """The Triton environment, installed if it does not exist yet (a minute). Raises BuildError."""
    key = hashlib.sha256(f"{PYTRITON} {sys.version}".encode()).hexdigest()[:10]
    folder = cache_folder() / f"{PYTRITON.replace('==', '-')}-{key}"
    with one_builder(folder, say):
        log = folder / "build.log"
        with step(folder / "venv", f"installing {PYTRITON} into {folder}", say) as venv:
            if venv is not None:
                run([sys.executable, "-m", "venv", str(venv)], log, say)
                pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
                run([*pip, "install", PYTRITON], log, say)
                server = _server(folder)
                stub = server / "python_backend_stubs" / f"{sys.version_info.major}.{sys.version_info.minor}"
                found = shutil.copy(stub / "triton_python_backend_stub", server / "backends" / "python")
                Path(found).chmod(0o755)
    server = _server(folder)
    packages = server.parent.parent
    return TritonBuild(
        server / "bin" / "tritonserver",
        server / "backends",
        (packages / "nvidia_pytriton.libs", server / "lib"),
        packages,
    )


def _server(folder: Path) -> Path:
    (server,) = (folder / "venv").glob("lib/python3*/site-packages/pytriton/tritonserver")
    return server
