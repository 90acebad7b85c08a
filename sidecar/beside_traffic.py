"""The half of `serve` that stands beside traffic: the watch on the engine, reports, spans, usual values, the admin listener.

`app.py` loads and builds it when traffic flows already, because that takes as long as all that traffic needs. A request that ends
before is measured like any other, except that no report on it is fetched. It owns what the process says of itself, and answers
what the admin listener asks (`admin/listener.py: App`).
"""

import asyncio
import os
import platform
import time
from collections.abc import Callable, Coroutine, Sequence
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import structlog

from sidecar import BUILD, __version__
from sidecar.admin import runbooks
from sidecar.admin.access import Access
from sidecar.admin.diagnosis import read_texts
from sidecar.admin.hosts import Hosts
from sidecar.admin.listener import AdminListener
from sidecar.admin.page.page import Facts
from sidecar.admin.page.recent_failures import RecentFailures
from sidecar.budgets.budgets import Budgets
from sidecar.classify.inflate import preload
from sidecar.config.file import ConfigErrors
from sidecar.config.in_force import as_yaml
from sidecar.config.schema import Config, restart_needed
from sidecar.engines.engine import AUTO, NONE
from sidecar.engines.reports.fetcher import ReportFetcher, readers_of
from sidecar.engines.reports.sink import ReportSink
from sidecar.health.health import Health
from sidecar.ledger.account import Account
from sidecar.lifecycle import Life
from sidecar.logs.placement import in_words
from sidecar.metrics import catalogue as c
from sidecar.observe.baselines import Baselines
from sidecar.observe.budget_metrics import BudgetMetrics
from sidecar.observe.engine_progress import EngineProgress
from sidecar.observe.engine_side import EngineSide
from sidecar.observe.in_flight import InFlight
from sidecar.observe.span_requests import left_out, unable
from sidecar.observe.span_sampling import SampledTraces, SpanSampling
from sidecar.otlp.forwarding import EveryTrace
from sidecar.otlp.receiver import PATH as TRACES
from sidecar.otlp.spans import AT_END_SECONDS, Spans
from sidecar.pod.liveness.progress import LEAVES_SECONDS, Progress
from sidecar.serving import Serving, shown
from sidecar.shutdown import Drained, Shutdown


if TYPE_CHECKING:
    from sidecar.otlp.exporting import Export


MOST_LAST_SPANS_SECONDS = 5.0
"""A collector that takes nothing holds the end of an idle process for no longer, however much of the grace is left."""

log = structlog.get_logger()


def read_files() -> None:
    """Read the texts of the package, which stay in memory, and load what no first request waits for. It takes 25 ms, so a thread calls it."""
    preload()
    runbooks.read()
    read_texts()


