"""Starts a real llama.cpp server with four slots on the tiny model, waits until it answers, and stops it.

It knows the flags and nothing about the sidecar. It runs the binary, not the package's `llama-cpp-server`, which is a
wrapper with other flags.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.real.environment import Say
from tests.real.llama_cpp_environment import LlamaCpp
from tests.real.server import SLOTS, RunningEngine, stop, wait_until_healthy
from tests.support.ports import free_port


@contextmanager
def running_llama_cpp(
    build: LlamaCpp, folder: Path, say: Say, *, flags: Sequence[str] = (), patience_seconds: float = 60.0
) -> Iterator[RunningEngine]:
    """A llama.cpp server for the length of a `with` block, its log in `folder`. Raises EngineStartError."""
    engine = RunningEngine(free_port(), folder / "llama-cpp.log")
    command = [
        *(str(build.server), "--model", str(build.model), "--alias", engine.model),
        *("--host", "127.0.0.1", "--port", str(engine.port), "--no-webui"),
        *("--parallel", str(SLOTS), "--ctx-size", str(SLOTS * 4096), "--metrics"),
        # One core for the model, the other for serving: threads that spin between tokens would starve the clients.
        *("--threads", "1", "--threads-batch", "1"),
        *flags,
    ]
    libraries = {"LD_LIBRARY_PATH": str(build.server.parent)}
    say(f"starting {engine.url}, log in {engine.log}")
    with engine.log.open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | libraries, process_group=0
        )
    try:
        wait_until_healthy(engine, process, patience_seconds, say)
        yield replace(engine, group=process.pid)
    finally:
        stop(process)
