"""Brings a real NVIDIA Dynamo, once per machine, outside the checkout: its frontend and its router, and its mocker in place of an engine.

The environment is a venv beside vLLM's (`environment.py`, whose lock, marks and log it shares), keyed by its pins and its Python. It knows
nothing about serving (`dynamo_server.py`). The mocker computes nothing: it sleeps for as long as an engine of its kind would take, and its
scheduler decides as vLLM's does.
"""

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.real.environment import Say, cache_folder, one_builder, run, step


DYNAMO = "ai-dynamo==1.6.1"
ALONE = (DYNAMO,)
"""Without its requirements: of `aisimulate` the index has only a stub that downloads from another index. The mocker here needs it not."""
BESIDE = (
    "ai-dynamo-runtime==1.6.1",
    "aiohttp==3.14.5",
    "msgspec==0.23.0",
    "prometheus-client==0.26.0",
    "pyzmq==27.3.0",
    "redis==8.1.0",
    "transformers==5.24.0",
    "zstandard==0.25.0",
)


@dataclass(frozen=True, slots=True)
class DynamoBuild:
    """A finished environment: `python` runs the frontend and the mocker, on `model`'s tokenizer."""

    python: Path
    model: Path


def dynamo_environment(model: Path, say: Say) -> DynamoBuild:
    """The Dynamo environment, installed if it does not exist yet (40 s and 500 MB). `model`: a folder with its words. Raises BuildError."""
    key = hashlib.sha256(" ".join((*ALONE, *BESIDE, sys.version)).encode()).hexdigest()[:10]
    folder = cache_folder() / f"{DYNAMO.replace('==', '-')}-{key}"
    python = folder / "venv" / "bin" / "python"
    with one_builder(folder, say):
        log = folder / "build.log"
        with step(folder / "venv", f"installing {DYNAMO} into {folder}", say) as venv:
            if venv is not None:
                run([sys.executable, "-m", "venv", str(venv)], log, say)
                pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install"]
                run([*pip, "--no-deps", *ALONE], log, say)
                run([*pip, *BESIDE], log, say)
    return DynamoBuild(python, model)
