"""The ends of answers of a real llama.cpp server: full context, shutdown, `kill -9`. Each signal takes an engine of its own."""

import signal
from pathlib import Path

import pytest

from tests.real import ends
from tests.real.environment import Say
from tests.real.llama_cpp_environment import LlamaCpp
from tests.real.llama_cpp_server import running_llama_cpp
from tests.real.server import SLOTS, warm_up
from tests.support.sidecar_process import running_sidecar


COUNTERS = ends.Counters("llamacpp:prompt_tokens_total", "llamacpp:tokens_predicted_total", has_cached=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["shut down", "killed"])
def test_each_answer_is_counted_as_it_ended(
    number: signal.Signals, llama_cpp_built: LlamaCpp, say: Say, tmp_path: Path
) -> None:
    """llama.cpp divides its context among its slots."""
    flags = ("--ctx-size", str(SLOTS * ends.CONTEXT_TOKENS))
    with (
        running_llama_cpp(llama_cpp_built, tmp_path, say, flags=flags) as engine,
        running_sidecar(engine.url, tmp_path) as sidecar,
    ):
        warm_up(engine)
        ends.full_context_ends_well(engine, sidecar, COUNTERS)
        ends.too_long_a_prompt_is_the_clients(engine, sidecar)
        ends.a_signal_is_counted_as_it_was_seen(engine, sidecar, number)
