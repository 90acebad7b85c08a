"""Three incidents on a real vLLM, each paged by its phase: slots taken by long answers, long prompts, clients that read
slowly.

The true phase of each is written down before anything runs: it follows from what is done to the engine or its clients.
The path from the sidecar to the receiver is as in `tests/test_pages.py`: real servers, shipped rules and routes,
fifteen times as fast.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass

import aiohttp
import pytest

from sidecar.demo.load import LANE_HEADER, Load
from sidecar.simulator.workload import Shape, Workload
from tests.real.server import SLOTS, RunningEngine
from tests.support.alert_stack import AlertStack, alert_stack
from tests.support.background import Background, background
from tests.support.prometheus import explained
from tests.support.sidecar_process import SidecarProcess, running_sidecar


CONFIG = """
lanes: {header: X-Lane, names: [interactive, documents, readers, jobs], default: interactive}
objectives:
  interactive: {ttft: {threshold_seconds: 1.5}, tpot: none}
  documents: {ttft: {threshold_seconds: 0.25, target: 0.9}}
  readers: {tpot: {threshold_seconds: 0.06, target: 0.9}}
proxy: {client_buffer_bytes: 4096}
"""
TWELVE_TOKENS = "la to mi re nu ka so ti be da vo an "
ORDINARY = Workload((Shape(1.0, 20, 16, lane="interactive"),))
"""Three short requests per second, before, during and after each incident."""
READERS = Workload((Shape(1.0, 20, 150, lane="readers"),))


@dataclass(frozen=True, slots=True)
class Pod:
    """vLLM, the sidecar in front of it, and the alert stack that scrapes it."""

    thread: Background
    sidecar: SidecarProcess
    model: str
    stack: AlertStack

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.sidecar.port}"

    def load(self, rate: float, workload: Workload) -> Load:
        return Load(self.url, self.model, rate, workload=workload)


@pytest.fixture(scope="module")
def pod(vllm: RunningEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    folder = tmp_path_factory.mktemp("pages")
    config = folder / "sidecar.yml"
    config.write_text(CONFIG)
    with (
        background() as thread,
        running_sidecar(vllm.url, folder, flags=[f"--config.file={config}"]) as sidecar,
        alert_stack(thread, sidecar) as stack,
    ):
        found = Pod(thread, sidecar, vllm.model, stack)
        with thread.going_on(found.load(3.0, ORDINARY).run()):
            yield found


async def ask_again_and_again(pod: Pod, clients: int, lane: str, repeats: int, max_tokens: int) -> None:
    """So many clients, each of which sends its next request after an answer. No two prompts begin alike."""
    numbers = iter(range(1_000_000))

    async def client(session: aiohttp.ClientSession) -> None:
        for number in numbers:
            body = {
                "model": pod.model,
                "prompt": f"{number} {TWELVE_TOKENS * repeats}",
                "max_tokens": max_tokens,
                "ignore_eos": True,
                "stream": True,
            }
            async with session.post("/v1/completions", json=body, headers={LANE_HEADER: lane}) as answer:
                await answer.read()

    async with aiohttp.ClientSession(pod.url) as session:
        await asyncio.gather(*(client(session) for _ in range(clients)))


def slots_taken(pod: Pod) -> Coroutine[None, None, None]:
    """Three times as many long answers as there are slots: a new request waits for one to end, and nothing else is
    slow."""
    return ask_again_and_again(pod, 3 * SLOTS, "jobs", repeats=1, max_tokens=1_500)


def long_prompts(pod: Pod) -> Coroutine[None, None, None]:
    """One client at a time with prompts of 3,600 tokens: it finds a slot at once, and waits only for its own prompt."""
    return ask_again_and_again(pod, 1, "documents", repeats=300, max_tokens=8)


def slow_readers(pod: Pod) -> Coroutine[None, None, None]:
    """Clients read a kilobyte per second where vLLM writes forty: the tokens are ready, and the client does not read
    them."""
    load = pod.load(2.0, READERS)
    load.bytes_per_second = 1_000
    return load.run()


Incident = Callable[[Pod], Coroutine[None, None, None]]
TRUTH: dict[str, tuple[Incident, str, str]] = {
    "slots taken": (slots_taken, "interactive", "queue"),
    "long prompts": (long_prompts, "documents", "prefill"),
    "slow readers": (slow_readers, "readers", "stream"),
}
"""Incident to what is done, the lane that suffers, and the phase that must be paged."""


@pytest.mark.parametrize("name", TRUTH)
def test_what_is_done_to_a_real_engine_is_paged_by_its_phase(pod: Pod, name: str) -> None:
    incident, lane, phase = TRUTH[name]
    before = pod.stack.wait_until_calm()
    with explained(pod.stack.prometheus, pod.stack.sink):
        with pod.thread.going_on(incident(pod)):
            receiver, page = pod.stack.page_about(lane, before)
        assert page, "no page came"
        assert (receiver, page["labels"]["phase"]) == (f"/{phase}/page", phase)
        assert pod.stack.resolution(page, phase, before), "the page came, but no message that it is over"
