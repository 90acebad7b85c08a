"""Asks the engine what it is and whether it is there: `/health` for readiness, `/v1/models` for the model labels and the
kind, `/metrics` for its queue and its cache (`state.py` reads the page).

The only part of the sidecar that speaks to the engine on its own account, over connections of its own and never over the
relay's. Answers are bounded in size and time; an engine that is down or hangs costs a missed check and nothing else.
vLLM says what it is in `/v1/models` (`owned_by: "vllm"`, all V1 versions); what others say is issue 3's. Only a known
vLLM has its metrics read: llama.cpp resets gauges at each scrape, for everyone who reads them.
"""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol, TypeVar

import aiohttp
import msgspec
import structlog

from sidecar.engines.engine import Engine
from sidecar.engines.state import STEP_BYTES, EngineState, Growth, GrowthReader, PageScan
from sidecar.lifecycle import Readiness


INTERVAL_SECONDS = 2.0
TIMEOUT_SECONDS = 2.0
MAX_ANSWER_BYTES = 1 << 20
MODELS_AGAIN_SECONDS = 60.0
"""LoRA adapters come and go while the engine runs."""
OWNERS = {"vllm": "vllm"}
"""`owned_by` in /v1/models to the kind of engine that says so."""

STATE_INTERVAL_SECONDS = 5.0
"""Below every usual scrape interval of a Prometheus, so that what it reads here is fresh."""
STATE_TIMEOUT_SECONDS = 4.0
MAX_PAGE_BYTES = 8 << 20
"""An estimate with room: one rank's page is in the order of 100 KiB."""
NOT_YET_SECONDS = 1.0
"""How soon it is looked again whether the engine has become known and up."""


log = structlog.get_logger()


class _Model(msgspec.Struct):
    id: str
    owned_by: str | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class _Version(msgspec.Struct):
    version: str


A = TypeVar("A", _Models, _Version)


