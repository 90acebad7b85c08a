"""The fetcher of reports looks often while a request waits for one, and seldom otherwise."""

import asyncio
from pathlib import Path

import pytest

from sidecar.engines.reports import fetcher
from sidecar.engines.reports.fetcher import IDLE_SECONDS, ExportTail
from sidecar.ledger.account import Account
from tests.engines.reports.exports import OURS, THIS_HOUR, append, fetching, line
from tests.support.fetching import BY_WIRE, EXACT


def test_it_looks_often_only_while_a_request_waits(tmp_path: Path) -> None:
    """Ten times a second while a request waits for its line, once a second otherwise."""

    async def scenario() -> tuple[float, float]:
        walk = fetching(tmp_path)
        idle = await walk.fetch()
        walk.answer(OURS)
        return idle, await walk.fetch()

    assert asyncio.run(scenario()) == (IDLE_SECONDS, ExportTail.WAITING_SECONDS)


def test_the_task_fetches_as_soon_as_a_request_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for its next idle fetch, which here never comes; and it ends when cancelled."""
    monkeypatch.setattr(fetcher, "IDLE_SECONDS", 3600.0)

    async def scenario() -> None:
        walk = fetching(tmp_path)
        settled = asyncio.Event()

        def log(account: Account) -> None:
            walk.accounts.append(account)
            settled.set()

        walk.settlement.log = log
        fetch, fetched = walk.report_fetcher.fetch, asyncio.Event()

        async def told() -> float:
            pause = await fetch()
            fetched.set()
            return pause

        monkeypatch.setattr(walk.report_fetcher, "fetch", told)
        task = asyncio.create_task(walk.report_fetcher.run())
        async with asyncio.timeout(60):
            await fetched.wait()  # what stands in a file before that is of another time
            append(tmp_path / THIS_HOUR, line())
            walk.answer(OURS)
            await settled.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert walk.phases() == [EXACT | BY_WIRE]

    asyncio.run(scenario())
