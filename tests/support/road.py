"""The road in the test's own event loop, joined as in `wiring.py`, but without admin listener, signals and logs.

Every ended request's account is kept, and the page that a scrape would get can be read at any instant. It runs in one
loop with engine and client, so a test may stop everything between two events.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sidecar.budgets.machine import Machine
from sidecar.config.schema import Config
from sidecar.engines.engine import Engine
from sidecar.ledger.account import Account
from sidecar.metrics.text_page import slices
from sidecar.objectives.objective import Objectives
from sidecar.observe.instruments import Instruments
from sidecar.proxy.server import Traffic
from sidecar.timeline.belief import LEARNED_FROM
from sidecar.wiring import budgets_of, metrics_of, observers_of, road_of
from tests.support.configs import section_of
from tests.support.promtool import samples


class Road:
    """A sidecar's traffic side in front of one engine, a vLLM."""

    def __init__(self, engine_url: str, models: Sequence[str], *, proxy: dict[str, object] | None = None) -> None:
        config = section_of(
            Config,
            {
                "engine": {"url": engine_url, "models": tuple(models)},
                "proxy": proxy or {},
                "labels": {"gpu_type": "none"},
                "spans": {"receive": False},
            },
        )
        self.accounts: list[Account] = []
        self.metrics = metrics_of(config)
        self.instruments = Instruments.on(self.metrics, Objectives())
        engine = Engine("vllm", models)
        for api in ("openai_chat", "openai_completions"):
            for _ in range(LEARNED_FROM):
                engine.asking.ended(api, 0.0, shows=False)  # as if streams had shown that it states none by itself
        self.observers = observers_of(
            config, self.instruments, engine, clock=time.monotonic, log=self.accounts.append, unix=lambda: 0.0
        )
        self.settlement = self.observers.settlement
        self.shared = road_of(config, self.observers, time.monotonic, budgets_of(config, Machine(1 << 30, 4096)))
        self.pool = self.shared.pool
        self.traffic = Traffic(self.shared)
        self.port = 0

    @property
    def in_flight(self) -> int:
        """Requests that have been received and have not ended."""
        return self.shared.in_flight

    def page(self) -> bytes:
        """The page of metrics, as of now."""
        return b"".join(slices(self.metrics, openmetrics=False, at=time.monotonic()))

    def scraped(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Every sample of the page as of now, read by prometheus_client."""
        return samples(self.page())

    def total(self, name: str, **labels: str) -> float:
        """The sum over all series of this name that have these labels."""
        starts = tuple(f"{name}{after}".encode() for after in "{ ")
        lines = [line for line in self.page().splitlines(keepends=True) if line.startswith(starts)]
        return sum(value for (_, with_), value in samples(b"".join(lines)).items() if labels.items() <= with_)


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
