"""A whole chain on real servers, with one thing changed: sidecar, Prometheus, Alertmanager, pager, and a Grafana that has dashboards.

A scenario changes a `Plan` before the servers start, so that exactly one link is broken. Rules and routes are the shipped ones with
short durations (`sidecar/commands/demo/shipped.py`).
"""

import asyncio
import io
import json
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from sidecar.cli import main
from sidecar.commands.demo.processes import running
from sidecar.commands.demo.servers import INSTALL, Servers, programs
from sidecar.commands.demo.shipped import FASTEST, find, prometheus_config
from sidecar.commands.doctor.gathered import MetricsPage
from sidecar.commands.export.rules.annotations import DASHBOARDS
from sidecar.commands.export.shipped_files import ALERT_RULES, shipped
from sidecar.commands.simulator.http_face import SimulatedEngine
from sidecar.commands.simulator.replica_presets import SMALL_CHAT
from tests.support.background import Background
from tests.support.ports import free_port
from tests.support.sidecar_process import SidecarProcess, running_sidecar
from tests.support.sink import Sink
from tests.support.tools import missing


TEMPLATES = shipped(ALERT_RULES) / "templates"
_ONE_AT_A_TIME = threading.Lock()
"""Chains run side by side, and there is one stdout."""


@dataclass(slots=True)
class Plan:
    """All that a scenario may change before the servers start."""

    rules: dict[str, str]
    """File name to text."""
    prometheus: dict[str, Any]
    alertmanager: dict[str, Any] | None
    """None: it is not started."""
    sidecar: SidecarProcess
    flags: list[str] = field(default_factory=list)
    """Further flags of the doctor; a later one wins."""

    @property
    def target(self) -> dict[str, Any]:
        """The one static_config of Prometheus."""
        found: dict[str, Any] = self.prometheus["scrape_configs"][0]["static_configs"][0]
        return found

    def receiver(self, name: str) -> dict[str, Any]:
        assert self.alertmanager is not None
        found: dict[str, Any] = next(one for one in self.alertmanager["receivers"] if one["name"] == name)
        return found


Change = Callable[[Plan], object]


@dataclass(frozen=True, slots=True)
class Examined:
    """The answer of one run of the command."""

    exit_code: int
    document: Mapping[str, Any]

    @property
    def broken(self) -> list[str]:
        return list(self.document["broken"])

    @property
    def unknown(self) -> list[str]:
        return list(self.document["unknown"])

    def said(self, link: str) -> str:
        return next(f"{one['said']} -> {one['do']}" for one in self.document["links"] if one["link"] == link)


def doctor(*flags: str) -> Examined:
    """One run of `sidecar doctor --output=json`."""
    out = io.StringIO()
    with _ONE_AT_A_TIME, redirect_stdout(out):
        code = main(["doctor", "--output=json", *flags])
    return Examined(code, json.loads(out.getvalue()))


