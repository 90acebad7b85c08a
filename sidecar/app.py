"""The application: the order of starting and stopping of `serve`.

Starting: logs, metrics and traffic (`serving.py`), which answers then; meanwhile the rest (`beside_traffic.py`) is loaded in a
thread, built, and started. Its listener's port is bound before traffic begins, so that its clients wait for some tenths of a second,
and a port that is taken ends the start. Stopping (SIGTERM, SIGINT): the drain
(`shutdown.py`), unless `/-/drain` has begun it; requests that outlive it are cut; then the pending ledgers are closed, while
/metrics still answers. A drain that no signal follows until its deadline ends in the same way.
"""

import asyncio
import errno
import gc
import signal
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog
import uvloop

from sidecar import BUILD, __version__
from sidecar.budgets.budgets import LEAST_FILES, LEAST_MEMORY_BYTES, MORE_FILES
from sidecar.budgets.heap import give_back_large_blocks
from sidecar.budgets.machine import Machine, this_machine
from sidecar.config.environment import variable_of
from sidecar.config.notes import notes
from sidecar.config.schema import FLAGS, NO_TRAFFIC, Config, ProxyConfig, WebConfig, flag_of
from sidecar.health.health import measure_lag
from sidecar.ledger.account import Reason
from sidecar.proxy import parser_check
from sidecar.proxy.doorstep import Doorstep
from sidecar.serving import Serving, shown
from sidecar.shutdown import Shutdown


if TYPE_CHECKING:
    from sidecar.beside_traffic import BesideTraffic


LAST_SCRAPE_SECONDS = 0.5
"""Time for which /metrics still answers after the last ledger was closed."""
THREAD_TURN_SECONDS = 0.0005
"""The longest that the loop waits for a thread that computes, such as the one that loads the rest; Python's default is 5 ms."""
DRAINED_ENDS = (
    "/-/drain was asked for, and no SIGTERM came until shutdown.grace_seconds were over, as where only the engine's container is "
    "restarted. A drained process serves no more, so this one ends; its supervisor starts a new one."
)
WITHOUT_MEANING = (signal.SIGUSR1, signal.SIGUSR2)
"""They end a process that does not expect them. The log names each of them once, when it comes first."""
SIGNALS_HINT = "It has no meaning here: SIGHUP reads the config again, SIGTERM and SIGINT drain. There is no log file to open again."
FEW_FILES = (
    f"{MORE_FILES}. With fewer than {LEAST_FILES} files every client would be answered 503. See docs/budgets.md."
)
LITTLE_MEMORY = (
    "The process alone and what its limits allow need more, so that the kernel may end it under load: raise the memory limit of its"
    " control group (in Kubernetes resources.limits.memory). See docs/budgets.md."
)

log = structlog.get_logger()


