"""A scenario that fails leaves nothing open, and a connection that a test does leave open is reported in that test."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.client import Connection
from tests.support.origin import Origin, Visit, answering
from tests.support.proxy import RawClient, running
from tests.support.scenario_loop import play


CHECKOUT = Path(__file__).parents[2]
GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LEAVING = """\
import asyncio, socket

def test_leaves_a_socket_in_a_circle():
    class Held: ...
    held = Held()
    held.itself, held.socket = held, socket.socket()

def test_leaves_nothing(): ...

def test_fails_with_a_socket_in_its_frame():
    left = socket.socket()
    assert not left

def test_leaves_nothing_either(): ...
"""


async def sends_without_end(visit: Visit) -> None:
    await visit.request()
    visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (16 << 20, bytes(16 << 20)))
    await visit.flush()


@pytest.mark.parametrize("script", [answering(OK), sends_without_end], ids=["idle", "in the middle of an answer"])
def test_a_scenario_that_fails_ends_its_connections(script: object) -> None:
    """Otherwise uvloop fails as it closes, hiding the scenario's failure, and the transports warn in later tests."""
    clients: list[RawClient] = []
    connections: list[Connection] = []

    async def scenario() -> None:
        async with Origin(script).listening() as origin, running(origin.port) as relay:  # type: ignore[arg-type]  # a script
            clients.append(await RawClient.connect(relay.port, receive_buffer_bytes=4096))
            connections.append(await Connection.open(relay.port))
            clients[0].send(GET)
            await clients[0].until(b"\r\n\r\n")
            raise LookupError("the scenario's own")

    with pytest.raises(LookupError, match="the scenario's own"):
        play(scenario())

    assert clients[0].writer.transport.is_closing()
    assert connections[0].closed


def test_a_warning_belongs_to_the_test_that_caused_it(tmp_path: Path) -> None:
    (tmp_path / "test_toy.py").write_text(LEAVING)
    command = [sys.executable, "-m", "pytest", f"--rootdir={tmp_path}", "-c", str(CHECKOUT / "pyproject.toml")]

    run = subprocess.run(
        [*command, str(tmp_path), "-p", "tests.conftest", "--tb=no", "-p", "no:cacheprovider"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    told = re.findall(r"^(ERROR|FAILED) .*::(\w+)", run.stdout, re.MULTILINE)
    assert told == [
        ("ERROR", "test_leaves_a_socket_in_a_circle"),
        ("ERROR", "test_fails_with_a_socket_in_its_frame"),
        ("FAILED", "test_fails_with_a_socket_in_its_frame"),
    ], run.stdout + run.stderr
    assert "3 passed" in run.stdout
