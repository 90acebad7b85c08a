"""An engine that no check reaches: the log, the status page and `sidecar diagnose` name the failure and the address in the same words."""

import asyncio
import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from tests.engines.probe.prober import ProberHarness, engine_answering
from tests.support.certificates import Authority
from tests.support.page_reader import Reader
from tests.support.ports import free_port
from tests.support.sidecar_process import running_sidecar


Served = Callable[[], asyncio.Protocol]


@pytest.mark.long
def test_a_wrong_port_is_told_by_log_page_and_command(tmp_path: Path) -> None:
    """A client has failed on it twice: no surface says that nothing is broken, or that all is well."""
    url = f"http://127.0.0.1:{free_port()}"
    said = f"connection refused at {url}; is engine.url right?"
    with running_sidecar(url, tmp_path, until="/-/healthy") as sidecar:
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError, match="503"):
                urllib.request.urlopen(_request(sidecar.port), timeout=10)
        sidecar.wait_for_log_lines("request", 2)
        log = sidecar.wait_for_log_lines("engine", 1)
        page = Reader(sidecar.page("/")).text
        answer = json.loads(sidecar.page("/diagnosis"))
        command = subprocess.run(
            [sys.executable, "-m", "sidecar", "diagnose", f"--sidecar.url=http://127.0.0.1:{sidecar.web_port}"],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"COLUMNS": "200"},
        ).stdout

    assert [line["why"] for line in log] == [said]
    assert (said in page, "Nothing is broken" in page) == (True, False)
    assert [(one["why"], one["never_up"]) for one in answer["engines_down"]] == [(said, True)]
    assert [one["outcome"] for one in answer["diagnoses"]] == ["refused"]
    assert (said.capitalize().replace("Url", "url") in command, "WELL" in command) == (True, False)


def test_an_engine_that_was_there_is_not_asked_for_its_address() -> None:
    """Its address is right: it answered there."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response()

    async def scenario() -> tuple[str, str | None]:
        async with engine_answering(answer) as url:
            harness = ProberHarness(url)
            await harness.ask()
        await harness.ask()
        return url, harness.engine.away

    url, away = asyncio.run(scenario())

    assert away == f"connection refused at {url}"


def test_an_engine_that_answers_with_an_error_is_told_by_its_status() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=503)

    async def scenario() -> tuple[str, str | None]:
        async with engine_answering(answer) as url:
            harness = ProberHarness(url)
            await harness.ask()
            return url, harness.engine.away

    url, away = asyncio.run(scenario())

    assert away == f"{url} answers 503 to /health"


class _Silent(asyncio.Protocol):
    """A listener that takes connections and says nothing."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport


class _Closes(_Silent):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class _SpeaksAnotherProtocol(_Silent):
    def data_received(self, data: bytes) -> None:
        assert data.startswith(b"GET /health ")
        self._transport.write(b"-ERR unknown command\r\n")
        self._transport.close()


@pytest.mark.parametrize(
    ("served", "what"),
    [
        pytest.param(_Closes, "connection closed without an answer", id="closes"),
        pytest.param(_SpeaksAnotherProtocol, "an answer that is no HTTP", id="another-protocol"),
        pytest.param(_Silent, "no answer in time", id="silent"),
    ],
)
def test_each_way_of_not_answering_has_its_words(served: Served, what: str) -> None:
    assert _away_at(served).startswith(what)


def test_a_port_with_tls_is_told(tmp_path: Path) -> None:
    """A client that speaks plain HTTP to it, and one that does not trust it."""
    Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    plain, untrusted = _away_at(_Silent, context), _away_at(_Silent, context, scheme="https")

    assert ("TLS" in plain, untrusted.startswith("TLS failed")) == (True, True)


def test_a_name_that_does_not_resolve_is_told() -> None:
    async def scenario() -> str | None:
        harness = ProberHarness("http://engine.invalid:8000")
        await harness.ask()
        return harness.engine.away

    assert asyncio.run(scenario()) == "the name does not resolve at http://engine.invalid:8000; is engine.url right?"


def _away_at(served: Served, context: ssl.SSLContext | None = None, *, scheme: str = "http") -> str:
    async def scenario() -> str:
        server = await asyncio.get_running_loop().create_server(served, "127.0.0.1", 0, ssl=context)
        url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        harness = ProberHarness(url)
        await harness.ask(timeout_seconds=0.2)
        server.close()
        assert f" at {url}; is engine.url right?" in (harness.engine.away or "")
        return harness.engine.away or ""

    return asyncio.run(scenario())


def _request(port: int) -> urllib.request.Request:
    body = json.dumps({"model": "m", "stream": True, "messages": []}).encode()
    return urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body)
