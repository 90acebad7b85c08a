"""Starts a real vLLM on the tiny model, waits until it answers, and stops all of its processes.

It knows the flags (`reference/running_real_engines.md` gives the reason for each) and nothing about the sidecar. vLLM's
own `vllm` command looks for a distribution named `vllm` and fails in the CPU build, so the module is run instead.
"""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tests.real.environment import Environment, Say, tail
from tests.support.client import post
from tests.support.ports import free_port


MODEL = "tiny"
SLOTS = 4
"""`--max-num-seqs`: with a dozen clients, four slots cause real queues."""


class EngineStartError(RuntimeError):
    """The engine exited or never became healthy; the message ends with the tail of its log."""


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """An engine that answers on 127.0.0.1:`port`; `model` is the only name it serves."""

    port: int
    log: Path
    model: str = MODEL
    group: int | None = None
    """Process group of all its processes, where it may be stopped and continued."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def metrics(self) -> dict[str, float]:
        """The engine's own /metrics, summed over labels: `{"vllm:num_requests_running": 0.0, ...}`, buckets left
        out."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        sums: dict[str, float] = {}
        for line in lines:
            if line and not line.startswith("#") and "_bucket{" not in line:
                series, value = line.rsplit(" ", 1)
                name = series.split("{", 1)[0]
                sums[name] = sums.get(name, 0.0) + float(value)
        return sums


@contextmanager
def running_vllm(
    environment: Environment,
    folder: Path,
    say: Say,
    *,
    flags: Sequence[str] = (),
    patience_seconds: float = 240.0,
    port: int | None = None,
) -> Iterator[RunningEngine]:
    """A vLLM for the length of a `with` block, its log in `folder`; on any free port unless told. Raises
    EngineStartError."""
    engine = RunningEngine(port or free_port(), folder / "vllm.log")
    command = [
        *(str(environment.python), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(environment.model), "--served-model-name", engine.model),
        *("--host", "127.0.0.1", "--port", str(engine.port)),
        *("--max-model-len", "4096", "--max-num-seqs", str(SLOTS), "--enforce-eager"),
        *("--enable-per-request-metrics", "--enable-prompt-tokens-details"),
        *flags,
    ]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        # One core for the model, the other for serving: if OpenMP's threads spin on all cores, vLLM's own API server
        # starves, and tokens wait there, where its report cannot see them.
        "OMP_NUM_THREADS": "1",
    }
    say(f"starting {engine.url}, log in {engine.log}")
    with engine.log.open("wb") as log:
        # A process group of its own: the API server starts an engine core, which starts a worker, and all must be
        # stopped at the end. Not a session: Linux shares the processor by session, and vLLM's three processes would get
        # one share between them.
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env, process_group=0)
    try:
        wait_until_healthy(engine, process, patience_seconds, say)
        yield replace(engine, group=process.pid)
    finally:
        stop(process)


def wait_until_healthy(
    engine: RunningEngine, process: subprocess.Popen[bytes], patience: float, say: Say, *, path: str = "/health"
) -> None:
    """Return once `path` answers 200. `patience` in seconds. Raises EngineStartError."""
    began = time.monotonic()
    said = began
    while True:
        if process.poll() is not None:
            raise EngineStartError(
                f"the engine exited with {process.returncode} before it answered\n{tail(engine.log)}"
            )
        with (
            suppress(urllib.error.URLError, TimeoutError, ConnectionError),
            urllib.request.urlopen(f"{engine.url}{path}", timeout=2),
        ):
            say(f"  {engine.url} is healthy after {time.monotonic() - began:.0f} s")
            return
        now = time.monotonic()
        if now - began > patience:
            raise EngineStartError(f"the engine was not healthy within {patience:.0f} s\n{tail(engine.log)}")
        if now - said >= 10:
            said = now
            say(f"  waiting for {engine.url}{path} ... {now - began:.0f} s")
        time.sleep(0.25)


def warm_up(engine: RunningEngine) -> None:
    """Let it answer its first request, so that no test measures that one: after an installation it took ten seconds.

    The prompt has more than four tokens. On a processor with AMX, vLLM 0.32 computes fewer rows of a model as small as ours
    without oneDNN, and only oneDNN asks Linux for the right to use AMX (`arch_prctl(ARCH_REQ_XCOMP_PERM)`): a worker whose first
    prompt is shorter dies of an illegal instruction in its attention.
    """
    body = {"model": engine.model, "prompt": "la to mi re nu ka", "max_tokens": 8, "ignore_eos": True}
    question = urllib.request.Request(
        f"{engine.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(question, timeout=120) as answer:
        answer.read()


def endless(engine: RunningEngine, **more: object) -> bytes:
    """A streamed request that ends with the context, unless `more` has `max_tokens`."""
    messages = [{"role": "user", "content": "la to mi"}]
    body = {"model": engine.model, "messages": messages, "ignore_eos": True, "stream": True, **more}
    return post("/v1/chat/completions", body)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the whole process group, first with SIGTERM, then with SIGKILL. The group outlives its leader, so SIGKILL is
    always sent."""
    _signal_group(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=15)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait(timeout=15)


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
