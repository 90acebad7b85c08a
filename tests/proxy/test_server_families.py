"""The families of addresses that the traffic listener takes, as docs/attach.md states them."""

import asyncio
import socket

import pytest

from sidecar.config.values import parse_address
from tests.support.memory import Road
from tests.support.ports import free_port
from tests.support.scenario_loop import play


def _reaches(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("written", "families"),
    [(":%d", {"127.0.0.1", "::1"}), ("[::]:%d", {"::1"}), ("0.0.0.0:%d", {"127.0.0.1"})],
)
def test_an_address_without_a_host_takes_both_families(written: str, families: set[str]) -> None:
    """asyncio and uvloop give each family a socket of its own: `[::]` is IPv6 alone."""

    async def scenario() -> set[str]:
        address = parse_address(written % free_port())
        road = Road()
        await road.traffic.listen(address.host, address.port)
        try:
            return {host for host in ("127.0.0.1", "::1") if await asyncio.to_thread(_reaches, host, address.port)}
        finally:
            await road.traffic.close()

    assert play(scenario()) == families