def _decoded(body: bytes | None, answer: type[A]) -> A | None:
    """What the engine answered; None where it is not that. It may be anything: bytes that are no text, nesting without end."""
    try:
        return msgspec.json.decode(body or b"", type=answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class Prober:
    """Keeps an `Engine` and a `Readiness` informed. `clock`: monotonic seconds; `changed`: told when something was learned."""

    def __init__(
        self, url: str, engine: Engine, readiness: Readiness, *, clock: Callable[[], float], changed: Callable[[], None]
    ) -> None:
        self._url = url.rstrip("/")
        self._engine = engine
        self._readiness = readiness
        self._clock = clock
        self._changed = changed
        self._models_at = float("-inf")

    async def run(self) -> None:
        """Ask for ever. Cancel to stop."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(timeout=timeout, cookie_jar=jar, auto_decompress=False) as session:
            while True:
                try:
                    await self.ask(session)
                except Exception:
                    log.exception("probe_failed")
                await asyncio.sleep(INTERVAL_SECONDS)

    async def ask(self, session: aiohttp.ClientSession) -> None:
        """One round of questions."""
        # A server without /health (404) is there all the same; one that answers 5xx says itself that it cannot work.
        status = await self._status(session, "/health")
        up = status is not None and status < 500
        if up:
            self._readiness.answered(self._clock())
        else:
            self._readiness.failed()
        if up != self._engine.up:
            self._engine.up = up
            self._models_at = float("-inf")  # what came back may be another version, with other models
            self._changed()
        if up and self._clock() - self._models_at > MODELS_AGAIN_SECONDS:
            await self._ask_what(session)

    async def _ask_what(self, session: aiohttp.ClientSession) -> None:
        models = _decoded(await self._body(session, "/v1/models"), _Models)
        if models is None:
            return
        self._models_at = self._clock()
        self._engine.serves([model.id for model in models.data])
        if self._engine.kind == "auto":
            kind = next((OWNERS[model.owned_by] for model in models.data if model.owned_by in OWNERS), None)
            if kind is not None:
                self._engine.is_kind(kind)
        if self._engine.version is None:
            version = _decoded(await self._body(session, "/version"), _Version)
            self._engine.version = None if version is None else version.version
        self._changed()

    async def _status(self, session: aiohttp.ClientSession, path: str) -> int | None:
        try:
            async with session.get(self._url + path, allow_redirects=False) as response:
                return response.status
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None

    async def _body(self, session: aiohttp.ClientSession, path: str) -> bytes | None:
        try:
            async with session.get(self._url + path, allow_redirects=False) as response:
                if response.status != 200:
                    return None
                body = await response.content.read(MAX_ANSWER_BYTES)
                while len(body) < MAX_ANSWER_BYTES and (
                    more := await response.content.read(MAX_ANSWER_BYTES - len(body))
                ):
                    body += more
                return body
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None


class Scraped(StrEnum):
    """How one reading of the engine's metrics ended: `llm_engine_scrapes_total{result}`."""

    OK = "ok"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    BAD_STATUS = "bad_status"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    """Broken off, compressed although nobody asked for that, or without any of the names that are looked for."""


class StateSink(Protocol):
    """Whoever wants the engine's state: `sidecar/metrics/engine_state.py`."""

    def scraped(self, result: str) -> None:
        """A reading ended so."""
        ...

    def read(self, state: EngineState, growth: Growth) -> None:
        """What a good reading said, and what changed since the one before."""
        ...

    def unknown(self) -> None:
        """Nobody knows the state now: the engine is down, silent, or of a kind that is not asked."""
        ...


class StateProber:
    """Reads a known vLLM's metrics every few seconds, over a connection of its own, beside the prober: neither waits for the other."""

    def __init__(self, url: str, engine: Engine, sink: StateSink) -> None:
        self._url = url.rstrip("/") + "/metrics"
        self._engine = engine
        self._sink = sink
        self._growth = GrowthReader()

    async def run(self) -> None:
        """Read for ever. Cancel to stop."""
        async with state_session() as session:
            while True:
                asked = True
                try:
                    asked = await self.look(session)
                except Exception:
                    self._sink.unknown()
                    log.exception("probe_failed")
                await asyncio.sleep(STATE_INTERVAL_SECONDS if asked else NOT_YET_SECONDS)

    async def look(self, session: aiohttp.ClientSession) -> bool:
        """One reading, unless the engine is not to be asked; returns whether it was. What is not known afterwards is said to be unknown."""
        engine, sink = self._engine, self._sink
        if engine.kind != "vllm" or not engine.up:
            sink.unknown()
            return False
        result, state = await self._scrape(session)
        sink.scraped(result)
        # While the page was read the engine may have been found to be down: a dead engine's front end still tells its last state.
        if state is None or not engine.up:
            sink.unknown()
        else:
            sink.read(state, self._growth.read(state))
        return True

    async def _scrape(self, session: aiohttp.ClientSession) -> tuple[Scraped, EngineState | None]:
        try:
            async with session.get(self._url, allow_redirects=False) as response:
                if response.status != 200:
                    return Scraped.BAD_STATUS, None
                if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
                    return Scraped.UNREADABLE, None
                return await _read_page(response.content)
        except TimeoutError:
            return Scraped.TIMEOUT, None
        except (aiohttp.ClientResponseError, aiohttp.ClientPayloadError, ValueError):
            return Scraped.UNREADABLE, None
        except (aiohttp.ClientError, OSError):
            return Scraped.UNREACHABLE, None


def state_session(timeout_seconds: float = STATE_TIMEOUT_SECONDS) -> aiohttp.ClientSession:
    """A session for one reader of metrics: a fresh connection each time, since engines close idle ones after 5 s, as often as we read."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=timeout_seconds),
        connector=aiohttp.TCPConnector(force_close=True, limit=1),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        headers={"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"},
    )


async def _read_page(content: aiohttp.StreamReader) -> tuple[Scraped, EngineState | None]:
    scan = PageScan()
    size = 0
    while data := await content.read(STEP_BYTES):
        size += len(data)
        if size > MAX_PAGE_BYTES:
            return Scraped.TOO_LARGE, None
        scan.feed(data)
        await asyncio.sleep(0)  # a page at hand is read without waiting: others must have their turn
    state = scan.finish()
    return (Scraped.UNREADABLE if state is None else Scraped.OK), state
