"""The plain engine has room for a flood while its loop is busy."""

import asyncio
from urllib.parse import urlsplit

from tests.support.flood import FLOOD, opened_at_once
from tests.support.plain_engine import plain_engine


def test_a_flood_of_connections_waits_for_a_busy_engine() -> None:
    """None is dropped: the sidecar would call the engine unreachable, and be right."""

    async def scenario() -> int:
        async with plain_engine() as url:
            return opened_at_once(urlsplit(url).port or 0)

    assert asyncio.run(scenario()) == FLOOD
