"""The application: builds all components of `serve` from a config, and owns the order of starting and stopping.

Starting: logs, metrics, the engine's side, the admin listener, then traffic. Stopping (SIGTERM, SIGINT): the drain
(`shutdown.py`), unless `/-/drain` has begun it; requests that outlive it are cut; then the pending ledgers are closed, while
/metrics still answers. A drain that no signal follows until its deadline ends in the same way.
"""

import asyncio
import gc
import os
import platform
import signal
import time
from collections.abc import Callable

import structlog
import uvloop

from sidecar import __version__
from sidecar.admin.access import Access
from sidecar.admin.listener import AdminListener
from sidecar.admin.page.page import Facts
from sidecar.admin.page.recent_failures import RecentFailures
from sidecar.budgets.heap import give_back_large_blocks
from sidecar.budgets.machine import Machine, this_machine
from sidecar.config.file import ConfigErrors
from sidecar.config.notes import notes
from sidecar.config.objectives import objectives_of
from sidecar.config.schema import Config, restart_needed
from sidecar.engines.reports.fetcher import ReportFetcher, readers_of
from sidecar.engines.reports.sink import ReportSink
from sidecar.health.health import Health, measure_lag
from sidecar.ledger.account import Account, Reason
from sidecar.lifecycle import Life, Readiness
from sidecar.logs.sanitise import allowed_headers
from sidecar.logs.setup import Logs
from sidecar.metrics import self_metrics as own
from sidecar.observe.baselines import Baselines
from sidecar.observe.budget_metrics import BudgetMetrics
from sidecar.observe.engine_progress import EngineProgress
from sidecar.observe.engine_side import EngineSide
from sidecar.observe.instruments import Instruments
from sidecar.otlp.receiver import PATH as TRACES
from sidecar.otlp.spans import Spans
from sidecar.proxy import parser_check
from sidecar.proxy.server import Traffic
from sidecar.shutdown import Drained, Shutdown
from sidecar.slo.progress import Progress
from sidecar.wiring import budgets_of, metrics_of, observers_of, reload, road_of


LAST_SCRAPE_SECONDS = 0.5
"""Time for which /metrics still answers after the last ledger was closed."""
DRAINED_ENDS = (
    "/-/drain was asked for, and no SIGTERM came until shutdown.grace_seconds were over, as where only the engine's container is "
    "restarted. A drained process serves no more, so this one ends; its supervisor starts a new one."
)

log = structlog.get_logger()


def run(config: Config, reload: Callable[[], Config]) -> int:
    """Serve until a signal stops it. Returns the exit code: 0 after an orderly end, 1 if a listener cannot be bound or the parser is unsafe."""
    give_back_large_blocks()
    return uvloop.run(App(config, reload, machine=this_machine()).serve())


