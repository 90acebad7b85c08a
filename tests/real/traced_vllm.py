"""A real vLLM whose spans pass an endpoint that keeps its own values of each generation (`crossroads.py`)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real.crossroads import Crossroads, crossroads
from tests.real.environment import Environment, Say
from tests.real.server import RunningEngine, running_vllm, warm_up


BATCH_SECONDS = 5.0
"""Interval of OpenTelemetry's batch processor; vLLM keeps the default."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A vLLM and the endpoint that its spans pass."""

    engine: RunningEngine
    spans: Crossroads


@contextmanager
def traced_vllm(built: Environment, folder: Path, say: Say, *flags: str) -> Iterator[Traced]:
    with crossroads() as where, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
        with running_vllm(built, folder, say, flags=("--otlp-traces-endpoint", where.url, *flags)) as engine:
            # The first request after a start takes long, and its batch goes to no sidecar.
            warm_up(engine)
            time.sleep(BATCH_SECONDS + 1)
            yield Traced(engine, where)
