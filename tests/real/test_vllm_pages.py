"""Five incidents on a real vLLM, each paged by its phase: a cut processor share, an engine that stops, slots taken by long
answers, long prompts, clients that read slowly.

The true phase of each is written down before anything runs: it follows from what is done to the engine or its clients.
The path from the sidecar to the receiver is as in `tests/test_pages.py`: real servers, shipped rules and routes,
fifteen times as fast.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from statistics import median

import aiohttp
import pytest

from sidecar.commands.demo.load import Load
from sidecar.commands.simulator.workload import Shape, Workload
from sidecar.pod.costs.step_model import PREFILL_SECONDS
from sidecar.pod.reading import READING_SECONDS
from tests.real import cpu_share
from tests.real.clients import TWELVE_TOKENS, ask_again_and_again
from tests.real.server import SLOTS, RunningEngine
from tests.support.alert_stack import AlertStack, alert_stack
from tests.support.background import Background, background
from tests.support.prometheus import explained
from tests.support.sidecar_process import SidecarProcess, running_sidecar


CONFIG = """
lanes: {header: X-Lane, names: [interactive, talkers, documents, readers, jobs], default: interactive}
objectives:
  interactive: {ttft: {threshold_seconds: 1.5}, tpot: none}
  talkers: {tpot: {threshold_seconds: %.4f, target: 0.9}}
  documents: {ttft: {threshold_seconds: 0.25, target: 0.9}}
  readers: {tpot: {threshold_seconds: 0.06, target: 0.9}}
proxy: {client_buffer_bytes: 4096}
"""
TALKERS_TOKENS = 30
THRESHOLD_OF_SLOWED = 0.6
"""The talkers' threshold is this share of the time per token that is measured with the engine's processor share cut."""
ORDINARY = Workload((Shape(1.0, 20, 16, lane="interactive"),))
"""Three short requests per second, before, during and after each incident."""
TALKERS = Workload((Shape(1.0, 20, TALKERS_TOKENS, lane="talkers"),))
"""One per second with a longer answer, just as steadily: nothing about the traffic changes when the engine is slowed."""
ALL_IS_USUAL = 'vector(1) unless on () max(llm_evidence_ratio{cause=~"decode_cost|prefill_cost|longer_outputs"}) > 1.2'
READERS = Workload((Shape(1.0, 20, 150, lane="readers"),))


@dataclass(frozen=True, slots=True)
class Pod:
    """vLLM, the sidecar in front of it, and the alert stack that scrapes it."""

    engine: RunningEngine
    thread: Background
    sidecar: SidecarProcess
    stack: AlertStack

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.sidecar.port}"

    @property
    def model(self) -> str:
        return self.engine.model

    def load(self, rate: float, workload: Workload) -> Load:
        return Load(self.url, self.model, rate, workload=workload)


@pytest.fixture(scope="module")
def pod(vllm: RunningEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    folder = tmp_path_factory.mktemp("pages")
    config = folder / "sidecar.yml"
    with background() as thread:
        config.write_text(CONFIG % talkers_threshold_seconds(thread, vllm))
        with (
            running_sidecar(vllm.url, folder, flags=[f"--config.file={config}"]) as sidecar,
            alert_stack(thread, sidecar) as stack,
        ):
            found = Pod(vllm, thread, sidecar, stack)
            with thread.going_on(found.load(3.0, ORDINARY).run()), thread.going_on(found.load(1.0, TALKERS).run()):
                yield found


def talkers_threshold_seconds(thread: Background, engine: RunningEngine) -> float:
    """A time per token that this engine keeps on this machine, and does not keep with its processor share cut."""
    calm = thread.run(token_seconds(engine))
    with thread.going_on(cpu_share.cut(engine)):
        slowed = thread.run(token_seconds(engine))
    threshold = THRESHOLD_OF_SLOWED * slowed
    assert calm < threshold / 1.3, (
        f"{calm:.4f} s per token, and {slowed:.4f} s with the share cut: the cut slows too little"
    )
    return threshold


async def token_seconds(engine: RunningEngine, seconds: float = 4.0) -> float:
    """The engine's time per token with two clients, the median over so many seconds."""
    found: list[float] = []
    body = {"model": engine.model, "prompt": TWELVE_TOKENS, "max_tokens": TALKERS_TOKENS, "ignore_eos": True}

    async def client(session: aiohttp.ClientSession) -> None:
        until = time.monotonic() + seconds
        while (began := time.monotonic()) < until:
            async with session.post("/v1/completions", json=body) as answer:
                await answer.read()
            found.append((time.monotonic() - began) / TALKERS_TOKENS)

    async with aiohttp.ClientSession(engine.url) as session:
        await asyncio.gather(client(session), client(session))
    return median(found)


def decode_slowed(pod: Pod) -> Coroutine[None, None, None]:
    """The same requests come, and each step of the engine takes some three times as long."""
    return cpu_share.cut(pod.engine)


def engine_stopped(pod: Pod) -> Coroutine[None, None, None]:
    """The engine's processes stand still: its socket takes connections, and nothing answers."""
    return cpu_share.take_all(pod.engine)


def slots_taken(pod: Pod) -> Coroutine[None, None, None]:
    """Three times as many long answers as there are slots: a new request waits for one to end, and nothing else is
    slow."""
    return ask_again_and_again(pod.url, pod.model, 3 * SLOTS, "jobs", repeats=1, max_tokens=1_500)


def long_prompts(pod: Pod) -> Coroutine[None, None, None]:
    """One client at a time with prompts of 3,600 tokens: it finds a slot at once, and waits only for its own prompt."""
    return ask_again_and_again(pod.url, pod.model, 1, "documents", repeats=300, max_tokens=8)


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
    play(pod, *TRUTH[name])


def test_an_engine_whose_processor_share_is_cut_is_paged_as_decode(pod: Pod) -> None:
    assert play(pod, decode_slowed, "talkers", "decode") == ["decode"]


def test_an_engine_that_stops_is_paged_as_engine(pod: Pod) -> None:
    """The last, because a silence is the present incident's lead for minutes, and the rules forget it in seconds here."""
    assert play(pod, engine_stopped, "interactive", "engine") == ["engine"]


def play(pod: Pod, incident: Incident, lane: str, phase: str) -> list[str]:
    """Let the incident happen until the lane is paged by this phase, and wait for the message that it is over; returns
    the phases of all pages.
    """
    stack = pod.stack
    stack.wait_until_calm()
    # Rules forget in some seconds here; the sidecar compares costs and the lengths of answers over its whole windows, and the long
    # answers of one incident were taken for the next one's reason. What is dearer after that is the machine.
    stack.prometheus.wait_for(ALL_IS_USUAL, patience_seconds=PREFILL_SECONDS + READING_SECONDS)
    before = len(stack.sink.notifications)
    with explained(stack.prometheus, stack.sink):
        with pod.thread.going_on(incident(pod)):
            receiver, page = stack.page_about(lane, before)
        assert page, "no page came"
        assert (receiver, page["labels"]["phase"]) == (f"/{phase}/page", phase)
        assert stack.resolution(page, phase, before), "the page came, but no message that it is over"
    return stack.paged(before)
