"""The demo: a simulated engine, the sidecar as its users run it, a mixed load, and a table of the time of each phase.

If Prometheus and Alertmanager are installed, they run beside it with the shipped rules at a faster pace, and the table
shows their alerts. Incidents can be played. This file starts and stops all parts, and has the flags of `sidecar demo`.
The sidecar runs in a process of its own, is configured as by any user, and is read through its /metrics page only.
"""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from time import monotonic

import aiohttp

from sidecar.commands.demo.demo_flags import Ports, parser, problems
from sidecar.commands.demo.event_log import EventLog
from sidecar.commands.demo.incidents import HEALS_SECONDS, SHARE_OF_RATE, VIEWING_SECONDS, acts
from sidecar.commands.demo.load import Load
from sidecar.commands.demo.operating_points import load_rate, shipped_point
from sidecar.commands.demo.pager import Pager, listening
from sidecar.commands.demo.processes import LOOPBACK, DemoError, running
from sidecar.commands.demo.servers import INSTALL, alerting, programs
from sidecar.commands.demo.shipped import DEMO, NAMESPACE, find
from sidecar.commands.demo.stage import Stage
from sidecar.commands.demo.table import screen
from sidecar.commands.demo.usual import usual_file, variables
from sidecar.commands.demo.view import Sums, read_page, rows
from sidecar.commands.simulator.http_face import SimulatedEngine
from sidecar.commands.simulator.operating_point import describe
from sidecar.commands.simulator.replica_presets import PRESETS, Preset
from sidecar.config.folding import FAILED, MISUSED, OK, errors_text
from sidecar.logs.placement import FROM_KUBERNETES


CONFIG = Path(__file__).with_name("demo.yml")
TABLE_SECONDS = 60.0
POD = "demo-0"


def _program() -> str:
    """The installed program, as a person types it in this folder."""
    beside = Path(sys.executable).with_name("sidecar")
    return str(Path(os.path.relpath(beside))) if beside.exists() else "sidecar"


async def run(
    preset: Preset,
    *,
    rate: float,
    ports: Ports,
    log: EventLog,
    incident: str | None = None,
    usual: Path | None = None,
    duration_seconds: float | None = None,
    look_seconds: float = VIEWING_SECONDS,
    seed: int = 0,
    every_seconds: float = 1.0,
    terminal: bool = False,
) -> None:
    """Run until SIGINT, SIGTERM or the duration's end. `incident`: a name, `all` or None (none); `usual`: the file of usual
    values that the sidecar is given; None: it learns; `look_seconds`: from a page to the end of its fault. Raises DemoError.
    """
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
                env={
                    "SIDECAR_QUANTIZATION": preset.quantization,
                    "SIDECAR_GPU_TYPE": preset.gpu_type,
                    FROM_KUBERNETES["pod"]: POD,
                    FROM_KUBERNETES["namespace"]: NAMESPACE,
                    **variables(usual),
                },
                given_up=stop,
            )
        )
        print(f"engine       {engine.url} (simulated {preset.name})")
        print(f"sidecar      {proxy_url}")
        print(f"             <- point any OpenAI client here, model {engine.model}")
        print(f"metrics      {web_url}/metrics")
        print(f"status page  {web_url}/")
        print(f"diagnosis    {_program()} diagnose --sidecar.url={web_url}")
        print(
            f"usual values {'shipped with the demo; --learn does without' if usual else 'none: the sidecar learns them'}"
        )
        pager = Pager(log)
        alerted = not stop.is_set() and await _alerting(stack, ports, web_url, pager)
        print(f"load         {rate:.2f} requests per second: interactive chat, batch summaries,")
        print("             long RAG prompts; Ctrl-C ends it", flush=True)
        load = Load(proxy_url, engine.model, rate, seed=seed)
        stage = Stage(engine, load, log, pager if alerted else None, look_seconds=look_seconds)
        tasks: list[asyncio.Task[object]] = [
            asyncio.create_task(load.run()),
            asyncio.create_task(
                _show(admin, load, stage, pager if alerted else None, every_seconds, terminal=terminal)
            ),
            asyncio.create_task(sidecar.wait()),
            asyncio.create_task(stop.wait()),
        ]
        if incident is not None:
            tasks.append(asyncio.create_task(stage.play(acts(incident, learns=usual is None))))
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
        f"\n{load.sent} requests sent, {load.answered} answered, {load.failed} failed,\nthe rest were unfinished at the end."
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


