"""A running engine is asked over HTTP, within bounds; one that does not answer is named."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.running import cache_of, get, longest_of


PAGE = b"vllm:num_requests_running 1\n"


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server on loopback that gives this answer to every request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_page_comes_over_a_real_socket() -> None:
    with answering(200, PAGE) as url:
        assert get(url, "/metrics") == PAGE


def test_an_error_is_named_with_its_url() -> None:
    with answering(503, b"") as url, pytest.raises(RefusedError, match=rf"{url}/metrics answers 503"):
        get(url, "/metrics")


def test_a_port_without_a_listener_is_named() -> None:
    with answering(200, b"") as url:
        pass

    with pytest.raises(RefusedError, match=rf"{url}/metrics does not answer"):
        get(url, "/metrics")


@pytest.mark.parametrize(
    ("said", "longest"),
    [
        (json.dumps({"data": [{"id": "m", "max_model_len": 16384}]}), 16384),
        (json.dumps({"data": [{"id": "m"}]}), None),
        (json.dumps({"data": [{"id": "m", "max_model_len": "long"}]}), None),
        (json.dumps([]), None),
        ("<html>", None),
    ],
)
def test_the_longest_context_is_the_engines_word_or_unknown(said: str, longest: int | None) -> None:
    assert longest_of("http://e:1", lambda _url, _path: said.encode()) == longest


def test_an_engine_that_does_not_tell_its_cache_has_none() -> None:
    assert cache_of("http://e:1", lambda _url, _path: b"sglang:num_running_reqs 1\n") is None
