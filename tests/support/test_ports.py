"""Every server of every worker gets a port of its own."""

import socket

import pytest

from tests.support import ports


def test_a_port_is_given_once_and_can_be_listened_on() -> None:
    given = [ports.free_port() for _ in range(20)]

    assert len(set(given)) == 20
    for port in given:
        with socket.create_server(("127.0.0.1", port)) as server:
            assert server.getsockname() == ("127.0.0.1", port)


def test_the_workers_of_one_run_share_the_ports_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "3")
    shares = []
    for worker in ("gw0", "gw1", "gw2"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        shares.append(list(ports._shuffled()))

    assert sorted(port for share in shares for port in share) == list(range(ports.FIRST, ports.END))