def run(config: Config, reload: Callable[[], Config]) -> int:
    """Serve until a signal stops it. Returns the exit code: 0 after an orderly end, 1 if a listener cannot be bound or the parser is unsafe."""
    give_back_large_blocks()
    sys.setswitchinterval(THREAD_TURN_SECONDS)
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
        self._load = reload
        self._stop = asyncio.Event()
        self._exit_code = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._told_of: set[signal.Signals] = set()
        self._doorstep = Doorstep()
        self.serving = serving = Serving(config, clock, this_machine() if machine is None else machine)
        self.beside: BesideTraffic | None = None
        """None until it is built, some tenths of a second after traffic began."""
        self.shutdown = Shutdown(
            lambda: serving.config.shutdown,
            serving.readiness,
            serving.traffic,
            lambda: serving.road.in_flight,
            clock,
            on_deadline=self._drained_for_good,
        )

    async def serve(self) -> int:
        """Start the listeners, serve until stopped, and shut down. Returns the exit code."""
        serving, config = self.serving, self.serving.config
        if faults := parser_check.faults():
            log.error("parser_unsafe", faults=faults, hint=parser_check.advice())
            return await self._end(1)
        if serving.machine.files < LEAST_FILES:
            log.error("too_few_files", open_files=serving.machine.files, needed=LEAST_FILES, hint=FEW_FILES)
            return await self._end(1)
        admin = await _bound("web.listen_address", config.web, self._doorstep.open)
        where = NO_TRAFFIC
        if not config.spans.without_proxy:
            traffic = await _bound("proxy.listen_address", config.proxy, serving.traffic.listen)
            where = "" if traffic is None else shown(traffic)
        if admin is None or not where:
            return await self._end(1)
        engine = config.engine.url
        log.info("listening", traffic=where, admin=shown(admin), engine=engine, version=__version__, build=BUILD)
        for note in notes(config):
            log.warning(note.event, **{note.about: note.names}, hint=note.hint)
        self._tell_limits()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_stop)
        for number in WITHOUT_MEANING:
            loop.add_signal_handler(number, self._ignored, number)
        self._start(serving.expire(), measure_lag(serving.clock, serving.metrics))
        the_rest = loop.create_task(self._start_the_rest(), name="app.the_rest")
        loop.add_signal_handler(signal.SIGHUP, lambda: serving.road.spawn(self._reload_on_signal(the_rest)))
        await self._stop.wait()
        await the_rest
        if self._exit_code:
            serving.traffic.abandon()
        else:
            await self._shut_down()
        return await self._end(self._exit_code)

    def _tell_limits(self) -> None:
        """Say what the machine gives, what was derived from it, and whether that is too little memory."""
        memory_bytes, files = self.serving.machine
        limits = {budget.kind.label: budget.limit for budget in self.serving.budgets.rows()}
        log.info("budgets", memory_bytes=memory_bytes, open_files=files, **limits)
        if memory_bytes < LEAST_MEMORY_BYTES:
            log.warning("little_memory", memory_bytes=memory_bytes, needed=LEAST_MEMORY_BYTES, hint=LITTLE_MEMORY)

    def _start(self, *coroutines: Coroutine[None, None, None]) -> None:
        self._tasks += [asyncio.create_task(each) for each in coroutines]
        # Modules, config and every series that begins at 0 live as long as the process. They are frozen, because a full
        # garbage collection through them would stop every stream for milliseconds. None comes before: a start makes no garbage.
        gc.freeze()

    # --- beside traffic ----------------------------------------------------------------------------------------------

    async def _start_the_rest(self) -> None:
        """Start all that is not traffic. If that fails, the process ends, as if it had failed before: it could not be watched."""
        try:
            built = await asyncio.to_thread(_loaded)
            self.beside = beside = built(self.serving, self.shutdown, self._load)
        except Exception as error:
            why = str(error) if isinstance(error, ImportError) else type(error).__name__
            log.critical("start_failed", why=why, exc_info=error)
            return self._give_up()
        await asyncio.sleep(0)  # to build and to start take 2 ms each: the streams have a turn between
        try:
            await beside.start(self._doorstep.taken())
        except OSError as error:
            # The other listener of this half has its sockets already.
            _listen_failed("spans.grpc_listen_address", self.serving.config.spans.grpc_listen_address, error)
            return self._give_up()
        self._start(*beside.tasks())
        return gc.enable()

    def _give_up(self) -> None:
        self._exit_code = 1
        self._stop.set()

    async def _reload_on_signal(self, the_rest: asyncio.Task[None]) -> None:
        await asyncio.wait([the_rest])
        if self.beside is not None:
            await self.beside.reload()

    # --- the end -----------------------------------------------------------------------------------------------------

    def _told_to_stop(self) -> None:
        """Once: shut down in order. Twice: a person waits at a terminal, so requests in flight are cut and counted."""
        if self._stop.is_set():
            self.shutdown.hurry()
        self._stop.set()

    def _ignored(self, number: signal.Signals) -> None:
        """It means something to other servers, such as to open their logs again; the kernel's own answer is to end the process."""
        if number not in self._told_of:
            self._told_of.add(number)
            log.warning("signal_ignored", signal=number.name, hint=SIGNALS_HINT)

    def _drained_for_good(self) -> None:
        """The drain's deadline has passed. Without a signal the pod goes on: only a new process can serve it."""
        if not self._stop.is_set():
            log.warning("drained_without_sigterm", why=DRAINED_ENDS)
            self._stop.set()

    async def _shut_down(self) -> None:
        await self.shutdown.drain()
        if self.serving.road.in_flight:
            log.warning("grace_over", cut_short=self.serving.road.in_flight)
            self.serving.traffic.abandon()
        self.serving.road.endings.flush()
        self.serving.settlement.pending.close_all(Reason.SHUTDOWN)
        if self.beside is not None:
            await self.beside.baselines.last_save()
            await self.beside.send_last_spans()
        await asyncio.sleep(LAST_SCRAPE_SECONDS)

    async def _end(self, exit_code: int) -> int:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.serving.traffic.close()
        self._doorstep.close()
        if self.beside is not None:
            await self.beside.stop()
        log.info("stopped")
        self.serving.logs.close()
        return exit_code


def _loaded() -> "type[BesideTraffic]":
    """The other half, loaded: a quarter of a second of computing, so a thread calls it."""
    with _no_certificates():
        from sidecar.beside_traffic import BesideTraffic, read_files  # noqa: PLC0415  traffic comes first
    read_files()
    return BesideTraffic


@contextmanager
def _no_certificates() -> Iterator[None]:
    """Have aiohttp's import not read the machine's 140 trusted certificates, twice: 40 ms and 3 MB.

    Of all connections of this process, only one to a collector may be TLS to another host, and it reads them itself
    (`otlp/outbox.py`). A context that is made meanwhile trusts no certificate.
    """
    ssl.SSLContext.set_default_verify_paths = lambda _self: None  # type: ignore[assignment,method-assign]  # during the import
    try:
        yield
    finally:
        del ssl.SSLContext.set_default_verify_paths


async def _bound(
    key: str, of: WebConfig | ProxyConfig, listen: Callable[[str, int], Awaitable[tuple[str, int]]]
) -> tuple[str, int] | None:
    """The address of a listener that now listens; None after the log said why it cannot."""
    try:
        return await listen(of.address.host, of.address.port)
    except OSError as error:
        _listen_failed(key, of.listen_address, error)
        return None


def _listen_failed(key: str, address: str, error: OSError) -> None:
    """Say which key asks for an address that cannot be had, and what to do."""
    flag = f"{flag_of(key)} or " if key in FLAGS else ""
    instead = f"choose another address with {flag}{variable_of(tuple(key.split('.')))}"
    if error.errno == errno.EADDRINUSE:
        port = address.rpartition(":")[2]
        hint = f"Another process listens on port {port} (`ss -ltnp 'sport = :{port}'` names it): stop it, or {instead}."
    elif error.errno == errno.EACCES:
        hint = f"Ports below 1024 need the right to bind them: {instead}."
    elif error.errno == errno.EADDRNOTAVAIL:
        hint = f"No interface of this machine has that address: {instead}."
    else:
        hint = f"The port may be taken, or no address of this machine: {instead}."
    log.error("listen_failed", key=key, address=address, why=error.strerror or str(error), hint=hint)