@dataclass(frozen=True, slots=True)
class Chain:
    """The servers, ready and settled."""

    servers: Servers
    flags: Sequence[str]

    def examine(
        self, *flags: str, until: Sequence[str] = (), but: Sequence[str] | None = None, patience_seconds: float = 20.0
    ) -> Examined:
        """The doctor's answer once exactly the links `until` are broken, or its last answer when patience ends.

        `but`: and exactly these are unknown.
        """
        deadline = time.monotonic() + patience_seconds
        while True:
            found = doctor(*self.flags, *flags)
            settled = found.broken == list(until) and (but is None or found.unknown == list(but))
            if settled or time.monotonic() > deadline:
                return found
            time.sleep(0.5)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The part of the chain that all scenarios share."""

    thread: Background
    sink: Sink
    grafana_url: str
    folder: Path

    @contextmanager
    def chain(self, sidecar: SidecarProcess, change: Change = lambda _plan: None) -> Iterator[Chain]:
        """All servers over this sidecar, with one thing changed. Skips, or in CI fails, if a program is missing."""
        found, files = programs(), find(FASTEST)
        if found is None:
            missing(f"Prometheus and Alertmanager are not installed (Debian: {INSTALL})")
        assert files is not None
        folder = self.folder / str(free_port())
        folder.mkdir()
        prometheus, alertmanager = (f"127.0.0.1:{free_port()}" for _ in range(2))
        runbooks = f"http://127.0.0.1:{sidecar.web_port}/runbooks"
        texts = {
            name: text.replace(DASHBOARDS, f"{self.grafana_url}/d") for name, text in files.rules(runbooks).items()
        }
        plan = Plan(
            texts,
            prometheus_config([], alertmanager, {"demo-0": f"127.0.0.1:{sidecar.web_port}"}, files.pace),
            files.routes(self.sink.url, folder),
            sidecar,
        )
        change(plan)
        paths = []
        for name, text in plan.rules.items():
            (folder / name).write_text(text)
            paths.append(str(folder / name))
        plan.prometheus["rule_files"] = paths
        (folder / "prometheus.yml").write_text(yaml.safe_dump(plan.prometheus))
        commands: dict[str, tuple[str, ...]] = {
            "Prometheus": (
                *(found.prometheus, f"--config.file={folder / 'prometheus.yml'}", "--query.lookback-delta=20s"),
                *(f"--storage.tsdb.path={folder / 'prometheus'}", f"--web.listen-address={prometheus}"),
                "--rules.alert.resend-delay=2s",
            )
        }
        if plan.alertmanager is not None:
            (folder / "alertmanager.yml").write_text(yaml.safe_dump(plan.alertmanager))
            commands["Alertmanager"] = (
                *(found.alertmanager, f"--config.file={folder / 'alertmanager.yml'}", "--cluster.listen-address="),
                *(f"--storage.path={folder / 'alertmanager'}", f"--web.listen-address={alertmanager}"),
            )
        urls = {"Prometheus": f"http://{prometheus}", "Alertmanager": f"http://{alertmanager}"}
        with self.thread.entered(lambda: _all_running(commands, urls)):
            _settle(urls["Prometheus"], alerting="alerting" in plan.prometheus)
            yield Chain(
                Servers(*urls.values()),
                (
                    f"--sidecar.url=http://127.0.0.1:{sidecar.web_port}",
                    f"--proxy.url=http://127.0.0.1:{sidecar.port}",
                    f"--prometheus.url={urls['Prometheus']}",
                    f"--alertmanager.url={urls['Alertmanager']}",
                    f"--alertmanager.templates={TEMPLATES}",
                    *plan.flags,
                ),
            )


@asynccontextmanager
async def _all_running(commands: Mapping[str, Sequence[str]], urls: Mapping[str, str]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for name, command in commands.items():
            await stack.enter_async_context(running(name, command, ready_url=f"{urls[name]}/-/ready"))
        yield


def _settle(url: str, *, alerting: bool, patience_seconds: float = 40.0) -> None:
    """Wait until each target was scraped once, each rule was evaluated once, and Alertmanager is known."""
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        targets = _data(f"{url}/api/v1/targets")["activeTargets"]
        loaded = [rule for group in _data(f"{url}/api/v1/rules")["groups"] for rule in group["rules"]]
        known = not alerting or _data(f"{url}/api/v1/alertmanagers")["activeAlertmanagers"]
        if targets and loaded and known and all(one["health"] != "unknown" for one in (*targets, *loaded)):
            return
        time.sleep(0.2)


def _data(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)["data"]
        return found


async def send(url: str, model: str, count: int) -> None:
    """So many short streamed requests, twenty at a time; each is read to its end."""
    places = asyncio.Semaphore(20)

    async def one(client: aiohttp.ClientSession, number: int) -> None:
        body = {"model": model, "prompt": f"{number} la to mi", "max_tokens": 3, "stream": True}
        async with places, client.post(f"{url}/v1/completions", json=body) as answer:
            assert answer.status == 200
            await answer.read()

    async with aiohttp.ClientSession() as client:
        await asyncio.gather(*(one(client, number) for number in range(count)))


@contextmanager
def attached(
    thread: Background, folder: Path, *, through: int, past: int = 0, wrap: tuple[str, ...] = (), mute: bool = False
) -> Iterator[SidecarProcess]:
    """A sidecar in front of a simulated engine, after so many requests `through` it and `past` it."""
    with ExitStack() as stack:
        engine = stack.enter_context(thread.entered(lambda: SimulatedEngine(SMALL_CHAT, per_request_metrics=not mute)))
        sidecar = stack.enter_context(running_sidecar(engine.url, folder, wrap=wrap))
        # The engine's page names its count of requests once there was one: two readings with the name, then the growth counts.
        thread.run(send(f"http://127.0.0.1:{sidecar.port}", engine.model, 4))
        wait_for(sidecar, scrapes_of(sidecar) + 2)
        thread.run(send(f"http://127.0.0.1:{sidecar.port}", engine.model, through))
        thread.run(send(engine.url, engine.model, past))
        wait_for(sidecar, scrapes_of(sidecar) + 2)
        yield sidecar


def scrapes_of(sidecar: SidecarProcess) -> float:
    """Readings of the engine's page of metrics by the sidecar."""
    return MetricsPage(sidecar.page("/metrics").encode()).value("llm_engine_scrapes_total", result="ok") or 0.0


def wait_for(sidecar: SidecarProcess, scrapes: float, patience_seconds: float = 30.0) -> None:
    """Until the engine's page was read so often, or patience ends."""
    deadline = time.monotonic() + patience_seconds
    while scrapes_of(sidecar) < scrapes and time.monotonic() < deadline:
        time.sleep(0.2)


def active_tests(chain: Chain, patience_seconds: float = 15.0) -> list[str]:
    """The jobs of the TEST alerts that Alertmanager holds for active, when there is none or patience ends."""
    deadline = time.monotonic() + patience_seconds
    while True:
        with urllib.request.urlopen(f"{chain.servers.alertmanager_url}/api/v2/alerts", timeout=10) as answer:
            jobs = [one["labels"]["job"] for one in json.load(answer) if one["labels"].get("test") == "TEST"]
        if not jobs or time.monotonic() > deadline:
            return jobs
        time.sleep(0.2)
