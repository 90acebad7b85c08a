"""A process of a pod as its usual values see it: it lives through calm and broken traffic, saves them and restores them.

Knows `Baselines` and the objectives behind it, under a fake clock. Refuses to know the relay.
"""

import asyncio
from pathlib import Path

from sidecar.config.schema import Config
from sidecar.engines.engine import Engine
from sidecar.ledger.report import EngineReport
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import DROPPED_TOTAL
from sidecar.observe.baselines import Baselines
from tests.support.configs import section_of
from tests.support.slo_harness import Request, SloHarness


CALM_SECONDS = 600.0


class Process:
    """One process of a pod with requests that come at a steady pace."""

    def __init__(
        self,
        now: float,
        *,
        state: Path | None = None,
        file: Path | None = None,
        version: str = "0.9",
        models: tuple[str, ...] = (),
        unix: float = 1.8e9,
    ) -> None:
        """`models`: in the engine's own list, adapters after the first; none: the config states the model."""
        self.harness = SloHarness()
        self.harness.now = now
        config = section_of(
            Config,
            {
                "engine": {"url": "http://127.0.0.1:8000"},
                "state": {"directory": "" if state is None else str(state)},
                "baseline": {"file": "" if file is None else str(file)},
            },
        )
        self.engine = Engine("vllm", () if models else ("llama",))
        self.engine.serves(models, models[1:])
        self.baselines = Baselines(
            config,
            self.harness.slo,
            self.engine,
            clock=lambda: self.harness.now,
            unix=lambda: unix,
            dropped=self._dropped,
        )
        self.engine.up, self.engine.asked_what, self.engine.version = True, True, version

    def finds(self) -> "Process":
        """The engine is known."""
        asyncio.run(self.baselines.find())
        return self

    def saves(self) -> "Process":
        asyncio.run(self.baselines.save())
        return self

    def lives(self, seconds: float, *, per_second: float = 1.0, ttft_seconds: float = 0.2) -> "Process":
        """Requests come evenly, each with so long a time to its first token, all but 0.2 s of it in the queue."""
        harness, answering = self.harness, list[tuple[float, Request]]()
        end, next_at, tick_at = harness.now + seconds, harness.now, harness.now
        while harness.now < end:
            while answering and answering[0][0] <= harness.now:
                request = answering.pop(0)[1]
                request.speaks()
                request.settles(request.ends(tokens=1), EngineReport(ttft_seconds - 0.2, 0.2, 0.0))
            if next_at <= harness.now:
                next_at += 1.0 / per_second
                answering.append((harness.now + ttft_seconds, harness.comes()))
            if tick_at <= harness.now:
                tick_at += 1.0
                harness.slo.tick(harness.now)
            harness.now += 0.1
        return self

    def roots(self) -> dict[tuple[str, str], float]:
        """Phase and cause to misses."""
        children = self.harness.metrics.counter(c.SLO_ROOT_CAUSE_MISSES_TOTAL).children
        return {(key[1], key[2]): child.value for key, child in children.items() if child.value}

    def load(self) -> float | None:
        self.harness.page()
        return self.harness.metrics.gauge(c.EVIDENCE_RATIO).child("load").value

    def info(self) -> list[tuple[str, ...]]:
        """The labels of the one series that is there."""
        self.harness.page()
        children = self.harness.metrics.gauge(c.BASELINE_INFO).children
        return [key for key, child in children.items() if child.value == 1]

    def errors(self) -> float:
        return self.harness.metrics.counter(DROPPED_TOTAL).child("baseline_failed").value

    def _dropped(self, reason: str) -> None:
        self.harness.metrics.counter(DROPPED_TOTAL).child(reason).inc()
