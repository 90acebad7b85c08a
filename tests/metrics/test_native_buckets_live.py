"""A real Prometheus scrapes native histograms, and its quantiles are those of the samples."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.exposition import QuietApp
from bench.native_error import MOST_WRONG, answers, worst_of
from sidecar.admin.listener import AdminListener
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import NativeForm
from sidecar.metrics.registry import Metrics
from tests.support.tools import need_newer, need_tool


pytestmark = [pytest.mark.live, pytest.mark.timed]


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
