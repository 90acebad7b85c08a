"""The ends of answers of a real vLLM: full context, shutdown, `kill -9`. Each signal takes an engine of its own."""

import signal
from pathlib import Path

import pytest

from tests.real import ends
from tests.real.environment import Environment, Say
from tests.real.server import running_vllm, warm_up
from tests.support.sidecar_process import running_sidecar


COUNTERS = ends.Counters("vllm:prompt_tokens_total", "vllm:generation_tokens_total", has_cached=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["shut down", "killed"])
def test_each_answer_is_counted_as_it_ended(
    number: signal.Signals, vllm_built: Environment, say: Say, tmp_path: Path
) -> None:
    """At SIGTERM vLLM stops its engine and leaves its streams open, until SIGKILL cuts them: the outcome is what the client saw."""
    flags = ("--max-model-len", str(ends.CONTEXT_TOKENS))
    with (
        running_vllm(vllm_built, tmp_path, say, flags=flags) as engine,
        running_sidecar(engine.url, tmp_path) as sidecar,
    ):
        warm_up(engine)
        ends.full_context_ends_well(engine, sidecar, COUNTERS)
        ends.too_long_a_prompt_is_the_clients(engine, sidecar)
        ends.a_signal_is_counted_as_it_was_seen(engine, sidecar, number)
