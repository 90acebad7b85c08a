"""Starts a real Triton on two models of its Python backend, waits until it answers, and stops it.

Both stream PIECES of text: the first after PREFILL_SECONDS, each further one STEP_SECONDS later, and one request after another, so that
Triton queues the others. `batched` waits in Triton's queue for DELAY_SECONDS, in case another request comes to share its batch. Sleeps stand
for the computing: what a request waited in the queue, and what it computed, is known without Triton's own numbers. The first piece says how long
it took in truth, since a busy machine sleeps longer: seconds since Triton handed the requests over.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.real.environment import Say
from tests.real.server import RunningEngine, stop, wait_until_healthy
from tests.real.triton_environment import TritonBuild
from tests.support.ports import free_port


PREFILL_SECONDS, STEP_SECONDS, PIECES, DELAY_SECONDS = 0.08, 0.01, 8, 0.05

_MODEL = f"""\
import sys
import time
sys.path.insert(0, "%s")
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        began = time.monotonic()
        for request in requests:
            sender, shape = request.get_response_sender(), pb.get_input_tensor_by_name(request, "text_input").shape()
            time.sleep({PREFILL_SECONDS})
            for number in range({PIECES}):
                time.sleep({STEP_SECONDS} if number else 0)
                said = f" w{{number}}" if number else f"{{time.monotonic() - began:.6f}}"
                text = np.full(shape, said.encode(), dtype=object)
                sender.send(pb.InferenceResponse([pb.Tensor("text_output", text)]))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
_CONFIG = """\
backend: "python"
input [{name: "text_input" data_type: TYPE_STRING dims: [1]}]
output [{name: "text_output" data_type: TYPE_STRING dims: [1]}]
model_transaction_policy {decoupled: true}
instance_group [{count: 1 kind: KIND_CPU}]
"""
_ADDED = {
    "talker": "max_batch_size: 0\n",
    "batched": f"max_batch_size: 8\ndynamic_batching {{max_queue_delay_microseconds: {DELAY_SECONDS * 1e6:.0f}}}\n",
}


@dataclass(frozen=True, slots=True)
class RunningTriton(RunningEngine):
    """A Triton; its page of metrics has a port of its own."""

    metrics_port: int = 0

    def sums(self, name: str) -> float:
        """One of the sums on its page of metrics, over all models, in seconds where it counts microseconds."""
        page = RunningEngine(self.metrics_port, self.log).metrics()
        return page[name] / (1e6 if name.endswith("_us") else 1.0)


@contextmanager
def running_triton(
    build: TritonBuild, folder: Path, say: Say, *, patience_seconds: float = 60.0
) -> Iterator[RunningTriton]:
    """A Triton for the length of a `with` block, its log and its models in `folder`. Raises EngineStartError."""
    for model, added in _ADDED.items():
        (folder / "models" / model / "1").mkdir(parents=True)
        (folder / "models" / model / "1" / "model.py").write_text(_MODEL % build.packages)
        (folder / "models" / model / "config.pbtxt").write_text(_CONFIG + added)
    engine = RunningTriton(free_port(), folder / "triton.log", metrics_port=free_port())
    command = [
        *(str(build.server), f"--model-repository={folder / 'models'}", f"--backend-directory={build.backends}"),
        *("--http-address=127.0.0.1", f"--http-port={engine.port}", f"--metrics-port={engine.metrics_port}"),
        *("--allow-grpc=false", "--allow-gpu-metrics=false"),
    ]
    libraries = {"LD_LIBRARY_PATH": ":".join(map(str, build.libraries))}
    say(f"starting {engine.url}, log in {engine.log}")
    with engine.log.open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | libraries, process_group=0
        )
    try:
        wait_until_healthy(engine, process, patience_seconds, say, path="/v2/health/ready")
        yield engine
    finally:
        stop(process)
