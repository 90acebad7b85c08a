"""The demo: a simulated engine, the sidecar as its users run it, a mixed load, and a table of where the time goes.

It knows how to start the three and end them, and the flags of `sidecar demo`. It refuses to know the sidecar's insides: that runs in a
process of its own, is told what anybody could tell it by flags, and is read by its /metrics page alone.
"""

import argparse
import asyncio
import os
import signal
import socket
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from sidecar.demo.engine import SimulatedEngine
from sidecar.demo.load import MIXED, Load
from sidecar.demo.operating_point import describe, rate_for_mean_queue
from sidecar.demo.presets import PRESETS, SMALL_CHAT, Preset
from sidecar.demo.table import screen
from sidecar.demo.view import Sums, read_page, rows


CONFIG = Path(__file__).with_name("demo.yml")
HOST = "127.0.0.1"
WINDOW_SECONDS = 60.0
STOP_SECONDS = 10.0
"""A sidecar that has not ended this long after SIGTERM is killed: its clients are gone, it has nothing to wait for."""


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where it all listens, on loopback; 0 is any free port."""

    proxy: int = 8900
    web: int = 9901
    engine: int = 0


async def run(
    preset: Preset,
    *,
    rate: float,
    ports: Ports,
    duration_seconds: float | None = None,
    seed: int = 0,
    every_seconds: float = 1.0,
    terminal: bool = False,
) -> None:
    """Play until SIGINT, SIGTERM or the duration's end. Raises DemoError."""
    ports = Ports(_bindable("--port", ports.proxy), _bindable("--admin-port", ports.web), ports.engine)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with (
        SimulatedEngine(preset, host=HOST, port=ports.engine, seed=seed) as engine,
        aiohttp.ClientSession(f"http://{HOST}:{ports.web}") as admin,
        _sidecar(engine.url, preset, ports) as sidecar,
    ):
        await _until_ready(admin, sidecar, stop)
        print(f"engine       {engine.url} (simulated {preset.name})")
        print(f"sidecar      http://{HOST}:{ports.proxy}  <- point any OpenAI client here, model {engine.model}")
        print(f"metrics      http://{HOST}:{ports.web}/metrics")
        print(f"status page  http://{HOST}:{ports.web}/")
        print(
            f"load         {rate:.2f} requests a second: interactive chat, batch summaries, long RAG prompts; Ctrl-C ends it",
            flush=True,
        )
        load = Load(f"http://{HOST}:{ports.proxy}", engine.model, rate, seed=seed)
        tasks: list[asyncio.Task[object]] = [
            asyncio.create_task(load.run()),
            asyncio.create_task(_show(admin, load, every_seconds, terminal=terminal)),
            asyncio.create_task(sidecar.wait()),
            asyncio.create_task(stop.wait()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, timeout=duration_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
        if sidecar.returncode is not None:
            raise DemoError(f"the sidecar ended by itself with {sidecar.returncode}")
    print(
        f"\n{load.sent} requests sent, {load.answered} answered, {load.failed} failed, the rest left unfinished at the end."
    )


async def _show(admin: aiohttp.ClientSession, load: Load, every_seconds: float, *, terminal: bool) -> None:
    pages: deque[Sums] = deque([{}], maxlen=max(2, round(WINDOW_SECONDS / every_seconds) + 1))
    with screen(terminal=terminal) as shown:
        while True:
            await asyncio.sleep(every_seconds)
            with suppress(aiohttp.ClientError, OSError):
                async with admin.get("/metrics") as page:
                    pages.append(read_page(await page.text()))
            status = f"sent {load.sent}, answered {load.answered}, failed {load.failed}"
            shown.show(rows(pages[0], pages[-1]), status)


@asynccontextmanager
async def _sidecar(engine_url: str, preset: Preset, ports: Ports) -> AsyncIterator[asyncio.subprocess.Process]:
    command = [
        *(sys.executable, "-m", "sidecar", "serve", f"--engine.url={engine_url}", f"--config.file={CONFIG}"),
        *(
            f"--proxy.listen-address={HOST}:{ports.proxy}",
            f"--web.listen-address={HOST}:{ports.web}",
            "--log.level=warning",
        ),
    ]
    labels = {"SIDECAR_QUANTIZATION": preset.quantization, "SIDECAR_GPU_TYPE": preset.gpu_type}
    with tempfile.TemporaryFile() as log:
        # A session of its own: Ctrl-C in the terminal is for the demo, which then ends the sidecar in its order.
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, **labels},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        except DemoError as error:
            log.seek(0)
            raise DemoError(f"{error}\n{log.read().decode(errors='replace')[-4000:]}") from None
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), STOP_SECONDS)
                except TimeoutError:
                    process.kill()
                    await process.wait()


