"""The families of addresses that the traffic listener takes, as docs/attach.md states them."""

import asyncio
import socket
from contextlib import suppress

import pytest

from sidecar.config.values import parse_address
from tests.support.memory import Road
from tests.support.ports import free_port
from tests.support.scenario_loop import play


def _on_this_machine() -> set[str]:
    """The addresses of loopback that are there: IPv6 may be switched off."""
    found = set()
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with suppress(OSError), socket.socket(family) as probe:
            probe.bind((host, 0))
            found.add(host)
    return found


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

    assert play(scenario()) == families & _on_this_machine()
