"""Reads the engine's own page of metrics every few seconds and hands on the state in it (`state.py` reads it, pure).

It has a connection of its own beside the prober, so neither waits for the other. Only a known engine is read, on the path and
by the names of its kind; if each reading resets its gauges for other readers, only with the config's permission. A page that
hangs, breaks off, is compressed or is not metrics is counted, and the engine's state is then unknown.
"""

import asyncio
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

import aiohttp
import structlog

from sidecar.engines.engine import Engine
from sidecar.engines.probe.state import STEP_BYTES, EngineState, Growth, GrowthReader, PageScan
from sidecar.engines.probe.state_names import StateNames
from sidecar.engines.probe.where import http_url, unix_path
from sidecar.engines.probe.worker_pages import WorkerScan, together


STATE_INTERVAL_SECONDS = 5.0
"""Shorter than every usual scrape interval of Prometheus, so that its scrapes get fresh values."""
STATE_TIMEOUT_SECONDS = 4.0
MAX_PAGE_BYTES = 8 << 20
"""An estimate with a margin: one rank's page has about 100 KiB."""
NOT_YET_SECONDS = 1.0
"""Seconds until the next check whether the engine is known and up."""


log = structlog.get_logger()


class Scraped(StrEnum):
    """How one reading of the engine's metrics ended: `llm_engine_scrapes_total{result}`."""

    OK = "ok"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    BAD_STATUS = "bad_status"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    """The page broke off, was compressed without a request for it, or is no page of metrics."""
    NO_NAMES = "no_names"
    """It is a whole page without any of the names that are read: several engines state them from their first request on."""


class StateSink(Protocol):
    """The receiver of the engine's state: `sidecar/observe/engine_state.py`."""

    def scraped(self, result: str) -> None:
        """A reading ended so."""

    def read(self, state: EngineState, growth: Growth) -> None:
        """The state in a good reading, and what changed since the one before."""

    def unknown(self) -> None:
        """The state is not known now: the engine is down, silent, or of a kind that is not read."""


Scan = PageScan | WorkerScan


class StateProber:
    def __init__(
        self,
        url: str,
        engine: Engine,
        sink: StateSink,
        *,
        workers: Sequence[str] = (),
        may_reset: bool = False,
        restarted: Callable[[], None] = lambda: None,
        timeout_seconds: float = STATE_TIMEOUT_SECONDS,
    ) -> None:
        """`url`: where its metrics stand, without a path. `workers`: where those of its workers stand, if they have pages of their own. `may_reset`: a page is read although each reading resets gauges. `restarted`: told when its counters or its start time say so."""
        self._url, self._unix_path = http_url(url), unix_path(url)
        self._workers = tuple(http_url(worker) for worker in workers)
        self._engine = engine
        self._sink = sink
        self._may_reset = may_reset
        self._restarted = restarted
        self._timeout_seconds = timeout_seconds
        self._kind = ""
        self._growth = GrowthReader()
        self.last: Scraped | None = None
        """How the last reading ended; None before the first."""

    async def run(self) -> None:
        """Read for ever. Cancel to stop."""
        async with state_session(self._timeout_seconds, self._unix_path) as session:
            while True:
                asked = True
                try:
                    asked = await self.probe(session)
                except Exception:
                    self._sink.unknown()
                    log.exception("probe_failed")
                await asyncio.sleep(STATE_INTERVAL_SECONDS if asked else NOT_YET_SECONDS)

    @property
    def names(self) -> StateNames | None:
        """How the page is read now; None if it is not read."""
        kind = self._engine.speaks
        return None if kind.reading_resets and not self._may_reset else kind.state

    async def probe(self, session: aiohttp.ClientSession) -> bool:
        """Read once, unless the engine is not to be read; returns whether it was. A state that is not read becomes unknown."""
        engine, sink, names = self._engine, self._sink, self.names
        if names is None or not engine.up:
            sink.unknown()
            self.last = None
            return False
        if engine.kind != self._kind:
            self._kind, self._growth = engine.kind, GrowthReader()
        result, state = await self._scrape(session, self._url + names.path, PageScan(names))
        if self._workers and engine.speaks.worker_states and (state is not None or result is Scraped.NO_NAMES):
            result, state = await self._with_workers(state)
        self.last = result
        sink.scraped(result)
        # While the page was read the engine may have been found to be down: a dead engine's front end still tells its last state.
        if state is None or not engine.up:
            sink.unknown()
            return True
        growth = self._growth.read(state)
        sink.read(state, growth)
        if growth.restarted:
            self._restarted()
        return True

    async def _with_workers(self, front: EngineState | None) -> tuple[Scraped, EngineState | None]:
        """The state of front end and workers; the front end's alone, with the first failure, where one of the pages could not be read.

        `front`: None if its page has no names yet, as before its first request has ended. The workers are read at once, each with the whole
        timeout: the config bounds their number.
        """
        spoken = self._engine.speaks.worker_states
        pages = [f"{url}{spoken[0].path}" for url in self._workers]
        async with state_session(self._timeout_seconds, at_once=len(pages)) as session:
            found = await asyncio.gather(*(self._scrape(session, page, WorkerScan(spoken)) for page in pages))
        states = [state for _, state in found if state is not None]
        if len(states) < len(found):
            return next(result for result, state in found if state is None), front
        return Scraped.OK, together(EngineState() if front is None else front, states)

    async def _scrape(
        self, session: aiohttp.ClientSession, page: str, scan: Scan
    ) -> tuple[Scraped, EngineState | None]:
        try:
            async with session.get(page, allow_redirects=False) as response:
                if response.status != 200:
                    return Scraped.BAD_STATUS, None
                if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
                    return Scraped.UNREADABLE, None
                return await _read_page(response.content, scan)
        except TimeoutError:
            return Scraped.TIMEOUT, None
        except (aiohttp.ClientResponseError, aiohttp.ClientPayloadError, ValueError):
            return Scraped.UNREADABLE, None
        except (aiohttp.ClientError, OSError):
            return Scraped.UNREACHABLE, None


def state_session(
    timeout_seconds: float = STATE_TIMEOUT_SECONDS, unix_path: str = "", *, at_once: int = 1
) -> aiohttp.ClientSession:
    """A session for one reader of metrics: a fresh connection each time, since engines close idle ones after 5 s, as often as we read.

    The timeout includes the wait for a connection while `at_once` others are open.
    """
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=timeout_seconds),
        connector=(
            aiohttp.UnixConnector(unix_path, force_close=True, limit=at_once)
            if unix_path
            else aiohttp.TCPConnector(force_close=True, limit=at_once)
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        headers={"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"},
    )


async def _read_page(content: aiohttp.StreamReader, scan: Scan) -> tuple[Scraped, EngineState | None]:
    size = 0
    while data := await content.read(STEP_BYTES):
        size += len(data)
        if size > MAX_PAGE_BYTES:
            return Scraped.TOO_LARGE, None
        scan.feed(data)
        await asyncio.sleep(0)  # a page at hand is read without waiting: others must have their turn
    state = scan.finish()
    if state is None:
        return (Scraped.NO_NAMES if scan.is_whole else Scraped.UNREADABLE), None
    return Scraped.OK, state