async def _until_ready(admin: aiohttp.ClientSession, sidecar: asyncio.subprocess.Process, stop: asyncio.Event) -> None:
    for _ in range(300):
        if sidecar.returncode is not None:
            raise DemoError(f"the sidecar did not start: it ended with {sidecar.returncode}")
        with suppress(aiohttp.ClientError, OSError):
            async with admin.get("/-/ready") as answer:
                if answer.status == 200:
                    return
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.1)
            return
    raise DemoError("the sidecar was not ready within 30 s")


def _bindable(flag: str, port: int) -> int:
    """The port itself, or a free one for 0. Raises DemoError where somebody else listens."""
    with socket.socket() as probe:
        # As the sidecar will: a port in TIME_WAIT is not taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise DemoError(
                f"port {port} cannot be had ({error.strerror}): stop what listens there (another demo?),"
                f" or choose another with {flag}; {flag}=0 takes any free one"
            ) from None
        chosen: int = probe.getsockname()[1]
        return chosen


def _flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sidecar demo",
        description="Run a simulated engine, the sidecar in front of it and a mixed load, and show where each request's time goes.",
    )
    parser.add_argument(
        "--preset", choices=PRESETS, default=SMALL_CHAT.name, help="the simulated replica (default %(default)s)"
    )
    parser.add_argument(
        "--rate", type=float, help="requests a second (default: where the mean queue is 90 ms, found by simulation)"
    )
    parser.add_argument("--duration", type=float, help="seconds, then it ends by itself (default: until Ctrl-C)")
    parser.add_argument(
        "--port", type=int, default=8900, help="the sidecar's traffic port, 0: any (default %(default)s)"
    )
    parser.add_argument(
        "--admin-port", type=int, default=9901, help="its /metrics and status page, 0: any (default %(default)s)"
    )
    parser.add_argument("--engine-port", type=int, default=0, help="the simulated engine's port (default: any)")
    parser.add_argument("--seed", type=int, default=0, help="of the load (default %(default)s)")
    parser.add_argument(
        "--plain", action="store_true", help="lines instead of a live table, as when the output is no terminal"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """`sidecar demo`. 0 when it ended as asked, by Ctrl-C too; 1 when it could not go on; 2 for wrong usage."""
    try:
        flags = _flags().parse_args(argv)
    except SystemExit as stop:  # argparse's way to return
        return stop.code if isinstance(stop.code, int) else 2
    if (flags.rate is not None and not 0 < flags.rate < 1000) or (
        flags.duration is not None and not flags.duration > 0
    ):
        print("sidecar demo: --rate is between 0 and 1000, --duration above 0", file=sys.stderr)
        return 2
    preset = PRESETS[flags.preset]
    terminal = sys.stdout.isatty() and not flags.plain
    try:
        if flags.rate is None:
            print("Simulating, to find the rate at which the mean queue is 90 ms ...", flush=True)
            print(describe(preset), flush=True)
        asyncio.run(
            run(
                preset,
                rate=flags.rate or rate_for_mean_queue(preset, MIXED, requests=1000),
                ports=Ports(flags.port, flags.admin_port, flags.engine_port),
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
