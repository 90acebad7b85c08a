"""The road inside the test's own event loop: traffic and watchers as `app.py` joins them, without listener for admin, signals and logs.

Every ended request's account is kept, and the page that a scrape would get can be read at any instant. It runs in one loop
with engine and client, so a test may stop everything between two events.
"""

import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sidecar.app import limits_of
from sidecar.classify.lane import LaneRules
from sidecar.config.buckets import PromptBuckets
from sidecar.config.schema import Config
from sidecar.engines.engine import Engine
from sidecar.ledger.account import Account
from sidecar.metrics.exposition import slices
from sidecar.metrics.registry import Metrics
from sidecar.observe.in_flight import InFlight
from sidecar.observe.record import Recorder
from sidecar.observe.settlement import Watchers
from sidecar.observe.slo_counters import Slo
from sidecar.proxy.pool import EnginePool
from sidecar.proxy.server import Traffic
from sidecar.slo.objective import Objectives
from tests.support.promtool import samples


class Road:
    """A sidecar's traffic side in front of one engine of vLLM's kind."""

    def __init__(self, engine_url: str, models: Sequence[str], *, proxy: dict[str, object] | None = None) -> None:
        config = Config.model_validate({"engine": {"url": engine_url, "models": tuple(models)}, "proxy": proxy or {}})
        buckets = PromptBuckets(config.prompt_buckets.edges)
        self.accounts: list[Account] = []
        self.metrics = Metrics(
            lanes=config.lanes.declared, prompt_buckets=buckets.labels, models=models, constants={"gpu_type": "none"}
        )
        recorder = Recorder(self.metrics)
        self.watchers = Watchers(
            rules=LaneRules(config.lanes),
            buckets=buckets,
            recorder=recorder,
            in_flight=InFlight(self.metrics),
            slo=Slo(self.metrics, Objectives()),
            engine=Engine("vllm", models),
            log=self.accounts.append,
            headers_for_log=lambda _fields: {},
            unix=lambda: 0.0,
            max_event_bytes=config.proxy.max_event_bytes,
            include_usage=True,
            clock=time.monotonic,
            random_hex=secrets.token_hex,
        )
        address = config.engine.address
        pool = EnginePool(
            address.host,
            address.port,
            clock=time.monotonic,
            idle_seconds=config.engine.pool_idle_seconds,
            max_headers=config.proxy.max_headers,
            receive_buffer_bytes=config.proxy.client_buffer_bytes,
        )
        self.traffic = Traffic(
            limits_of(config),
            pool,
            clock=time.monotonic,
            watch=self.watchers.watch,
            dropped=recorder.dropped,
            refused=lambda failure: recorder.failed(failure.reason),
            overhead=recorder.overhead,
        )
        self.port = 0

    def scraped(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Every sample of the page as of now, read by prometheus_client."""
        return samples(b"".join(slices(self.metrics, openmetrics=False, at=time.monotonic())))

    def total(self, name: str, **labels: str) -> float:
        """The sum over all series of this name that carry these labels."""
        wanted = labels.items()
        return sum(value for (found, with_), value in self.scraped().items() if found == name and wanted <= with_)


@asynccontextmanager
async def road_to(
    engine_url: str, models: Sequence[str], *, proxy: dict[str, object] | None = None
) -> AsyncIterator[Road]:
    """A road that listens on `road.port` of loopback. `proxy`: keys of that section of the config."""
    road = Road(engine_url, models, proxy=proxy)
    _, road.port = await road.traffic.listen("127.0.0.1", 0)
    try:
        yield road
    finally:
        await road.traffic.close()
