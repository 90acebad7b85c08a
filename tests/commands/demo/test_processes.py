"""Programs of the demo: a port that is taken names its flag, and a program that does not start shows its log."""

import asyncio
import signal
import socket
import sys

import aiohttp
import pytest

from sidecar.commands.demo.processes import LOOPBACK, DemoError, bindable, free_ports, running


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(20)

    assert len({*ports}) == 20
    assert [bindable("--port", port) for port in ports] == ports


def test_a_port_that_is_taken_names_the_flag_for_another() -> None:
    """Port 0 takes any free one."""
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(DemoError, match=rf"port {port} is not available .*choose another with --admin-port"):
            bindable("--admin-port", port)

    assert bindable("--admin-port", 0) > 0


SERVER = "import http.server, sys; http.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[1]))"


def test_a_program_runs_for_the_length_of_its_block() -> None:
    """Inside the block it answers; at the end of the block it gets a SIGTERM, and is waited for."""

    async def scenario() -> tuple[int, int | None]:
        (port,) = free_ports(1)
        url = f"http://{LOOPBACK}:{port}/"
        async with (
            running("server", [sys.executable, "-c", SERVER, str(port)], ready_url=url) as process,
            aiohttp.ClientSession() as client,
            client.get(url) as answer,
        ):
            status = answer.status
        return status, process.returncode

    status, code = asyncio.run(scenario())

    assert (status, code) == (200, -signal.SIGTERM)


def test_a_program_that_ends_at_once_shows_how_it_ended_and_its_log() -> None:
    async def scenario() -> None:
        command = [sys.executable, "-c", "import os; print(os.environ['WORD']); raise SystemExit(3)"]
        async with running("it", command, ready_url=f"http://{LOOPBACK}:1/", env={"WORD": "no such rule file"}):
            pass

    with pytest.raises(DemoError, match="it did not start: it ended with exit code 3\nno such rule file"):
        asyncio.run(scenario())
