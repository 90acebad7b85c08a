"""The small world that dashboards are tried on: two pods of two versions, three lanes, an incident, and a real Prometheus that saw it.

It knows how to make every kind of traffic that a dashboard has a panel for. Only durations differ from what is shipped: rules are
evaluated fifteen times as fast, scrapes come every second. Judges nothing.
"""

import asyncio
import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import yaml

from sidecar.commands.demo.load import LANE_HEADER, Load
from sidecar.commands.export.rules.rule import scaled
from sidecar.commands.simulator.dialect import BYTES_A_TOKEN
from sidecar.commands.simulator.http_face import SimulatedEngine
from sidecar.commands.simulator.replica_presets import SMALL_CHAT
from tests.support.background import background
from tests.support.sidecar_process import running_sidecar
from tests.support.tools import need_tool


RULES = Path(__file__).parents[2] / "alert_rules"
FACTOR = 1 / 15
SCRAPE_SECONDS = 1
NAMESPACE = "demo"
PODS = {"llm-primary-5d8f6c-x7k2p": "v1", "llm-6f7c9d-abcde": "v2"}
"""Names as Flagger's and Argo's deployments have them, to the version that Prometheus is told."""
LANES = ("interactive", "batch", "rag")
RATE = 3.0
"""Requests a second on each pod: enough for every window, and little enough for a machine that does other things too."""
HEALTHY_SECONDS, LEAST_FAULT_SECONDS, MOST_FAULT_SECONDS, AFTER_SECONDS = 18.0, 15.0, 90.0, 12.0
"""The fault lasts until it has paged: pods this young know no usual cost, and a page that names no root waits for one first."""
LENGTHS = (300, 900, 2600, 6000)
"""Prompt tokens of the requests that come first, one after another: what a prompt costs is learned from those that do not queue."""
CONFIG = {
    "lanes": {"header": LANE_HEADER, "names": list(LANES), "default": "interactive"},
    "objectives": {
        "interactive": {
            "ttft": {"threshold_seconds": 0.8, "target": 0.95},
            "tpot": {"threshold_seconds": 0.03, "target": 0.9},
        },
        "batch": {
            "ttft": {"threshold_seconds": 3, "target": 0.9},
            "tpot": {"threshold_seconds": 0.1, "target": 0.9},
            "e2e": {"threshold_seconds": 1, "target": 0.9},
        },
        "rag": {"ttft": {"threshold_seconds": 2, "target": 0.9}, "tpot": {"threshold_seconds": 0.1, "target": 0.9}},
    },
    "proxy": {"client_buffer_bytes": 4096},
    "shutdown": {"lame_duck_seconds": 0},
}


class PrometheusStartError(RuntimeError):
    """It exited or never became ready; the message ends with its log."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer: labels, and every value of it."""

    labels: Mapping[str, str]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class World:
    """The memory of Prometheus between two instants (unix seconds)."""

    url: str
    began_at: float
    ended_at: float

    def over_time(self, query: str) -> list[Series]:
        """A range query, a point every two seconds."""
        result = self._asked("query_range", query=query, start=self.began_at, end=self.ended_at, step=2)["result"]
        return [Series(one["metric"], tuple(float(value) for _, value in one["values"])) for one in result]

    def at_the_end(self, query: str) -> list[Series]:
        """An instant query."""
        result = self._asked("query", query=query, time=self.ended_at)["result"]
        return [Series(one["metric"], (float(one["value"][1]),)) for one in result]

    def exemplars(self, query: str) -> list[dict[str, str]]:
        """The labels of the exemplars behind a query."""
        found = self._asked("query_exemplars", query=query, start=self.began_at, end=self.ended_at)
        return [exemplar["labels"] for one in found for exemplar in one["exemplars"]]

    def label_values(self, selector: str, label: str) -> set[str]:
        """As Grafana asks for a variable's values."""
        found = self._asked("series", **{"match[]": selector, "start": self.began_at, "end": self.ended_at})
        return {one[label] for one in found if label in one}

    def _asked(self, endpoint: str, **parameters: object) -> Any:
        try:
            with urllib.request.urlopen(
                f"{self.url}/api/v1/{endpoint}?{urllib.parse.urlencode(parameters)}", timeout=20
            ) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None


