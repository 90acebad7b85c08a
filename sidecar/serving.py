"""The half of `serve` that carries traffic and measures it: everything that has to stand before the first request comes.

Builds it from a config. It must not import what the other half needs (`beside_traffic.py`: aiohttp, the pages, the diagnosis), not
even by another module, because that takes half of the start; `tests/test_serving.py` holds it. It starts and stops nothing.
"""

import asyncio
import os
from collections.abc import Callable

from sidecar.accounts.account_ring import AccountRing
from sidecar.admin.page.recent_failures import RecentFailures
from sidecar.budgets.budgets import Kind
from sidecar.budgets.machine import Machine
from sidecar.config.objectives import objectives_of
from sidecar.config.schema import Config
from sidecar.engines.engine import Engine
from sidecar.ledger.account import Account
from sidecar.lifecycle import Readiness
from sidecar.logs.placement import placement_of
from sidecar.logs.sanitise import allowed_headers
from sidecar.logs.setup import Logs
from sidecar.observe.instruments import Instruments
from sidecar.observe.span_requests import SpanRequests
from sidecar.proxy.server import Traffic
from sidecar.wiring import budgets_of, metrics_of, observers_of, reload, road_of


class Serving:
    """The traffic of one process. `clock`: monotonic seconds."""

    def __init__(self, config: Config, clock: Callable[[], float], machine: Machine) -> None:
        self.config = config
        self.clock = clock
        self.machine = machine
        self.began_at = clock()
        self.budgets = budgets_of(config, machine)
        self.placement = placement_of(os.environ)
        self.logs = Logs.set_up(config.log, placement=self.placement)
        self.metrics = metrics_of(config)
        self._write_line = self.logs.span_request if config.spans.without_proxy else self.logs.request
        self.accounts = AccountRing(self.budgets[Kind.ACCOUNTS].limit, self.began_at)
        instruments = Instruments.on(
            self.metrics,
            objectives_of(config),
            estimate=config.engine.estimate == "auto" and not config.spans.without_proxy,
            accounts=self.accounts,
            by_spans=config.spans.without_proxy,
        )
        self.recorder = instruments.recorder
        self.inside = instruments.in_flight
        self.slo = instruments.slo
        self.estimates = instruments.estimates
        self.recent_failures = RecentFailures(clock)
        self.slo.on_blamed = self.recent_failures.missed
        self.readiness = Readiness(carries_traffic=not config.spans.without_proxy)
        self.engine = Engine(config.engine.kind, config.engine.models, self.recorder.admit_models)
        self.on_closed: Callable[[Account], None] = lambda _account: None
        """Called with each closed account, once there is something beside traffic that learns from it. Must not raise."""
        self.observers = observers_of(
            config,
            instruments,
            self.engine,
            clock=clock,
            log=self._closed,
            headers_for_log=lambda fields: allowed_headers(fields, self.logs.allowed_headers),
        )
        self.settlement = self.observers.settlement
        self._span_requests = SpanRequests(self.observers) if config.spans.without_proxy else None
        if self._span_requests is not None:
            self.settlement.on_span_report = self._span_requests.take
        self.road = road_of(config, self.observers, clock, self.budgets)
        self.traffic = Traffic(self.road)
        self.metrics.before_scrape(lambda _at: self.road.endings.flush(), first=True)

    @property
    def engine_heard_at(self) -> float:
        """When the engine last showed life: a byte on a connection or, where no traffic passes, a span."""
        return self.road.engine_heard_at if self._span_requests is None else self._span_requests.heard_at

    def apply(self, config: Config) -> None:
        """Take another config into force: what may change while the process runs."""
        self.config = config
        self.recorder.admit_lanes(config.lanes.declared)
        self.slo.replace(objectives_of(config))
        reload(config, self.observers, self.road, self.machine)
        self.logs.apply(config.log)

    async def expire(self) -> None:
        """Settle for ever what waited too long for a report. Cancel to stop."""
        pause_seconds = 1.0
        while True:
            await asyncio.sleep(pause_seconds)
            pause_seconds = 0.0 if self.settlement.expire(self.clock()) else 1.0

    def _closed(self, account: Account) -> None:
        self.on_closed(account)
        self.recent_failures.closed(account)
        self._write_line(account)


def shown(address: tuple[str, int]) -> str:
    """`host:port`, with brackets around IPv6."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
