"""A setting that changes with a restart of a real vLLM: fewer slots are paged as the queue, and guessed tokens as nothing.

The true phase follows from what is done, and is written down before anything runs. While the process is gone its requests fail, and that is
the engine's page. The path from the sidecar to the receiver is as in `tests/test_pages.py`: real servers, shipped rules and routes, fifteen
times as fast.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sidecar.commands.demo.load import Load
from sidecar.commands.simulator.workload import Shape, Workload
from tests.real.environment import Environment, Say
from tests.real.server import running_vllm, warm_up
from tests.support.alert_stack import AlertStack, alert_stack
from tests.support.background import background
from tests.support.ports import free_port
from tests.support.prometheus import explained
from tests.support.sidecar_process import running_sidecar


CONFIG = """
lanes: {header: X-Lane, names: [interactive, jobs], default: interactive}
objectives:
  interactive: {ttft: {threshold_seconds: 1.5}}
  jobs: {ttft: {threshold_seconds: 1.5, target: 0.9}}
"""
ORDINARY = Workload((Shape(0.75, 20, 16, lane="interactive"), Shape(0.25, 20, 200, lane="jobs")))
"""Short and longer answers: some four run at once on sixteen slots, and one slot cannot keep up."""
RATE = 4.0
SIXTEEN, ONE = ("--max-num-seqs", "16"), ("--max-num-seqs", "1")
GUESSES = ("--speculative-config", json.dumps({"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}))
PATIENCE_SECONDS = 120.0
WATCHED_SECONDS = 60.0
"""Some 15 minutes of the shipped rules."""
GONE = {"engine", "unattributed"}
"""The phases that a restart alone may be paged as: the process was gone, and what waited for it had to wait."""


@dataclass
class Pod:
    """A vLLM that can be started anew with other settings, behind one sidecar and the alert stack."""

    environment: Environment
    folder: Path
    say: Say
    port: int = field(default_factory=free_port)
    _running: ExitStack = field(default_factory=ExitStack)

    def start(self, *flags: str) -> str:
        """Start the engine with these settings in place of the running one; returns its address."""
        self._running.close()
        engine = self._running.enter_context(
            running_vllm(self.environment, self.folder, self.say, flags=flags, port=self.port)
        )
        warm_up(engine)
        return engine.url

    def stop(self) -> None:
        self._running.close()


@pytest.fixture(scope="module")
def pod(
    vllm_built: Environment, say: Say, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pod, AlertStack]]:
    folder = tmp_path_factory.mktemp("restarts")
    config = folder / "sidecar.yml"
    config.write_text(CONFIG)
    found = Pod(vllm_built, folder, say)
    try:
        url = found.start(*SIXTEEN)
        with (
            background() as thread,
            running_sidecar(url, folder, flags=[f"--config.file={config}"]) as sidecar,
            alert_stack(thread, sidecar) as stack,
            thread.going_on(Load(f"http://127.0.0.1:{sidecar.port}", "tiny", RATE, workload=ORDINARY).run()),
        ):
            yield found, stack
    finally:
        found.stop()


def test_tokens_that_are_guessed_and_no_longer_guessed_are_no_fault(pod: tuple[Pod, AlertStack]) -> None:
    engine, stack = pod
    before = stack.wait_until_calm()

    with explained(stack.prometheus, stack.sink):
        for flags in ((*SIXTEEN, *GUESSES), SIXTEEN):
            engine.start(*flags)
            time.sleep(WATCHED_SECONDS)

        assert {*stack.paged(before)} <= GONE


def test_slots_that_a_restart_cut_are_paged_as_the_queue(pod: tuple[Pod, AlertStack]) -> None:
    """The seeds' post-mortem. The restart itself is the engine's page, while the process is gone; it is no reason afterwards."""
    engine, stack = pod
    before = stack.wait_until_calm()

    with explained(stack.prometheus, stack.sink):
        engine.start(*ONE)
        page = stack.page("queue", before, PATIENCE_SECONDS)

        assert page, "no page of the queue came"
        assert {*stack.paged(before)} <= GONE | {"queue"}