class App:
    """One process: one engine, one traffic listener, one admin listener."""

    def __init__(
        self,
        config: Config,
        reload: Callable[[], Config],
        clock: Callable[[], float] = time.monotonic,
        machine: Machine | None = None,
    ) -> None:
        """`machine`: None asks the kernel."""
        self.config = config
        self._load = reload
        self._clock = clock
        self._began_at = clock()
        self._machine = this_machine() if machine is None else machine
        self.budgets = budgets_of(config, self._machine)
        self._stop = asyncio.Event()
        self._reload_refused: str | None = None
        self.logs = Logs.set_up(config.log)
        self.metrics = metrics_of(config)
        instruments = Instruments.on(self.metrics, objectives_of(config), estimate=config.engine.estimate == "auto")
        self.recorder = instruments.recorder
        self.inside = instruments.in_flight
        self.slo = instruments.slo
        self.estimates = instruments.estimates
        self.recent_failures = RecentFailures(clock)
        self.slo.on_blamed = self.recent_failures.missed
        self.readiness = Readiness()
        self.engine_side = EngineSide(
            config.engine,
            self.metrics,
            self.recorder,
            self.readiness,
            clock=clock,
            heard_at=lambda: self.road.engine_heard_at,
            in_flight=lambda: self.road.in_flight,
            known=self._engine_known,
        )
        self.engine = self.engine_side.engine
        self.observers = observers_of(
            config,
            instruments,
            self.engine,
            clock=clock,
            log=self._closed,
            headers_for_log=lambda fields: allowed_headers(fields, self.logs.allowed_headers),
        )
        self.settlement = settlement = self.observers.settlement
        self.engine_side.state.on_restart = self._engine_restarted
        self.report_fetcher = ReportFetcher(
            readers_of(
                config.engine,
                self.engine,
                ReportSink(
                    reported=settlement.reported,
                    dropped=self.recorder.dropped,
                    waiting=lambda: len(settlement.pending),
                    in_flight=lambda: len(self.inside),
                    clock=clock,
                ),
            ),
            self.engine,
        )
        settlement.listens = self.report_fetcher.listens
        settlement.on_ended = self.report_fetcher.ended
        self.road = road_of(config, self.observers, clock, self.budgets)
        self.traffic = Traffic(self.road)
        self.progress = EngineProgress(
            self.metrics,
            self.engine,
            self.readiness,
            clock=clock,
            flow=self.slo.flow,
            grew_at=lambda: self.engine_side.state.grew_at,
            counted=lambda: self.engine_side.counts_output,
            running=lambda: self.engine_side.state.running,
        )
        self.health = Health(lambda: self.traffic.lost, self.progress.look)
        self.shutdown = Shutdown(
            lambda: self.config.shutdown,
            self.readiness,
            self.traffic,
            lambda: self.road.in_flight,
            clock,
            on_deadline=self._drained_for_good,
        )
        self.spans = Spans(
            config.spans,
            settlement.span,
            self.recorder,
            minted=settlement.minted,
            sampled=settlement.sampled_traces,
            clock=clock,
        )
        self.budget_metrics = BudgetMetrics(
            self.metrics,
            self.budgets,
            sockets=lambda: self.traffic.open_connections + self.road.pool.open_connections,
            ledgers=lambda: (len(settlement.pending), settlement.pending.evicted),
            spans=lambda: (self.spans.intake.inside, self.spans.intake.found_no_room),
            clock=clock,
        )
        self.baselines = Baselines(
            config,
            self.slo,
            self.engine,
            clock=clock,
            unix=time.time,  # noqa: TID251  a timestamp in a file; no duration is made from it
            dropped=self.recorder.dropped,
        )
        self.admin = AdminListener(
            self,
            self.metrics,
            clock,
            traces=self.spans.handle,
            traces_from_anywhere=self.spans.from_anywhere,
            incidents=self.slo.roots.incidents,
            baseline=self.baselines.document,
            access=Access(config.web.config_file, self.metrics, clock),
        )
        self.admin.access.on_loaded = self._reload_gauges
        self._state_at_scrape()

    # --- life --------------------------------------------------------------------------------------------------------

    async def serve(self) -> int:
        """Start the listeners, serve until stopped, and shut down. Returns the exit code."""
        config = self.config
        if faults := parser_check.faults():
            log.error("parser_unsafe", faults=faults, hint=parser_check.advice())
            await self._end([])
            return 1
        try:
            admin = await self.admin.start(config.web.address.host, config.web.address.port)
            grpc = await self.spans.start()
            traffic = await self.traffic.listen(config.proxy.address.host, config.proxy.address.port)
        except OSError as error:
            log.error(
                "listen_failed",
                why=error.strerror or str(error),
                hint="The port may be taken: choose others with --proxy.listen-address and --web.listen-address.",
            )
            await self._end([])
            return 1
        self._reload_gauges()
        log.info(
            "listening", traffic=_shown(traffic), admin=_shown(admin[0]), engine=config.engine.url, version=__version__
        )
        for note in notes(config, os.environ):
            log.warning(note.event, **{note.about: note.names}, hint=note.hint)
        if config.spans.receive:
            told_at = f"http{'' if self.admin.access.tls is None else 's'}://{_shown(admin[0])}{TRACES}"
            log.info("takes_spans", http=told_at, grpc=None if grpc is None else _shown(grpc))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_stop)
        loop.add_signal_handler(signal.SIGHUP, lambda: self.road.spawn(self._reload_on_signal()))
        tasks = [
            *(loop.create_task(task) for task in self.engine_side.tasks()),
            loop.create_task(self.health.run()),
            loop.create_task(measure_lag(self._clock, self.metrics)),
            loop.create_task(self.budget_metrics.watch()),
            loop.create_task(self._expire()),
            loop.create_task(self.report_fetcher.run()),
            loop.create_task(self.baselines.run()),
        ]
        # Modules, config and every series that begins at 0 live as long as the process. They are frozen, because a full
        # garbage collection through them would stop every stream for milliseconds.
        gc.collect()
        gc.freeze()
        await self._stop.wait()
        await self._shut_down()
        await self._end(tasks)
        return 0

    def _told_to_stop(self) -> None:
        """Once: shut down in order. Twice: a person waits at a terminal, so requests in flight are cut and counted."""
        if self._stop.is_set():
            self.shutdown.hurry()
        self._stop.set()

    def _drained_for_good(self) -> None:
        """The drain's deadline has passed. Without a signal the pod goes on: only a new process can serve it."""
        if not self._stop.is_set():
            log.warning("drained_without_sigterm", why=DRAINED_ENDS)
            self._stop.set()

    async def _shut_down(self) -> None:
        await self.shutdown.drain()
        if self.road.in_flight:
            log.warning("grace_over", cut_short=self.road.in_flight)
            self.traffic.abandon()
        self.settlement.pending.close_all(Reason.SHUTDOWN)
        await self.baselines.last_save()
        await asyncio.sleep(LAST_SCRAPE_SECONDS)

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.traffic.close()
        await self.spans.stop()
        await self.admin.stop()
        log.info("stopped")
        self.logs.close()

    async def _expire(self) -> None:
        pause_seconds = 1.0
        while True:
            await asyncio.sleep(pause_seconds)
            pause_seconds = 0.0 if self.settlement.expire(self._clock()) else 1.0

    # --- called by the admin listener (admin/listener.py: App) -----------------------------------------------------

    def ready(self) -> tuple[bool, str]:
        """Whether traffic may come, and the reason."""
        self.readiness.heard(self.road.engine_heard_at)
        self.progress.look()
        return self.readiness.ready(self._clock())

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
        return Facts(
            version=__version__,
            engine=self.engine_side.name,
            source=self.engine_side.source,
            hints=self.engine_side.hints,
            uptime_seconds=self._clock() - self._began_at,
            config="the config before the refused reload" if notes else "as loaded",
            notes=tuple(notes),
            usual=self.baselines.words,
        )

    async def drain(self) -> Drained:
        """Begin the drain, as SIGTERM does, or join it; the process ends at SIGTERM, at the drain's deadline at the latest."""
        return await self.shutdown.drain()

    async def reload(self) -> list[str]:
        """Load the config again. A bad one, or one that needs a restart, is refused with errors; the old one stays."""
        try:
            config = await asyncio.to_thread(self._load)
        except ConfigErrors as errors:
            return self._refuse_reload(list(errors.lines))
        fixed = restart_needed(self.config, config)
        if fixed:
            return self._refuse_reload(
                [f"{key}: cannot change while the process runs; restart the sidecar" for key in fixed]
            )
        self.config = config
        self.recorder.admit_lanes(config.lanes.declared)
        self.slo.replace(objectives_of(config))
        reload(config, self.observers, self.road, self._machine)
        self.logs.apply(config.log)
        self._reload_refused = None
        self._reload_gauges()
        log.info("config_reloaded")
        return await self.admin.access.reload()

    def _refuse_reload(self, errors: list[str]) -> list[str]:
        self._reload_refused = errors[0]
        self._reload_gauges()
        log.error("config_reload_refused", errors=errors)
        return errors

    async def _reload_on_signal(self) -> None:
        await self.reload()

    # --- metrics of the process itself -------------------------------------------------------------------------------

    def _reload_gauges(self) -> None:
        succeeded = self._reload_refused is None and self.admin.access.refused is None
        self.metrics.gauge(own.CONFIG_LAST_RELOAD_SUCCESSFUL).child().set(int(succeeded))
        if succeeded:
            self.metrics.gauge(own.CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS).child().set(time.time())  # noqa: TID251  a timestamp, by its name

    def _engine_known(self) -> None:
        engine = self.engine
        self.settlement.engine_known()
        self.baselines.engine_known()
        self.settlement.listens = self.report_fetcher.listens
        if self.estimates is not None and engine.models:
            self.estimates.serves(engine.models)

    def _engine_restarted(self) -> None:
        """The objectives and the estimator forget values learned from the engine's previous process."""
        self.progress.restarted()
        self.slo.engine_restarted()
        if self.estimates is not None:
            self.estimates.forget()

    def _closed(self, account: Account) -> None:
        self.engine_side.closed(account)
        self.recent_failures.closed(account)
        self.logs.request(account)

    def _state_at_scrape(self) -> None:
        metrics = self.metrics
        metrics.info(own.SIDECAR_BUILD_INFO, __version__, platform.python_version())
        connections = metrics.gauge(own.OPEN_CONNECTIONS)
        estimates = metrics.counter(own.PROMPT_BUCKET_ESTIMATES_TOTAL)
        limited = metrics.counter(own.DROPPED_TOTAL).child("log_limited")
        confirmed, corrected = estimates.child("confirmed"), estimates.child("corrected")

        def set_gauges(_at: float) -> None:
            metrics.gauge(own.READY).child().set(int(self.ready()[0]))
            metrics.gauge(own.DRAINING).child().set(int(self.readiness.life is not Life.SERVING))
            metrics.gauge(own.OPEN_LEDGERS).child().set(len(self.settlement.pending))
            lengths = self.observers.lengths
            limited.inc(self.logs.limited_lines - limited.value)
            corrected.inc(lengths.corrections - corrected.value)
            confirmed.inc(lengths.checked - lengths.corrections - confirmed.value)
            connections.child("client").set(self.traffic.open_connections)
            connections.child("engine").set(self.road.pool.open_connections)

        metrics.before_scrape(set_gauges)


def _shown(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
