"""`sidecar drain`: its exit code says whether anything is still in flight."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from sidecar.commands.drain_command import main
from sidecar.config.folding import FAILED, MISUSED, OK
from tests.support.ports import free_port


END = json.dumps({"drained": True, "in_flight": 0, "waited_seconds": 1.0})


@contextmanager
def answering(status: int, body: str) -> Iterator[tuple[str, list[str]]]:
    """An admin side that answers this to every POST: its URL, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_words: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "drained", "code", "words"),
    [
        (200, True, OK, "drained: nothing is in flight, 1.0 s after the drain began"),
        (503, False, FAILED, "not drained: 2 requests are in flight, 1.0 s after the drain began"),
    ],
)
def test_the_answer_is_printed_and_decides_the_exit_code(
    status: int, drained: bool, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a sentence, or with --output=json as the sidecar gave it."""
    said = json.dumps({"drained": drained, "in_flight": 0 if drained else 2, "waited_seconds": 1.0})
    with answering(status, said) as (url, asked):
        assert (main(["--sidecar.url", url]), asked) == (code, ["/-/drain"])
        assert main(["--sidecar.url", url, "--output=json"]) == code

    assert capsys.readouterr().out == f"{words}\n{said}\n"


def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that the environment names would look for the sidecar on its own host."""
    with answering(503, "no such host") as (proxy, asked_of_it), answering(200, END) as (url, asked):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy)

        assert (main(["--sidecar.url", url]), asked, asked_of_it) == (OK, ["/-/drain"], [])


@pytest.mark.parametrize(("body", "status"), [("what?", 200), ("[]", 200), ("{}", 200)])
def test_another_server_is_no_sidecar(body: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(status, body) as (url, _):
        assert main(["--sidecar.url", url]) == FAILED

    assert "no sidecar answered" in capsys.readouterr().err


def test_nothing_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sidecar.url", f"http://127.0.0.1:{free_port()}"]) == FAILED
    assert "no sidecar answered" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "127.0.0.1:9901", "http://127.0.0.1:port", "http://[::1"])
def test_a_wrong_address_is_misuse(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sidecar.url", url]) == MISUSED
    assert "--sidecar.url is no http://" in capsys.readouterr().err
