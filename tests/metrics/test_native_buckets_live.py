"""A real Prometheus scrapes native histograms, and its quantiles are those of the samples."""

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import pytest
import yaml

from bench.bounds.full_page import QuietApp
from sidecar.admin.listener import AdminListener
from sidecar.commands.demo.processes import LOOPBACK, free_ports, running
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import NativeForm
from sidecar.metrics.registry import Metrics
from tests.support.tools import need_newer, need_tool


pytestmark = [pytest.mark.live, pytest.mark.timed]

SEEDS = 20
SAMPLES = 2003
"""No quantile asked for falls between two samples, where both are right: 2.42 then answers the lower, 3.x the upper one."""
QUANTILES = (0.5, 0.95, 0.99)
MOST_WRONG = 2 ** (1 / 32) - 1
"""Half a bucket of schema 4: 2.19 %. It holds as long as no series has samples more than 20 octaves apart, a factor of a million."""
SHAPES: Mapping[str, Callable[[random.Random], float]] = {
    "log-normal": lambda rng: rng.lognormvariate(-1.0, 0.6),
    "two humps": lambda rng: rng.lognormvariate(-2.5, 0.3) if rng.random() < 0.93 else rng.lognormvariate(0.7, 0.4),
    "steps of 7 ms": lambda rng: 0.007 * math.ceil(rng.expovariate(1 / 25)),
    "5 ms to 60 s": lambda rng: 0.005 * 12_000 ** rng.random(),
}


def drawn() -> dict[str, list[float]]:
    """Samples by the name of their lane."""
    return {
        f"{shape} {seed}": [draw(rng) for rng in [random.Random(f"{shape} {seed}")] for _ in range(SAMPLES)]
        for shape, draw in SHAPES.items()
        for seed in range(SEEDS)
    }


async def answers(program: str, target: str, queries: list[str], **scraping: object) -> list[dict[str, float]]:
    """Answers of a Prometheus with native histograms, once it has scraped the target: lane to value, by query.

    `scraping`: more keys of its scrape config.
    """
    with TemporaryDirectory() as name:
        folder, address = Path(name), f"{LOOPBACK}:{free_ports(1)[0]}"
        scrape = {"job_name": "sidecar", "scrape_interval": "1s", "static_configs": [{"targets": [target]}], **scraping}
        (folder / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": [scrape]}))
        command = [
            *(program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"),
            *(f"--web.listen-address={address}", "--enable-feature=native-histograms"),
        ]
        async with (
            running("Prometheus", command, ready_url=f"http://{address}/-/ready"),
            aiohttp.ClientSession(f"http://{address}") as client,
        ):
            deadline = time.monotonic() + 30
            while not await _asked(client, "up == 1") and time.monotonic() < deadline:  # noqa: ASYNC110  another program's state
                await asyncio.sleep(0.2)
            return [await _asked(client, query) for query in queries]


async def _asked(client: aiohttp.ClientSession, query: str) -> dict[str, float]:
    async with client.get("/api/v1/query", params={"query": query}) as answer:
        found = (await answer.json())["data"]["result"]
    return {one["metric"].get("lane", ""): float(one["value"][1]) for one in found}


async def worst_of(program: str) -> tuple[dict[tuple[float, str], float], float]:
    """The largest error by quantile and shape, and the number of classic buckets that were stored."""
    samples = drawn()
    metrics = Metrics(lanes=list(samples), prompt_buckets=(), models=["m"], native_histograms="only")
    family = metrics.histogram(c.INTER_TOKEN_SECONDS)
    for lane, values in samples.items():
        child = family.child("m", lane)
        for value in values:
            child.observe(value)
    listener = AdminListener(QuietApp(metrics), metrics, time.monotonic)
    ((host, port),) = await listener.start(LOOPBACK, 0)
    try:
        name = c.INTER_TOKEN_SECONDS.name
        asked = [f"histogram_quantile({q}, {name})" for q in QUANTILES]
        *found, classic = await answers(program, f"{host}:{port}", [*asked, f"count({name}_bucket)"])
    finally:
        await listener.stop()
    worst: dict[tuple[float, str], float] = {}
    for q, by_lane in zip(QUANTILES, found, strict=True):
        for lane, values in samples.items():
            exact = sorted(values)[math.ceil(q * len(values)) - 1]
            error = abs(by_lane.get(lane, math.inf) / exact - 1)
            key = q, lane.rsplit(" ", 1)[0]
            worst[key] = max(worst.get(key, 0.0), error)
    return worst, classic.get("", 0.0)


@pytest.mark.parametrize("need", [need_tool, need_newer])
def test_a_quantile_is_wrong_by_half_a_bucket_of_schema_4_at_most(need: Callable[[str], Path]) -> None:
    """p50, p95 and p99 of 20 seeds of each shape, smooth, in steps or over four decades; no classic bucket is stored."""
    worst, classic = asyncio.run(worst_of(str(need("prometheus"))))

    assert len(worst) == 12
    assert (classic, {key: error for key, error in worst.items() if error > MOST_WRONG}) == (0.0, {})


@pytest.mark.parametrize("form", ["off", "beside", "only"])
def test_prometheus_3_keeps_both_forms_where_it_is_told_to(form: NativeForm) -> None:
    """With always_scrape_classic_histograms: classic series of `off` and `beside`, native ones of `beside` and `only`."""
    name = c.TIME_TO_FIRST_TOKEN_SECONDS.name
    queries = [f"{name}_count", f"count({name}_bucket)", f"histogram_count({name})"]

    async def scenario() -> list[dict[str, float]]:
        metrics = Metrics(lanes=["chat"], prompt_buckets=(), models=["m"], native_histograms=form)
        for _ in range(5):
            metrics.histogram(c.TIME_TO_FIRST_TOKEN_SECONDS).child("m", "chat", "unknown").observe(0.3)
        listener = AdminListener(QuietApp(metrics), metrics, time.monotonic)
        ((host, port),) = await listener.start("127.0.0.1", 0)
        try:
            program = str(need_newer("prometheus"))
            return await answers(program, f"{host}:{port}", queries, always_scrape_classic_histograms=True)
        finally:
            await listener.stop()

    classic = form != "only"
    edges = len(c.TIME_TO_FIRST_TOKEN_SECONDS.buckets) + 1
    assert asyncio.run(scenario()) == [
        {"chat": 5.0} if classic else {},
        {"": float(edges)} if classic else {},
        {"chat": 5.0} if form != "off" else {},
    ]
