"""A real vLLM that hangs is told from one that loads, is busy, is idle, or has clients that do not read.

A hang is an engine core that is stopped while streams run: the API server still answers `/health` with 200. Sidecars in
front of the same engine are stopped and killed for half a minute meanwhile. Each probe asks as the kubelet does, with the
numbers of the shipped manifest, and counts no answer as a failure.
"""

import asyncio
import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sidecar.pod.liveness.progress import LEAVES_SECONDS, PROVEN_SECONDS, YOUNG_SECONDS
from sidecar.pod.liveness.silence import STALL_SECONDS
from tests.real import cpu_share
from tests.real.environment import Environment, Say
from tests.real.server import SLOTS, RunningEngine, running_vllm, warm_up
from tests.real.told import page_of
from tests.support.background import background
from tests.support.client import Connection, post
from tests.support.ports import free_port
from tests.support.probes import ABSENT_SECONDS, probes
from tests.support.scenario_loop import play
from tests.support.sidecar_process import SidecarProcess, running_sidecar


CONTEXT = 8_000
"""Tokens that fit the model."""
TOLD_SECONDS = 15.0
"""A stall is told within this time after the last output."""
PATIENCE_SECONDS = 120.0


def asked(port: int, path: str, patience_seconds: float) -> tuple[int, str]:
    """Status and text; 0 if there is no answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=patience_seconds) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()
    except OSError:
        return 0, ""


@dataclass(frozen=True, slots=True)
class Look:
    """One answer of `/-/engine`, and of `/-/ready` after it; `at` in monotonic seconds."""

    at: float
    status: int
    engine: dict[str, Any]
    ready: int
    why: str

    @property
    def state(self) -> str:
        return str(self.engine.get("state"))


@dataclass(slots=True)
class Watch:
    """A thread that asks a sidecar at this port, at an interval, until the `with` block ends."""

    port: int
    interval_seconds: float = 0.5
    patience_seconds: float = 10.0
    looks: list[Look] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> Look:
        status, text = asked(self.port, "/-/engine", self.patience_seconds)
        ready, why = asked(self.port, "/-/ready", self.patience_seconds) if status else (0, "")
        return Look(time.monotonic(), status, json.loads(text) if text else {}, ready, why.strip())

    def failures(self) -> int:
        """The most failures of the probe in a row; no answer is one."""
        most = now = 0
        for look in self.looks:
            now = 0 if look.status == 200 else now + 1
            most = max(most, now)
        return most

    def run(self) -> None:
        while True:
            began = time.monotonic()
            self.looks.append(self.look())
            if self.over.wait(max(0.0, began + self.interval_seconds - time.monotonic())):
                return

    @contextmanager
    def going_on(self) -> Iterator["Watch"]:
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield self
        finally:
            self.over.set()
            thread.join()


@dataclass(frozen=True, slots=True)
class Pod:
    """An engine, its sidecar, and what this sidecar said while the engine loaded its model."""

    engine: RunningEngine
    sidecar: SidecarProcess
    loading: Watch
    up_at: float

    def watch(self) -> Watch:
        return Watch(self.sidecar.web_port)

    def wait_until_old(self) -> None:
        """Until the sidecar makes claims about the engine."""
        time.sleep(max(0.0, self.up_at + YOUNG_SECONDS + 3.0 - time.monotonic()))

    def wait_for(self, wanted: Callable[[Look], bool], patience_seconds: float = PATIENCE_SECONDS) -> Look:
        """The first look that is as wanted; after the time limit the last one, whatever it is."""
        watch, deadline = self.watch(), time.monotonic() + patience_seconds
        while not wanted(look := watch.look()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return look


@pytest.fixture(scope="module")
def pod(vllm_built: Environment, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    """The sidecar starts first, as in the manifest."""
    folder, port = tmp_path_factory.mktemp("stalls"), free_port()
    with running_sidecar(f"http://127.0.0.1:{port}", folder, until="/-/healthy") as sidecar:
        loading = Watch(sidecar.web_port)
        with ExitStack() as stack:
            with loading.going_on():
                flags = ("--max-model-len", f"{CONTEXT}")
                engine = stack.enter_context(running_vllm(vllm_built, folder, say, flags=flags, port=port))
            up_at = time.monotonic()
            warm_up(engine)
            yield Pod(engine, sidecar, loading, up_at)


def streaming(engine: RunningEngine, tokens: int, prompt: str = "la to mi") -> bytes:
    return post(
        "/v1/completions",
        {"model": engine.model, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "stream": True},
    )


@contextmanager
def streams(pod: Pod, count: int, *ports: int) -> Iterator[None]:
    """Endless streams over each of these ports for the length of a `with` block: one that ends or breaks begins anew."""

    async def one(port: int) -> None:
        while True:
            with suppress(OSError, ValueError):
                connection = await Connection.open(port)
                try:
                    await connection.request(streaming(pod.engine, 2_000))
                finally:
                    connection.abort()
            await asyncio.sleep(0.2)

    async def all_of_them() -> None:
        await asyncio.gather(*(one(port) for port in ports for _ in range(count)))

    with background() as thread, thread.going_on(all_of_them()):
        yield


def test_an_engine_that_loads_its_model_is_not_taken_for_one_that_hangs(pod: Pod) -> None:
    """The pod gets no traffic, and no probe fails."""
    before = [look for look in pod.loading.looks if look.at < pod.up_at - 3.0]

    assert len(before) > 5
    assert {(look.status, look.state, look.ready) for look in before} == {(200, "unsure", 503)}


def test_half_a_minute_without_the_sidecar_does_not_spend_the_probes_budget(pod: Pod, tmp_path: Path) -> None:
    """One sidecar is stopped and continued, one is killed and started anew; streams run through both. The engine is well
    all the time, and so they say as soon as they answer."""
    probe = probes()["engine"]
    with ExitStack() as stack:
        stopped = stack.enter_context(running_sidecar(pod.engine.url, tmp_path))
        killed = stack.enter_context(running_sidecar(pod.engine.url, tmp_path))
        watches = [
            stack.enter_context(Watch(each.web_port, probe["periodSeconds"], probe["timeoutSeconds"]).going_on())
            for each in (stopped, killed)
        ]
        stack.enter_context(streams(pod, 2, stopped.port, killed.port))
        time.sleep(2.0)
        os.kill(stopped.process.pid, signal.SIGSTOP)
        killed.process.kill()
        time.sleep(ABSENT_SECONDS)
        os.kill(stopped.process.pid, signal.SIGCONT)
        ports = (killed.port, killed.web_port)
        again = stack.enter_context(running_sidecar(pod.engine.url, tmp_path, ports=ports))
        late = Watch(stopped.web_port).look()
        young = Watch(again.web_port).look()
        time.sleep(probe["periodSeconds"] + 1.0)
        blamed = [page_of(each)["llm_engine_stalled_seconds_total"][0][1] for each in (stopped, again)]

    assert blamed == [0.0, 0.0]
    assert [1 <= watch.failures() < probe["failureThreshold"] for watch in watches] == [True, True]
    assert [watch.looks[-1].status for watch in watches] == [200, 200]
    assert {look.status for watch in watches for look in watch.looks} == {0, 200}
    assert (late.state, young.state) == ("unsure", "unsure")


def test_an_idle_engine_is_fine(pod: Pod) -> None:
    pod.wait_until_old()
    time.sleep(STALL_SECONDS + 2.0)
    look = pod.watch().look()

    assert (look.status, look.state, look.ready) == (200, "fine", 200)


def test_an_engine_that_is_busy_with_the_longest_prompt_is_not_taken_for_one_that_hangs(pod: Pod, say: Say) -> None:
    """It is as long as fits, and the engine has a seventh of its processor time: it sends nothing for longer than eight
    seconds, and its work explains that. On a fast machine it has less, until the silence is as long."""
    pod.wait_until_old()

    async def scenario(prompt: str, stops_seconds: float) -> int:
        cutting = asyncio.create_task(cpu_share.cut(pod.engine, stops_seconds))
        connection = await Connection.open(pod.sidecar.port)
        try:
            answer = await connection.request(streaming(pod.engine, 4, prompt))
        finally:
            cutting.cancel()
            await asyncio.gather(cutting, return_exceptions=True)
        return answer.status

    def longest(watch: Watch) -> float:
        return max(float(look.engine["silent_seconds"]) for look in watch.looks)

    words, statuses = ["la", "to", "mi", "re", "nu", "ka"], set()
    with pod.watch().going_on() as watch:
        for times in (6, 12, 24, 48):
            prompt = f"{' '.join(words)} " * 1_180
            statuses.add(play(scenario(prompt, times * cpu_share.RUNS_SECONDS), patience_seconds=PATIENCE_SECONDS))
            if longest(watch) > STALL_SECONDS:
                break
            words = [*words[1:], words[0]]  # or the engine would know the prompt
    took = watch.looks[-1].at - watch.looks[0].at
    say(f"longest silence of the busy engine: {longest(watch):.1f} s, in {took:.0f} s")

    assert (statuses, longest(watch) > STALL_SECONDS) == ({200}, True)
    assert {(look.status, look.state, look.ready) for look in watch.looks} == {(200, "fine", 200)}


def structured(engine: RunningEngine, properties: int) -> bytes:
    """A short prompt whose answer must have this many properties, each of them with a pattern."""
    text = {"type": "string", "pattern": "^[a-z]{1,50}(x|y){2,20}$"}
    items = {"type": "array", "minItems": 3, "maxItems": 50, "items": text}
    schema = {"type": "object", "properties": {f"p{number}": items for number in range(properties)}}
    return post(
        "/v1/chat/completions",
        {
            "model": engine.model,
            "messages": [{"role": "user", "content": "la to mi"}],
            "max_tokens": 4,
            "stream": True,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        },
    )


def test_an_engine_that_compiles_a_grammar_is_not_taken_for_one_that_hangs(pod: Pod, say: Say) -> None:
    """Only that request waits, its prompt costs little, and none of the engine's counts grows for longer than 8 s."""
    pod.wait_until_old()

    async def scenario(properties: int) -> int:
        connection = await Connection.open(pod.sidecar.port)
        return (await connection.request(structured(pod.engine, properties))).status

    def longest(watch: Watch) -> float:
        return max(float(look.engine["silent_seconds"]) for look in watch.looks)

    with pod.watch().going_on() as watch:
        statuses = []
        for properties in (400, 800, 1600, 3200):
            statuses.append(play(scenario(properties), patience_seconds=2 * PATIENCE_SECONDS))
            if longest(watch) > STALL_SECONDS + 2.0:
                break
    say(f"longest silence of the compiling engine: {longest(watch):.1f} s, with {len(statuses)} grammars")

    assert (set(statuses), longest(watch) > STALL_SECONDS) == ({200}, True)
    assert {(look.status, look.state, look.ready) for look in watch.looks} == {(200, "fine", 200)}