@contextmanager
def lived_through(folder: Path) -> Iterator[World]:
    """A minute or more of traffic with three slots left of 32 in its middle, then its memory, for the length of a `with` block."""
    program = need_tool("prometheus")
    config = folder / "sidecar.yml"
    config.write_text(yaml.safe_dump(CONFIG))
    with ExitStack() as stack:
        thread = stack.enter_context(background())
        engines = [
            stack.enter_context(thread.entered(lambda number=number: SimulatedEngine(SMALL_CHAT, seed=number)))  # type: ignore[misc]
            for number in range(len(PODS))
        ]
        sidecars = [
            stack.enter_context(
                running_sidecar(engine.url, folder, flags=[f"--config.file={config}", "--log.level=warning"])
            )
            for engine in engines
        ]
        targets = dict(zip(PODS, (f"127.0.0.1:{sidecar.web_port}" for sidecar in sidecars), strict=True))
        url = stack.enter_context(_prometheus(str(program), folder, targets))
        began_at = time.time()  # noqa: TID251  Prometheus' own clock
        urls = [f"http://127.0.0.1:{sidecar.port}" for sidecar in sidecars]
        loads = [Load(one, SMALL_CHAT.model, RATE, seed=number) for number, one in enumerate(urls)]
        thread.run(_learned(urls))
        with ExitStack() as going_on:
            for load in loads:
                going_on.enter_context(thread.going_on(load.run()))
            for one in urls:
                going_on.enter_context(thread.going_on(_others(one)))
            # The new version computes prompts more slowly: what a canary is for.
            thread.run(_adjusted(engines[1], prefill_factor=1.6))
            time.sleep(HEALTHY_SECONDS)
            for engine in engines:
                thread.run(_adjusted(engine, slots=3))
            _wait_for_a_page(url)
            for engine in engines:
                thread.run(_adjusted(engine, slots=None))
            for load in loads:
                load.bytes_per_second = 4000
            time.sleep(AFTER_SECONDS)
            ended_at = time.time()  # noqa: TID251  as above
        yield World(url, began_at, ended_at)


def _wait_for_a_page(url: str) -> None:
    """One that lasts for three scrapes, so that every query finds it; after `MOST_FAULT_SECONDS` the tests say what is missing."""
    time.sleep(LEAST_FAULT_SECONDS)
    deadline = time.monotonic() + MOST_FAULT_SECONDS - LEAST_FAULT_SECONDS
    while time.monotonic() < deadline:
        if World(url, 0, time.time()).at_the_end('ALERTS{alertstate="firing",severity="page"}'):  # noqa: TID251  Prometheus' own clock
            break
        time.sleep(SCRAPE_SECONDS)
    time.sleep(3 * SCRAPE_SECONDS)


async def _adjusted(engine: SimulatedEngine, **knobs: object) -> None:
    engine.adjust(**knobs)


async def _learned(urls: list[str]) -> None:
    async def one_by_one(url: str) -> None:
        async with aiohttp.ClientSession(url) as session:
            for number in range(12):
                for tokens in LENGTHS:
                    prompt = f"{number} {tokens} " + "hello " * (tokens * BYTES_A_TOKEN // 6)
                    async with session.post("/v1/chat/completions", json=_chat(prompt, 2, stream=True)) as answer:
                        await answer.read()

    await asyncio.gather(*(one_by_one(url) for url in urls))


def _chat(prompt: str, tokens: int, *, stream: bool) -> dict[str, object]:
    return {
        "model": SMALL_CHAT.model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "stream": stream,
    }


async def _others(url: str) -> None:
    """Requests that the load does not send: answers in one piece, sampled traces, clients that leave, a wrong model, a health check."""
    rng = Random(1)
    async with aiohttp.ClientSession(url) as session:

        async def ask(
            body: dict[str, object], headers: dict[str, str] | None = None, patience_seconds: float = 30.0
        ) -> None:
            timeout = aiohttp.ClientTimeout(total=patience_seconds)
            with suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with session.post("/v1/chat/completions", json=body, headers=headers, timeout=timeout) as answer:
                    await answer.read()

        async with asyncio.TaskGroup() as group:
            while True:
                chat = _chat("hello " * 300, 12, stream=False)
                streamed = chat | {"stream": True}
                trace = f"00-{rng.getrandbits(128):032x}-{rng.getrandbits(64):016x}-01"
                group.create_task(ask(chat, {LANE_HEADER: "batch"}))
                group.create_task(ask(streamed, {"traceparent": trace}))
                group.create_task(ask(streamed, patience_seconds=0.02))  # before its first token
                long_answer = _chat("hello", 400, stream=True)
                group.create_task(ask(long_answer, patience_seconds=0.7))  # in the middle of its answer
                group.create_task(ask(chat | {"model": "not-served-here"}))
                with suppress(aiohttp.ClientError, OSError):
                    (await session.get("/health")).release()
                await asyncio.sleep(0.8)


@contextmanager
def _prometheus(program: str, folder: Path, targets: Mapping[str, str]) -> Iterator[str]:
    for name in ("llm-recording.yml", "llm-alerts.yml"):
        (folder / name).write_text(scaled((RULES / name).read_text(), FACTOR))
    pods = [
        {"targets": [address], "labels": {"namespace": NAMESPACE, "pod": pod, "app_version": PODS[pod]}}
        for pod, address in targets.items()
    ]
    config = {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "llm-*.yml")],
        "scrape_configs": [{"job_name": "llm-phase-sidecar", "static_configs": pods}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [
        *(program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"),
        *(f"--web.listen-address={address}", "--enable-feature=exemplar-storage", "--query.lookback-delta=20s"),
    ]
    log = folder / "prometheus.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                urllib.request.urlopen(f"http://{address}/-/ready", timeout=5).close()
                break
            time.sleep(0.05)
        else:
            raise PrometheusStartError(f"exit status {process.poll()}\n{log.read_text()[-4000:]}")
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait(timeout=10)
