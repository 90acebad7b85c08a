"""Asks the engine what it is and whether it is there: `/health` for readiness, `/v1/models` for the model labels and the kind.

The only part of the sidecar that speaks to the engine on its own account, over connections of its own and never over the
relay's. Answers are bounded in size and time; an engine that is down or hangs costs a missed check and nothing else.
vLLM says what it is in `/v1/models` (`owned_by: "vllm"`, all V1 versions); what others say is issue 3's.
"""

import asyncio
from collections.abc import Callable

import aiohttp
import msgspec

from sidecar.engines.engine import Engine
from sidecar.lifecycle import Readiness


INTERVAL_SECONDS = 2.0
TIMEOUT_SECONDS = 2.0
MAX_ANSWER_BYTES = 1 << 20
MODELS_AGAIN_SECONDS = 60.0
"""LoRA adapters come and go while the engine runs."""
OWNERS = {"vllm": "vllm"}
"""`owned_by` in /v1/models to the kind of engine that says so."""


class _Model(msgspec.Struct):
    id: str
    owned_by: str | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class _Version(msgspec.Struct):
    version: str


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
                await self.ask(session)
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
        body = await self._body(session, "/v1/models")
        try:
            listed = msgspec.json.decode(body or b"", type=_Models).data
        except msgspec.MsgspecError:
            return
        self._models_at = self._clock()
        self._engine.serves([model.id for model in listed])
        if self._engine.kind == "auto":
            kind = next((OWNERS[model.owned_by] for model in listed if model.owned_by in OWNERS), None)
            if kind is not None:
                self._engine.is_kind(kind)
        if self._engine.version is None:
            version = await self._body(session, "/version")
            try:
                self._engine.version = msgspec.json.decode(version or b"", type=_Version).version
            except msgspec.MsgspecError:
                self._engine.version = None
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
