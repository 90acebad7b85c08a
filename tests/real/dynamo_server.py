"""Starts a real Dynamo: its frontend, and mockers in place of engines; waits until it answers, and stops all of it.

Workers are found through files (`--discovery-backend file`), so that neither etcd nor NATS is needed. The mocker decides and waits as vLLM's
scheduler does, and its delays are simulated: a prompt's cost grows with its length, and a KV cache moves at `BANDWIDTH_GB` a second.
"""

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tests.real.dynamo_environment import DynamoBuild
from tests.real.environment import Say, tail
from tests.real.server import SLOTS, EngineStartError, RunningEngine, stop
from tests.support.ports import free_port


BANDWIDTH_GB, BYTES_PER_TOKEN = 0.1, 25_000
TRANSFER_SECONDS_PER_TOKEN = BYTES_PER_TOKEN / (BANDWIDTH_GB * 1e9)
"""Seconds that the mocker of a disaggregated decode worker waits for each token's KV cache."""


class Shape(Enum):
    """The workers of one Dynamo, each of them with its own flags, and the frontend's."""

    AGGREGATED = ((), ((),))
    KV_ROUTED = (("--router-mode", "kv"), ((), ()))
    DISAGGREGATED = (("--router-mode", "kv"), (("prefill",), ("decode",)))


@dataclass(frozen=True, slots=True)
class RunningDynamo(RunningEngine):
    """A Dynamo. Each worker's page of metrics has a port of its own."""

    workers: tuple[int, ...] = ()
    trace: Path = Path()
    """The file of its request trace; with gzip the beginning of the files' names."""
    worker_processes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def worker_page(self, worker: int) -> dict[str, float]:
        """The sums on one worker's page, over all labels."""
        return RunningEngine(self.workers[worker], self.log).metrics()


@contextmanager
def running_dynamo(
    build: DynamoBuild,
    folder: Path,
    say: Say,
    shape: Shape = Shape.AGGREGATED,
    *,
    flags: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    worker_flags: Sequence[str] = (),
    bandwidth_gb: float = BANDWIDTH_GB,
    patience_seconds: float = 60.0,
    port: int | None = None,
) -> Iterator[RunningDynamo]:
    """A Dynamo for the length of a `with` block, its logs and its trace in `folder`. `variables`: of the frontend's environment.
    `bandwidth_gb`: between disaggregated workers, GB a second; 0 moves at once. Raises EngineStartError."""
    frontend_flags, workers = shape.value
    engine = RunningDynamo(
        port or free_port(),
        folder / "frontend.log",
        workers=tuple(free_port() for _ in workers),
        trace=folder / "trace.jsonl",
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DYN_"))} | {
        "HF_HUB_OFFLINE": "1",
        "DYN_FILE_KV": str(folder / "found"),
        "DYN_LOG": "warn",
    }
    planes = ("--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq")
    traced = {
        "DYN_REQUEST_TRACE": "1",
        "DYN_REQUEST_TRACE_SINKS": "jsonl",
        "DYN_REQUEST_TRACE_OUTPUT_PATH": str(engine.trace),
        "DYN_REQUEST_TRACE_JSONL_FLUSH_INTERVAL_MS": "100",
    }
    frontend = ["-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", str(engine.port), *planes]
    say(f"starting {engine.url}, logs in {folder}")
    with ExitStack() as started:
        process = _started(
            started,
            [str(build.python), *frontend, *frontend_flags, *flags],
            engine.log,
            env | traced | dict(variables or {}),
        )
        for worker, roles in enumerate(workers):
            mocker = ["-m", "dynamo.mocker", "--model-path", str(build.model), "--model-name", engine.model, *planes]
            for role in roles:
                mocker += ["--disaggregation-mode", role, "--kv-transfer-bandwidth", str(bandwidth_gb)]
                mocker += ["--kv-bytes-per-token", str(BYTES_PER_TOKEN)]
            own = env | {"DYN_SYSTEM_PORT": str(engine.workers[worker])}
            log = folder / f"worker{worker}.log"
            command = [str(build.python), *mocker, "--max-num-seqs", str(SLOTS), *worker_flags]
            engine.worker_processes.append(_started(started, command, log, own))
        _wait_until_served(engine, process, patience_seconds, say)
        yield engine


def _started(stack: ExitStack, command: Sequence[str], path: Path, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """A process that is stopped at the end of the stack."""
    with path.open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env, process_group=0)
    stack.callback(stop, process)
    return process


def _wait_until_served(engine: RunningDynamo, process: "subprocess.Popen[bytes]", patience: float, say: Say) -> None:
    """Return once it answers a request: its frontend lists the model before the router has found all workers."""
    began = time.monotonic()
    body = json.dumps({"model": engine.model, "prompt": "la to mi", "max_tokens": 2}).encode()
    question = urllib.request.Request(f"{engine.url}/v1/completions", body, {"Content-Type": "application/json"})
    while True:
        with suppress(OSError), urllib.request.urlopen(question, timeout=5):
            break
        if process.poll() is not None or time.monotonic() - began > patience:
            raise EngineStartError(f"Dynamo does not answer\n{tail(engine.log)}")
        time.sleep(0.25)
    say(f"  {engine.url} answers after {time.monotonic() - began:.0f} s")
