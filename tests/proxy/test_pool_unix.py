"""An engine on a Unix socket: served as on TCP, and never sent a request twice, because no kernel says what it had."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sidecar.proxy.errors import Failure
from sidecar.timeline.outcome import Outcome
from tests.support.proxy import RawClient, running
from tests.support.scenario_loop import play
from tests.support.sidecar_process import running_sidecar


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET /anything HTTP/1.1\r\nHost: pod\r\n\r\n"


class Engine:
    """Answers every request on a Unix socket; `requests` are their heads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.requests: list[bytes] = []
        self.answers = True

    async def serve(self, life: AsyncExitStack) -> None:
        self.path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._visited, self.path)
        life.callback(server.close)

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            if not self.answers:
                break
            writer.write(OK)
        writer.close()


def test_traffic_passes_and_an_old_client_is_given_a_host(tmp_path: Path) -> None:
    """The client's Host stays; an HTTP/1.0 request without one gets localhost (RFC 9110 7.2)."""

    async def scenario() -> list[bytes]:
        engine = Engine(tmp_path / "engine.sock")
        async with AsyncExitStack() as life, running(80, unix_path=str(engine.path)) as relay:
            await engine.serve(life)
            client = await RawClient.connect(relay.port)
            for _ in range(2):
                client.send(GET)
                assert await client.until(b"ok") == OK
            client.send(b"GET /old HTTP/1.0\r\n\r\n")
            assert (await client.rest())[0].endswith(b"ok")
            await client.close()
            await relay.settled()
            assert relay.pool.open_connections == 1
        return engine.requests

    requests = play(scenario())
    assert requests == [GET, GET, b"GET /old HTTP/1.1\r\nHost: localhost\r\n\r\n"]


def test_an_engine_that_closes_an_idle_connection_does_not_get_the_request_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = Engine(tmp_path / "engine.sock")
        async with AsyncExitStack() as life, running(80, unix_path=str(engine.path)) as relay:
            await engine.serve(life)
            client = await RawClient.connect(relay.port)
            client.send(GET)
            await client.until(b"ok")
            engine.answers = False
            client.send(GET)
            assert (await client.rest())[0].startswith(b"HTTP/1.1 502 ")
            await client.close()
            await relay.settled()
            assert relay.ends[1:] == [(Outcome.ENGINE_UNREACHABLE, Failure.ENGINE_CLOSED, None)]
            assert (len(engine.requests), relay.resent) == (2, 0)

    play(scenario())


def test_a_socket_that_is_not_there_is_an_engine_that_is_away(tmp_path: Path) -> None:
    """503 and Retry-After, whether the file is missing, is no socket, or has no listener."""
    missing, file = tmp_path / "missing.sock", tmp_path / "file.sock"
    file.touch()

    async def answer(path: Path) -> bytes:
        async with running(80, unix_path=str(path)) as relay:
            client = await RawClient.connect(relay.port)
            client.send(GET)
            said, _ = await client.rest()
            await client.close()
            return said

    for path in (missing, file):
        assert b"x-sidecar-error: engine_connect_failed\r\nretry-after: " in play(answer(path))


@pytest.mark.long
def test_a_whole_sidecar_finds_its_engine_on_a_unix_socket(tmp_path: Path) -> None:
    """The probes ask there too, so the pod becomes ready; while there is no file, the log says so."""

    async def scenario() -> None:
        engine = Engine(tmp_path / "engine.sock")
        async with AsyncExitStack() as life:
            await engine.serve(life)
            manager = running_sidecar(f"unix:{engine.path}", tmp_path)
            sidecar = await asyncio.to_thread(manager.__enter__)
            try:
                client = await RawClient.connect(sidecar.port)
                client.send(GET)
                assert await client.until(b"ok") == OK
                await client.close()
                await life.aclose()
                engine.answers = False  # on the connections that are open, too
                engine.path.unlink(missing_ok=True)
                while not (told := [line for line in sidecar.log_lines("engine") if "why" in line]):  # noqa: ASYNC110  another process's log
                    await asyncio.sleep(0.05)
                assert f"there is no file {engine.path}" in json.dumps(told[-1])
            finally:
                await asyncio.to_thread(manager.__exit__, None, None, None)

    play(scenario(), patience_seconds=50.0)
