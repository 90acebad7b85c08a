"""A page of metrics with thousands of series, the app around it, and the longest turn of a loop while something is done with it.

It knows how to fill a registry, and how a loop is watched. It refuses to know bounds.
"""

import asyncio
import subprocess
import sys
import time

from sidecar.admin.page.page import Facts
from sidecar.admin.page.recent_failures import RecentFailures
from sidecar.budgets.budgets import Budgets, limits_of
from sidecar.config.schema import ProxyConfig
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import NativeForm
from sidecar.metrics.registry import Metrics
from sidecar.observe.in_flight import InFlight
from sidecar.observe.record import Recorder
from sidecar.pod.liveness.progress import Progress, State
from sidecar.shutdown import Drained


CLIENT = """
import sys, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Accept": sys.argv[2], "Accept-Encoding": sys.argv[3]})
for _ in range(int(sys.argv[4])):
    with urllib.request.urlopen(request) as answer:
        answer.read()
"""
OPENMETRICS = "application/openmetrics-text;version=1.0.0"


class QuietApp:
    """An `App` without requests, failures or reloads."""

    def __init__(self, metrics: Metrics) -> None:
        self.inside = InFlight(metrics)
        self.recent_failures = RecentFailures(time.monotonic)
        self.budgets = Budgets(limits_of(1 << 30, 4096, ProxyConfig()))

    def ready(self) -> tuple[bool, str]:
        return True, ""

    def healthy(self) -> tuple[bool, str]:
        return True, ""

    def engine_progress(self) -> Progress:
        return Progress(State.FINE, "")

    async def settle(self) -> None:
        pass

    async def drain(self) -> Drained:
        return Drained(drained=True, in_flight=0, waited_seconds=0.0)

    async def reload(self) -> list[str]:
        return []

    def facts(self) -> Facts:
        return Facts("0", "none", 0.0, "none")


def filled(series: int, *, native_histograms: NativeForm = "off") -> Metrics:
    """A registry with at least this many series, each with a value."""
    buckets = ("0-512", "512-4k", "4k-16k", "16k-64k", "64k+", "unknown")
    models = [f"meta-llama/Llama-3.{n}-70B-Instruct" for n in range(16)]
    metrics = Metrics(
        lanes=["interactive", "batch"],
        prompt_buckets=buckets,
        models=models,
        constants={"quantization": "fp8", "gpu_type": "NVIDIA-H100-80GB"},
        series_limit=1_000_000,
        native_histograms=native_histograms,
    )
    Recorder(metrics)
    phases = metrics.histogram(c.REQUEST_PHASE_SECONDS)
    for model in models:
        for lane in ("interactive", "batch"):
            for bucket in buckets:
                for streaming, phase, source in phases.metric.together:
                    if metrics.series >= series:
                        return metrics
                    phases.child(model, lane, bucket, streaming, phase, source).observe(0.1, "a" * 32, 1.7e9)
    return metrics


async def longest_turn(stop: asyncio.Event) -> tuple[float, float]:
    """The longest turn of the loop until `stop` is set: seconds by the wall clock, and by the loop thread's CPU clock.

    On a busy machine the wall clock includes the time in which the kernel ran other threads; the CPU clock does not.
    """
    wall = cpu = 0.0
    wall_before, cpu_before = time.perf_counter(), time.thread_time()
    while not stop.is_set():
        await asyncio.sleep(0)
        wall_now, cpu_now = time.perf_counter(), time.thread_time()
        wall, cpu = max(wall, wall_now - wall_before), max(cpu, cpu_now - cpu_before)
        wall_before, cpu_before = wall_now, cpu_now
    return wall, cpu


async def scraped(metrics: Metrics, port: int, accept: str, encoding: str, scrapes: int) -> tuple[float, float]:
    """Scrape this many times and return the longest turn; scrapes=0 measures the loop alone."""
    for child in metrics.histogram(c.REQUEST_PHASE_SECONDS).children.values():
        child.observe(0.2)
    stop = asyncio.Event()
    turning = asyncio.create_task(longest_turn(stop))
    if scrapes:
        url = f"http://127.0.0.1:{port}/metrics"
        command = [sys.executable, "-c", CLIENT, url, accept, encoding, str(scrapes)]
        client = await asyncio.to_thread(subprocess.Popen, command, stdin=subprocess.DEVNULL)
        await asyncio.to_thread(client.wait)
    else:
        await asyncio.sleep(0.3)
    stop.set()
    return await turning