async def _alerting(stack: AsyncExitStack, ports: Ports, web_url: str, pager: Pager) -> bool:
    """Start Prometheus and Alertmanager with the shipped rules. If a part is missing, print which, and return False."""
    found, shipped = programs(), find(DEMO)
    if shipped is None:
        print("alerts       none: this package was built without the rules;")
        print("             install the wheel of llm-phase-sidecar")
        return False
    if found is None:
        print(f"alerts       none: they need Prometheus and Alertmanager on PATH. On Debian:\n             {INSTALL}")
        return False
    sink_url = await stack.enter_async_context(listening(pager))
    pods = {POD: f"{LOOPBACK}:{ports.web}"}
    servers = await stack.enter_async_context(
        alerting(found, shipped, pods, sink_url, runbooks_url=f"{web_url}/runbooks")
    )
    print(f"Prometheus   {servers.prometheus_url}/alerts")
    print(f"Alertmanager {servers.alertmanager_url}")
    print(
        f"alerts       the shipped rules and routes, {DEMO.times:g} times as fast: 5 minutes take {DEMO.seconds(300)}"
    )
    return True


async def _show(
    admin: aiohttp.ClientSession, load: Load, stage: Stage, pager: Pager | None, every_seconds: float, *, terminal: bool
) -> None:
    pages: deque[tuple[float, Sums]] = deque([(0.0, {})])
    clock, news = asyncio.get_running_loop().time, asyncio.Event()
    if pager is not None:
        pager.on_news = news.set
    with screen(terminal=terminal) as shown:
        while True:
            with suppress(TimeoutError):  # a page is shown when it comes
                await asyncio.wait_for(news.wait(), every_seconds)
            news.clear()
            with suppress(aiohttp.ClientError, OSError):
                async with admin.get("/metrics") as page:
                    pages.append((clock(), read_page(await page.text())))
            while len(pages) > 2 and pages[1][0] <= clock() - TABLE_SECONDS:
                pages.popleft()
            status = [f"sent {load.sent}, answered {load.answered}, failed {load.failed}", stage.now_playing()]
            told = () if pager is None else pager.shown(clock())
            if pager is not None and not any(alert.firing for alert in told):
                status.append("no alert fires" if pager.watchdogs else "no alert yet")
            shown.show(rows(pages[0][1], pages[-1][1]), "; ".join(part for part in status if part), told)


def main(argv: Sequence[str]) -> int:
    """Run `sidecar demo` and return the exit code: 0 ended as asked (also by Ctrl-C), 1 failed, 2 wrong usage."""
    try:
        flags = parser().parse_args(argv)
    except SystemExit as stop:  # argparse's way to return
        return stop.code if isinstance(stop.code, int) else MISUSED
    wrong = list(problems(flags))
    if wrong:
        sys.stderr.write(errors_text(f"sidecar demo: {each}" for each in wrong))
        return MISUSED
    preset = PRESETS[flags.preset]
    terminal = sys.stdout.isatty() and not flags.plain
    try:
        ports = Ports(flags.port, flags.admin_port, flags.engine_port).chosen()
        if flags.rate is None:
            print(describe(preset, shipped_point(preset.name)), flush=True)
        rate = flags.rate or load_rate(preset.name) * (1.0 if flags.incident is None else SHARE_OF_RATE)
        with EventLog(flags.events, monotonic) as log:
            asyncio.run(
                run(
                    preset,
                    rate=rate,
                    ports=ports,
                    log=log,
                    incident=flags.incident,
                    usual=None if flags.learn else usual_file(preset.name),
                    duration_seconds=flags.duration,
                    look_seconds=HEALS_SECONDS if flags.fast else VIEWING_SECONDS,
                    seed=flags.seed,
                    every_seconds=1.0 if terminal else 5.0,
                    terminal=terminal,
                )
            )
    except DemoError as error:
        sys.stderr.write(errors_text(f"sidecar demo: {error}".splitlines()))
        return FAILED
    except KeyboardInterrupt:  # before the loop has its own handler
        return OK
    return OK
