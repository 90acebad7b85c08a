"""The garden finds what is wrong with a hop: it can fail."""

import asyncio

import pytest

from tests.garden.garden import SEED, request_sequences
from tests.garden.garden_rounds import Finding, Hop, send_garden
from tests.garden.naive_proxy import naive_proxy
from tests.garden.recording_origin import RecordingOrigin
from tests.garden.sequence import Family
from tests.support.flood import FLOOD, opened_at_once


async def findings_on_a_naive_proxy(family: Family) -> list[Finding]:
    origin = RecordingOrigin()
    async with origin.listening():
        with naive_proxy(origin.port) as port:
            return await send_garden(Hop("naive", "127.0.0.1", port), request_sequences(SEED, (family,)), origin)


@pytest.mark.long
def test_a_naive_proxy_fails_where_it_is_naive() -> None:
    """It counts bodies right, and passes on names of fields that some servers take for others."""
    names = asyncio.run(findings_on_a_naive_proxy(Family.NAMES))

    assert len(names) > 10
    assert [one.fault for one in names if not one.fault.startswith("the origin got ")] == []
    assert asyncio.run(findings_on_a_naive_proxy(Family.BODIES)) == []


def test_a_busy_origin_takes_the_connections_of_an_attack() -> None:
    """Those that a hop opens while the loop is busy wait for it: none is dropped, and no attacker is answered 504."""

    async def scenario() -> int:
        async with RecordingOrigin().listening() as origin:
            return opened_at_once(origin.port)

    assert asyncio.run(scenario()) == FLOOD
