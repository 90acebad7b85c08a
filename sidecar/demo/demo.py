"""The demo: a simulated engine, the sidecar as its users run it, a mixed load, and a table of the time of each phase.

If Prometheus and Alertmanager are installed, they run beside it with the shipped rules at a faster pace, and the table
shows their alerts. Incidents can be played. This file starts and stops all parts, and has the flags of `sidecar demo`.
The sidecar runs in a process of its own, is configured as by any user, and is read through its /metrics page only.
"""

import argparse
import asyncio
import signal
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from sidecar.demo.incidents import INCIDENTS, LEARNING_SECONDS, SHARE_OF_RATE, acts
from sidecar.demo.load import MIXED, Load
from sidecar.demo.pager import Pager, listening
from sidecar.demo.processes import LOOPBACK, DemoError, bindable, running
from sidecar.demo.servers import INSTALL, alerting, programs
from sidecar.demo.shipped import DEMO, find
from sidecar.demo.stage import Stage
from sidecar.demo.table import screen
from sidecar.demo.view import Sums, read_page, rows
from sidecar.simulator.http_face import SimulatedEngine
from sidecar.simulator.operating_point import describe, rate_for_mean_queue
from sidecar.simulator.replica_presets import PRESETS, SMALL_CHAT, Preset


CONFIG = Path(__file__).with_name("demo.yml")
TABLE_SECONDS = 60.0
POD = "demo-0"


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of the demo's listeners, on loopback; 0 means any free port."""

    proxy: int = 8900
    web: int = 9901
    engine: int = 0

    def chosen(self) -> "Ports":
        """The same ports; each 0 of the sidecar's becomes a free port. Raises DemoError if a port is taken."""
        engine = bindable("--engine-port", self.engine) if self.engine else 0
        return Ports(bindable("--port", self.proxy), bindable("--admin-port", self.web), engine)