def test_an_engine_whose_clients_do_not_read_is_not_taken_for_one_that_hangs(pod: Pod) -> None:
    """The whole answer waits on its way, and nothing is read from the engine for longer than a stall takes."""
    pod.wait_until_old()
    with socket.socket() as client, pod.watch().going_on() as watch:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", pod.sidecar.port))
        client.sendall(streaming(pod.engine, CONTEXT - 100))
        paused = pod.wait_for(lambda look: "do not read" in look.engine["reason"])
        time.sleep(STALL_SECONDS + 4.0)
        after = watch.look()

    assert (paused.state, after.state, after.engine["reason"]) == ("unsure", "unsure", paused.engine["reason"])
    assert {(look.status, look.ready) for look in watch.looks} == {(200, 200)}


def test_an_engine_whose_core_is_stopped_while_streams_run_is_told_though_its_health_is_200(pod: Pod, say: Say) -> None:
    """Not up within 15 s, with the reason, and a minute after the last output not ready. The probe of its container fails in between. When
    the core goes on, so does everything."""
    pod.wait_until_old()
    with streams(pod, SLOTS, pod.sidecar.port):
        time.sleep(3.0)
        before = pod.watch().look()
        with cpu_share.core_stopped(pod.engine):
            stopped_at = time.monotonic()
            told = pod.wait_for(lambda look: look.state == "stalled")
            page = page_of(pod.sidecar)
            health = asked(pod.engine.port, "/health", 5.0)[0]
            failed = pod.wait_for(lambda look: look.status == 503)
            # A look is two answers, one after the other: a change between them makes it contradict itself, so both are awaited.
            away = pod.wait_for(lambda look: (look.state, look.ready) == ("stalled", 503))
        after = pod.wait_for(lambda look: (look.status, look.state, look.ready) == (200, "fine", 200), 15.0)
    gauges = {name: page[name][0][1] for name in ("llm_engine_up", "llm_engine_stalled")}
    say(f"the stall was told after {told.at - stopped_at:.1f} s, and proven after {failed.at - stopped_at:.1f} s")

    assert (before.status, before.state, before.ready) == (200, "fine", 200)
    assert told.at - stopped_at < TOLD_SECONDS
    assert "has stopped in the middle of its work" in away.why
    assert LEAVES_SECONDS[1] - 1.0 <= away.at - stopped_at < LEAVES_SECONDS[1] + 5.0
    assert (told.status, told.state, told.ready, health) == (200, "stalled", 200, 200)
    assert gauges == {"llm_engine_up": 0.0, "llm_engine_stalled": 1.0}
    assert PROVEN_SECONDS + STALL_SECONDS <= failed.at - stopped_at < PROVEN_SECONDS + TOLD_SECONDS + 2.0
    assert (after.status, after.state, after.ready) == (200, "fine", 200)
