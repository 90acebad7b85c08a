"""Brings a real collector of OTLP, once per machine, outside the checkout: Rotel, a Rust program that its wheel on PyPI carries.

OpenTelemetry's own Collector cannot be had from a package registry: its modules of Go are on a proxy that machines here do not reach, and the
one wheel that carries a Collector has no OTLP receiver in it. Rotel has read and written OTLP by code of its own. The environment is a
folder beside vLLM's (`environment.py`, whose lock, marks and log it shares), keyed by its pin and its Python.
"""

import hashlib
import sys
from pathlib import Path

from tests.real.environment import Say, cache_folder, one_builder, run, step


ROTEL = "rotel==0.0.1a15"
"""10 MB."""


def rotel_program(say: Say) -> Path:
    """The program, installed if it does not exist yet. Raises BuildError."""
    key = hashlib.sha256(f"{ROTEL} {sys.version}".encode()).hexdigest()[:10]
    folder = cache_folder() / f"{ROTEL.replace('==', '-')}-{key}"
    with one_builder(folder, say), step(folder / "venv", f"installing {ROTEL} into {folder}", say) as venv:
        if venv is not None:
            log = folder / "build.log"
            run([sys.executable, "-m", "venv", str(venv)], log, say)
            pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
            run([*pip, "install", "--no-deps", ROTEL], log, say)
    (program,) = (folder / "venv").glob("lib/python3*/site-packages/rotel/rotel-agent")
    return program
