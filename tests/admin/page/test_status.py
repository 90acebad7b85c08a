"""Serving the status page: it is rendered in slices, at most once a second, for any number of clients."""

import asyncio
from collections.abc import Sequence

import aiohttp

from sidecar.admin.listener import AdminListener
from sidecar.admin.page.status import FRESH_SECONDS, StatusPage
from sidecar.diagnosis.findings import Diagnosis
from sidecar.history.ring import History
from sidecar.history.slices import Sliced
from sidecar.history.snapshot import Snapshot
from tests.support.admin import Double, metrics


class Counted:
    """Counts calls for diagnoses: one for each time that the page is rendered."""

    def __init__(self) -> None:
        self.drawn = 0

    def diagnoses(self, _now: Snapshot) -> Sliced[Sequence[Diagnosis]]:
        self.drawn += 1
        for _ in range(5):
            yield
        return ()


def test_ten_who_watch_cost_as_much_as_one() -> None:
    """Requests during rendering wait for the same page; requests within a second afterwards get it unchanged."""

    async def scenario() -> list[int]:
        now, counted, registry = 100.0, Counted(), metrics()
        page = StatusPage(Double(registry), History(registry, at=100.0), lambda: now, counted.diagnoses)
        drawn = []

        first = await asyncio.gather(*(page._page(refresh=True) for _ in range(10)))
        assert len(set(first)) == 1
        drawn.append(counted.drawn)
        now += FRESH_SECONDS / 2
        await page._page(refresh=True)
        drawn.append(counted.drawn)
        now += FRESH_SECONDS
        await page._page(refresh=True)
        drawn.append(counted.drawn)
        return drawn

    assert asyncio.run(scenario()) == [1, 1, 2]


def test_a_client_that_leaves_takes_the_page_from_no_other() -> None:
    async def scenario() -> bytes:
        counted, registry = Counted(), metrics()
        page = StatusPage(Double(registry), History(registry, at=100.0), lambda: 100.0, counted.diagnoses)
        first, second = (asyncio.create_task(page._page(refresh=True)) for _ in range(2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        body = await second
        assert (first.cancelled(), counted.drawn) == (True, 1)
        return body

    assert asyncio.run(scenario()).startswith(b"<!doctype html>")


def test_a_page_that_holds_still_is_another_page() -> None:
    async def scenario() -> tuple[bytes, bytes]:
        counted, registry = Counted(), metrics()
        page = StatusPage(Double(registry), History(registry, at=100.0), lambda: 100.0, counted.diagnoses)
        return await page._page(refresh=True), await page._page(refresh=False)

    moving, still = asyncio.run(scenario())
    assert (b"<script>" in moving, b"<script>" in still) == (True, False)


def test_head_says_what_get_would_and_there_is_no_icon() -> None:
    async def scenario() -> None:
        registry = metrics()
        admin = AdminListener(Double(registry), registry, asyncio.get_running_loop().time)
        ((_, port),) = await admin.start("127.0.0.1", 0)
        try:
            async with (
                aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
                session.get("/") as got,
                session.head("/") as head,
                session.get("/favicon.ico") as icon,
            ):
                policy = "Content-Security-Policy"
                assert (head.status, await head.read()) == (200, b"")
                assert head.headers[policy] == got.headers[policy]
                assert (icon.status, await icon.read()) == (204, b"")
        finally:
            await admin.stop()

    asyncio.run(scenario())
