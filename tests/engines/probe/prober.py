"""A prober of a tiny engine on a real socket, and engines whose pages change. Asserts nothing."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from sidecar.engines.engine import Engine
from sidecar.engines.probe.probe import Prober
from sidecar.lifecycle import Readiness


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def engine_answering(handler: Handler, path: str = "/{path:.*}") -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get(path, handler)
    server = TestServer(app)
    await server.start_server()
    try:
        yield str(server.make_url("")).rstrip("/")
    finally:
        await server.close()


class ProberHarness:
    """A prober of a tiny engine."""

    def __init__(self, url: str, kind: str = "auto", key: Callable[[], str] = str) -> None:
        self.engine = Engine(kind)
        self.readiness = Readiness()
        self.changes = 0
        self.now = 100.0
        self.heard_at = float("-inf")
        self.prober = Prober(
            url,
            self.engine,
            self.readiness,
            clock=lambda: self.now,
            changed=self._changed,
            heard_at=lambda: self.heard_at,
            key=key,
        )

    def _changed(self) -> None:
        self.changes += 1

    async def ask(self, timeout_seconds: float = 5.0) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_seconds)) as session:
            await self.prober.ask(session)


def answering(pages: dict[str, bytes], request: web.Request) -> web.Response:
    body = pages.get(request.path)
    return web.Response(status=404) if body is None else web.Response(body=body)


VLLM_MODELS = b'{"object":"list","data":[{"id":"tiny","object":"model","owned_by":"vllm"}]}'


class Replaced:
    """An engine that is replaced by one with these `pages`, and gone while there are none; `asked` counts its paths."""

    def __init__(self, pages: dict[str, bytes]) -> None:
        self.pages = pages
        self.asked: Counter[str] = Counter()

    async def answer(self, request: web.Request) -> web.Response:
        self.asked[request.path] += 1
        if not self.pages:
            return web.Response(status=503)
        return answering({"/health": b"", **self.pages}, request)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  another task of this loop makes it true
            await asyncio.sleep(0.005)