class BesideTraffic:
    """All of one process that is not traffic. `load`: loads the config again, or raises ConfigErrors."""

    def __init__(self, serving: Serving, shutdown: Shutdown, load: Callable[[], Config]) -> None:
        self._serving = serving
        self._shutdown = shutdown
        self._load = load
        self._reload_refused: str | None = None
        config, clock, metrics, settlement = serving.config, serving.clock, serving.metrics, serving.settlement
        self.engine_side = EngineSide(
            config.engine,
            serving.engine,
            metrics,
            serving.recorder,
            serving.readiness,
            clock=clock,
            heard_at=lambda: serving.engine_heard_at,
            in_flight=lambda: serving.road.in_flight,
            known=self._engine_known,
        )
        self.engine_side.state.on_restart = self._engine_restarted
        serving.on_closed = self.engine_side.closed
        settlement.on_probe_done = self.engine_side.probe_done
        self.report_fetcher = ReportFetcher(
            readers_of(
                config.engine,
                serving.engine,
                ReportSink(
                    reported=settlement.reported,
                    dropped=serving.recorder.dropped,
                    waiting=lambda: len(settlement.pending),
                    in_flight=lambda: len(serving.inside),
                    clock=clock,
                ),
            ),
            serving.engine,
        )
        settlement.listens = self.report_fetcher.listens
        settlement.on_ended = self.report_fetcher.ended
        self.progress = EngineProgress(
            metrics,
            serving.engine,
            serving.readiness,
            clock=clock,
            flow=serving.slo.flow,
            grew_at=lambda: self.engine_side.state.grew_at,
            counted=lambda: self.engine_side.counts_output,
            running=lambda: self.engine_side.state.running,
            asleep=lambda: self.engine_side.state.asleep,
            leaves_seconds=SystemRandom().uniform(*LEAVES_SECONDS) if config.engine.replicated else LEAVES_SECONDS[1],
            sees_output=not config.spans.without_proxy,
        )
        self.health = Health(lambda: serving.traffic.lost, self.progress.look)
        self.export = self._exported(config) if config.spans.export_url else None
        """The way of requests' own spans to the user's collector; None where none is exported."""
        sampling = settlement.sampling
        self.spans = Spans(
            config.spans,
            settlement.span,
            serving.recorder,
            minted=settlement.minted,
            sampled=EveryTrace()
            if config.spans.without_proxy
            else SampledTraces(settlement.sampled_traces, settlement.own_traces, sampling),
            exported=None if sampling is None else sampling.exports,
            export=self.export,
            clock=clock,
        )
        self.budget_metrics = BudgetMetrics(
            metrics,
            serving.budgets,
            sockets=lambda: serving.traffic.open_connections + serving.road.pool.open_connections,
            ledgers=lambda: (len(settlement.pending), settlement.pending.evicted),
            spans=lambda: (self.spans.intake.inside, self.spans.intake.found_no_room),
            accounts_bytes=lambda: serving.accounts.used_bytes,
            clock=clock,
        )
        self.baselines = Baselines(
            config,
            serving.slo,
            serving.engine,
            clock=clock,
            unix=time.time,  # noqa: TID251  a timestamp in a file; no duration is made from it
            dropped=serving.recorder.dropped,
        )
        self.admin = AdminListener(
            self,
            metrics,
            clock,
            otlp=self.spans.handlers,
            otlp_from_anywhere=self.spans.from_anywhere,
            incidents=serving.slo.roots.incidents,
            accounts=serving.accounts,
            baseline=self.baselines.document,
            in_force=lambda: as_yaml(serving.config),
            access=Access(
                config.web.config_file,
                metrics,
                clock,
                hosts=Hosts(os.uname().nodename),
                allowed_hosts=lambda: serving.config.web.allowed_hosts,
            ),
            profile=serving.config.metrics.profile,
        )
        self.admin.access.on_loaded = self._reload_gauges
        self._state_at_scrape()

    def _exported(self, config: Config) -> "Export":
        """Sends a span of each sampled request to the collector, from now on."""
        from sidecar.otlp.exporting import Export  # noqa: PLC0415  loaded only where it is used

        serving, settlement = self._serving, self._serving.settlement
        export = Export(
            config.spans.export_url,
            serving.metrics,
            version=__version__,
            placement=serving.placement,
            environment=os.environ,
            provider=lambda: serving.engine.kind if serving.engine.kind not in (AUTO, NONE) else None,
            random_hex=settlement.random_hex,
            clock=serving.clock,
            unix_nanos=time.time_ns,
            dropped=serving.recorder.dropped,
        )
        learn = serving.on_closed

        def closed(account: Account) -> None:
            learn(account)
            export.offer(account)

        serving.on_closed = closed
        settlement.sampling = SpanSampling(config.spans.export_untraced_ratio, settlement.random_hex)
        return export

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self, doorstep: Sequence[Any]) -> None:
        """Answer on these listening sockets, and take spans where the config wants it. Raises OSError."""
        (admin, *_) = await self.admin.start_on(doorstep)
        grpc = await self.spans.start()
        self._reload_gauges()
        if self._serving.config.spans.receive:
            told_at = f"http{'' if self.admin.access.tls is None else 's'}://{shown(admin)}{TRACES}"
            log.info("takes_spans", http=told_at, grpc=None if grpc is None else shown(grpc))

    def tasks(self) -> tuple[Coroutine[None, None, None], ...]:
        """Coroutines that run for the process's life. Cancel to stop."""
        return (
            *self.engine_side.tasks(),
            self.health.run(),
            self.budget_metrics.watch(),
            self.report_fetcher.run(),
            self.baselines.run(),
        )

    async def send_last_spans(self) -> None:
        """Send the spans that wait for a collector, in the time that is left of the drain."""
        left_seconds = min(self._shutdown.left_seconds, MOST_LAST_SPANS_SECONDS)
        await self.spans.send_last(max(left_seconds, AT_END_SECONDS))

    async def stop(self) -> None:
        """Stop listening."""
        await self.spans.stop()
        await self.admin.stop()

    # --- called by the admin listener (admin/listener.py: App) -----------------------------------------------------

    @property
    def inside(self) -> InFlight:
        """The requests in flight now."""
        return self._serving.inside

    @property
    def budgets(self) -> Budgets:
        """The budgets of this process."""
        return self._serving.budgets

    @property
    def recent_failures(self) -> RecentFailures:
        """The last slow or failed requests."""
        return self._serving.recent_failures

    def ready(self) -> tuple[bool, str]:
        """Whether traffic may come, and the reason."""
        serving = self._serving
        serving.readiness.heard(serving.engine_heard_at)
        self.progress.look()
        return serving.readiness.ready(serving.clock())

    def healthy(self) -> tuple[bool, str]:
        """Whether this process works, and the reason."""
        return self.health.healthy()

    def engine_progress(self) -> Progress:
        """Whether the engine makes progress, for the probe of its container."""
        return self.progress.look()

    def facts(self) -> Facts:
        """The facts about the process that the status page shows."""
        refused = [why for why in (self._reload_refused, self.admin.access.refused) if why is not None]
        notes = [f"The last reload was refused: {why}" for why in refused]
        told = []
        if self._serving.config.spans.without_proxy:
            told = [*unable(self._serving.engine.speaks), left_out(self.engine_side.state.seen_ratio)]
        return Facts(
            version=__version__,
            engine=self.engine_side.name,
            source=self.engine_side.source,
            away=self._serving.engine.away,
            hints=self.engine_side.hints,
            uptime_seconds=self._serving.clock() - self._serving.began_at,
            config="the config before the refused reload" if notes else "as loaded",
            notes=(*notes, *filter(None, [self.admin.scrapes.missing]), *told),
            usual=self.baselines.words,
            placement=in_words(self._serving.placement),
        )

    async def settle(self) -> None:
        """Returns once the requests that have ended are on the page, a few in each turn of the loop."""
        await self._serving.road.endings.closed()

    async def drain(self) -> Drained:
        """Begin the drain, as SIGTERM does, or join it; the process ends at SIGTERM, at the drain's deadline at the latest."""
        return await self._shutdown.drain()

    async def reload(self) -> list[str]:
        """Load the config again. A bad one, or one that needs a restart, is refused with errors; the old one stays."""
        try:
            config = await asyncio.to_thread(self._load)
        except ConfigErrors as errors:
            return self._refuse_reload(list(errors.lines))
        fixed = restart_needed(self._serving.config, config)
        if fixed:
            return self._refuse_reload(
                [f"{key}: cannot change while the process runs; restart the sidecar" for key in fixed]
            )
        await self.settle()
        self._serving.apply(config)
        self._reload_refused = None
        self._reload_gauges()
        log.info("config_reloaded")
        return await self.admin.access.reload()

    def _refuse_reload(self, errors: list[str]) -> list[str]:
        self._reload_refused = errors[0]
        self._reload_gauges()
        log.error("config_reload_refused", errors=errors)
        return errors

    # --- what is learned -------------------------------------------------------------------------------------------

    def _engine_known(self) -> None:
        serving = self._serving
        serving.settlement.engine_known()
        self.baselines.engine_known()
        serving.settlement.listens = self.report_fetcher.listens
        if serving.estimates is not None and serving.engine.models:
            serving.estimates.serves(serving.engine.models)

    def _engine_restarted(self) -> None:
        """The objectives and the estimator forget values learned from the engine's previous process."""
        self.progress.restarted()
        self._serving.slo.engine_restarted()
        if self._serving.estimates is not None:
            self._serving.estimates.forget()

    # --- metrics of the process itself -------------------------------------------------------------------------------

    def _reload_gauges(self) -> None:
        metrics = self._serving.metrics
        succeeded = self._reload_refused is None and self.admin.access.refused is None
        metrics.gauge(c.CONFIG_LAST_RELOAD_SUCCESSFUL).child().set(int(succeeded))
        if succeeded:
            metrics.gauge(c.CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS).child().set(time.time())  # noqa: TID251  a timestamp, by its name

    def _state_at_scrape(self) -> None:
        serving, metrics = self._serving, self._serving.metrics
        profile = serving.config.metrics.profile
        metrics.info(c.SIDECAR_BUILD_INFO, __version__, platform.python_version(), BUILD, profile)
        connections = metrics.gauge(c.OPEN_CONNECTIONS)
        estimates = metrics.counter(c.PROMPT_BUCKET_ESTIMATES_TOTAL)
        limited = metrics.counter(c.DROPPED_TOTAL).child("log_limited")
        confirmed, corrected = estimates.child("confirmed"), estimates.child("corrected")

        if serving.config.spans.without_proxy:
            metrics.gauge(c.WITHOUT_PROXY).child().set(1)

        def set_gauges(_at: float) -> None:
            metrics.gauge(c.READY).child().set(int(self.ready()[0]))
            metrics.gauge(c.DRAINING).child().set(int(serving.readiness.life is not Life.SERVING))
            metrics.gauge(c.OPEN_LEDGERS).child().set(len(serving.settlement.pending))
            lengths = serving.observers.lengths
            limited.inc(serving.logs.limited_lines - limited.value)
            corrected.inc(lengths.corrections - corrected.value)
            confirmed.inc(lengths.checked - lengths.corrections - confirmed.value)
            connections.child("client").set(serving.traffic.open_connections)
            connections.child("engine").set(serving.road.pool.open_connections)

        metrics.before_scrape(set_gauges)