async def run(
    preset: Preset,
    *,
    rate: float,
    ports: Ports,
    incident: str | None = None,
    duration_seconds: float | None = None,
    seed: int = 0,
    every_seconds: float = 1.0,
    terminal: bool = False,
) -> None:
    """Run until SIGINT, SIGTERM or the duration's end. `incident`: a name, `all` or None (none). Raises DemoError."""
    ports = ports.chosen()
    proxy_url, web_url = f"http://{LOOPBACK}:{ports.proxy}", f"http://{LOOPBACK}:{ports.web}"
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(SimulatedEngine(preset, host=LOOPBACK, port=ports.engine, seed=seed))
        admin = await stack.enter_async_context(aiohttp.ClientSession(web_url))
        sidecar = await stack.enter_async_context(
            running(
                "the sidecar",
                _command(engine.url, ports),
                ready_url=f"{web_url}/-/ready",
                env={"SIDECAR_QUANTIZATION": preset.quantization, "SIDECAR_GPU_TYPE": preset.gpu_type},
                given_up=stop,
            )
        )
        print(f"engine       {engine.url} (simulated {preset.name})")
        print(f"sidecar      {proxy_url}  <- point any OpenAI client here, model {engine.model}")
        print(f"metrics      {web_url}/metrics")
        print(f"status page  {web_url}/")
        pager = None if stop.is_set() else await _alerting(stack, ports, web_url)
        print(
            f"load         {rate:.2f} requests per second: interactive chat, batch summaries, long RAG prompts; Ctrl-C ends it",
            flush=True,
        )
        load = Load(proxy_url, engine.model, rate, seed=seed)
        stage = Stage(engine, load)
        tasks: list[asyncio.Task[object]] = [
            asyncio.create_task(load.run()),
            asyncio.create_task(_show(admin, load, stage, pager, every_seconds, terminal=terminal)),
            asyncio.create_task(sidecar.wait()),
            asyncio.create_task(stop.wait()),
        ]
        if incident is not None:
            tasks.append(asyncio.create_task(stage.play(acts(incident))))
        try:
            done, _ = await asyncio.wait(tasks, timeout=duration_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
        if sidecar.returncode is not None:
            raise DemoError(f"the sidecar ended by itself with exit code {sidecar.returncode}")
    print(
        f"\n{load.sent} requests sent, {load.answered} answered, {load.failed} failed, the rest were unfinished at the end."
    )


def _command(engine_url: str, ports: Ports) -> list[str]:
    return [
        *(sys.executable, "-m", "sidecar", "serve", f"--engine.url={engine_url}", f"--config.file={CONFIG}"),
        *(
            f"--proxy.listen-address={LOOPBACK}:{ports.proxy}",
            f"--web.listen-address={LOOPBACK}:{ports.web}",
            "--log.level=warning",
        ),
    ]


async def _alerting(stack: AsyncExitStack, ports: Ports, web_url: str) -> Pager | None:
    """Start Prometheus and Alertmanager with the shipped rules. If a part is missing, print which, and return None."""
    found, shipped = programs(), find(DEMO)
    if shipped is None:
        print("alerts       none: this package was built without the rules; install the wheel of llm-phase-sidecar")
        return None
    if found is None:
        print(f"alerts       none: they need Prometheus and Alertmanager on PATH. On Debian:  {INSTALL}")
        return None
    pager = Pager()
    sink_url = await stack.enter_async_context(listening(pager))
    pods = {POD: f"{LOOPBACK}:{ports.web}"}
    servers = await stack.enter_async_context(
        alerting(found, shipped, pods, sink_url, runbooks_url=f"{web_url}/runbooks")
    )
    print(f"Prometheus   {servers.prometheus_url}/alerts")
    print(f"Alertmanager {servers.alertmanager_url}")
    print(
        f"alerts       the rules and routes of alert_rules/, {DEMO.times:g} times as fast: 5 minutes take {DEMO.seconds(300)}"
    )
    return pager


async def _show(
    admin: aiohttp.ClientSession, load: Load, stage: Stage, pager: Pager | None, every_seconds: float, *, terminal: bool
) -> None:
    pages: deque[Sums] = deque([{}], maxlen=max(2, round(TABLE_SECONDS / every_seconds) + 1))
    with screen(terminal=terminal) as shown:
        while True:
            await asyncio.sleep(every_seconds)
            with suppress(aiohttp.ClientError, OSError):
                async with admin.get("/metrics") as page:
                    pages.append(read_page(await page.text()))
            status = [f"sent {load.sent}, answered {load.answered}, failed {load.failed}", stage.now_playing()]
            told = () if pager is None else pager.shown(asyncio.get_running_loop().time())
            if pager is not None and not any(alert.firing for alert in told):
                status.append("no alert fires" if pager.watchdogs else "no alert yet")
            shown.show(rows(pages[0], pages[-1]), "; ".join(part for part in status if part), told)


def _flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sidecar demo",
        description="Run a simulated engine, the sidecar in front of it and a mixed load, and show where each request's time goes.",
    )
    parser.add_argument(
        "--preset", choices=PRESETS, default=SMALL_CHAT.name, help="the simulated replica (default %(default)s)"
    )
    parser.add_argument(
        "--rate",
        type=float,
        help="requests per second (default: the rate with a mean queue of 90 ms, found by simulation;"
        f" {SHARE_OF_RATE:.0%} of it with --incident, so that each fault shows in its own phase)".replace("%", "%%"),
    )
    parser.add_argument(
        "--incident",
        choices=[*INCIDENTS, "all"],
        help=f"play this fault for a minute after each healthy minute (the first time after {LEARNING_SECONDS / 60:g}"
        " minutes), until the end; all: play all faults in turn. "
        + "; ".join(f"{incident.name}: {incident.description}" for incident in INCIDENTS.values())
        + f". Made for the preset {SMALL_CHAT.name}",
    )
    parser.add_argument("--duration", type=float, help="seconds until the demo ends by itself (default: until Ctrl-C)")
    parser.add_argument(
        "--port", type=int, default=8900, help="the sidecar's traffic port, 0: any (default %(default)s)"
    )
    parser.add_argument(
        "--admin-port", type=int, default=9901, help="the port of its admin pages, 0: any (default %(default)s)"
    )
    parser.add_argument("--engine-port", type=int, default=0, help="the simulated engine's port (default: any)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random load (default %(default)s)")
    parser.add_argument(
        "--plain", action="store_true", help="print lines instead of a live table (always if the output is no terminal)"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Run `sidecar demo` and return the exit code: 0 ended as asked (also by Ctrl-C), 1 failed, 2 wrong usage."""
    try:
        flags = _flags().parse_args(argv)
    except SystemExit as stop:  # argparse's way to return
        return stop.code if isinstance(stop.code, int) else 2
    if (flags.rate is not None and not 0 < flags.rate < 1000) or (
        flags.duration is not None and not flags.duration > 0
    ):
        print("sidecar demo: --rate must be between 0 and 1000, --duration above 0", file=sys.stderr)
        return 2
    preset = PRESETS[flags.preset]
    terminal = sys.stdout.isatty() and not flags.plain
    ports = Ports(flags.port, flags.admin_port, flags.engine_port)
    try:
        ports.chosen()  # a taken port is reported before the simulation, which takes ten seconds
        if flags.rate is None:
            print("Simulating, to find the rate at which the mean queue is 90 ms ...", flush=True)
            print(describe(preset), flush=True)
        asyncio.run(
            run(
                preset,
                rate=flags.rate or _rate(preset, flags.incident),
                ports=ports,
                incident=flags.incident,
                duration_seconds=flags.duration,
                seed=flags.seed,
                every_seconds=1.0 if terminal else 5.0,
                terminal=terminal,
            )
        )
    except DemoError as error:
        print(f"sidecar demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before the loop has its own handler
        return 0
    return 0


def _rate(preset: Preset, incident: str | None) -> float:
    return rate_for_mean_queue(preset, MIXED, requests=1000) * (1.0 if incident is None else SHARE_OF_RATE)
