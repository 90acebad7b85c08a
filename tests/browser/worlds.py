"""Six small setups at once, each with a fault of one phase: a simulated engine, a load, and the sidecar as a process.

It knows the faults and how to run them side by side, in the time of one. It refuses to know what the status page makes
of them.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import yaml

from sidecar.commands.demo.incidents import Incident
from sidecar.commands.demo.load import LANE_HEADER, Load
from sidecar.commands.demo.processes import LOOPBACK, free_ports, running
from sidecar.commands.demo.stage import Stage
from sidecar.commands.simulator.dialect import BYTES_A_TOKEN
from sidecar.commands.simulator.http_face import SimulatedEngine
from sidecar.commands.simulator.replica_presets import SMALL_CHAT


RATE = 2.0
"""Requests per second on each engine. Low, because six engines share two cores with the browser."""
HEALTHY_SECONDS = 24.0
FAULT_SECONDS = 30.0
LENGTHS = (300, 900, 2600, 6000)
"""Prompt tokens of the first requests, which come one after another. A prompt's cost is learned from requests that do
not queue."""
CONFIG = {
    "lanes": {"header": LANE_HEADER, "names": ["interactive", "batch", "rag", "canary"], "default": "interactive"},
    "objectives": {
        "interactive": {
            "ttft": {"threshold_seconds": 1, "target": 0.95},
            "tpot": {"threshold_seconds": 0.025, "target": 0.9},
        },
        "batch": {"ttft": {"threshold_seconds": 4, "target": 0.9}, "tpot": {"threshold_seconds": 0.1, "target": 0.9}},
        "rag": {"ttft": {"threshold_seconds": 3, "target": 0.9}, "tpot": {"threshold_seconds": 0.1, "target": 0.9}},
        "canary": {"preset": "none"},
    },
    "proxy": {"client_buffer_bytes": 4096},
}
INCIDENTS: Mapping[str, Incident] = {
    incident.name: incident
    for incident in (
        Incident("queue", "one slot is left of 32", {"slots": 1}),
        Incident("prefill", "prompts are computed at a sixth of their speed", {"prefill_factor": 6.0}),
        Incident("first_token", "the front end holds every request for two seconds", {"front_end_extra_seconds": 2.0}),
        Incident("decode", "the GPU's memory is six times as slow", {"decode_factor": 6.0}),
        Incident("stream", "every client reads only seven tokens a second", bytes_per_second=1_500),
        Incident("engine", "the engine has crashed", down=True),
    )
}
"""Keyed by the phase that is truly at fault. The faults are sized for `RATE`."""


@asynccontextmanager
async def broken_worlds(folder: Path) -> AsyncIterator[Mapping[str, str]]:
    """Phase at fault to the admin URL of its sidecar. Each fault lasts until the end of the `with` block."""
    config = folder / "worlds.yml"
    config.write_text(yaml.safe_dump(CONFIG))
    async with AsyncExitStack() as stack:
        pages, stages, loads = {}, {}, []
        ports = free_ports(2 * len(INCIDENTS))
        for number, name in enumerate(INCIDENTS):
            engine = await stack.enter_async_context(SimulatedEngine(SMALL_CHAT, seed=number))
            port, web_port = ports[2 * number : 2 * number + 2]
            pages[name] = f"http://{LOOPBACK}:{web_port}"
            await stack.enter_async_context(
                running("the sidecar", _command(engine.url, config, port, web_port), ready_url=f"{pages[name]}/-/ready")
            )
            load = Load(f"http://{LOOPBACK}:{port}", SMALL_CHAT.model, RATE, seed=number)
            stages[name] = Stage(engine, load)
            loads.append((load, f"http://{LOOPBACK}:{port}"))
        await asyncio.gather(*(_learned(url) for _, url in loads))
        tasks = [asyncio.create_task(load.run()) for load, _ in loads]
        try:
            await asyncio.sleep(HEALTHY_SECONDS)
            for name, stage in stages.items():
                await stage.begin(INCIDENTS[name])
            await asyncio.sleep(FAULT_SECONDS)
            yield pages
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(stages[name].end(INCIDENTS[name]) for name in stages if INCIDENTS[name].down))


def _command(engine_url: str, config: Path, port: int, web_port: int) -> list[str]:
    return [
        *(sys.executable, "-m", "tests.browser.hurried", "serve", f"--engine.url={engine_url}"),
        *(
            f"--config.file={config}",
            f"--proxy.listen-address={LOOPBACK}:{port}",
            f"--web.listen-address={LOOPBACK}:{web_port}",
        ),
        "--log.level=warning",
    ]


async def _learned(url: str) -> None:
    async with aiohttp.ClientSession(url) as session:
        for number in range(8):
            for tokens in LENGTHS:
                prompt = f"{number} {tokens} " + "hello " * (tokens * BYTES_A_TOKEN // 6)
                body = {
                    "model": SMALL_CHAT.model,
                    "messages": [{"role": "user", "content": prompt}],
                    "max_tokens": 2,
                    "stream": True,
                }
                async with session.post("/v1/chat/completions", json=body) as answer:
                    await answer.read()
