"""A running sidecar and a running engine are asked over HTTP, within bounds; one that does not answer is named."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.running import cache_of, get, longest_of, observe


PAGE = b'llm_requests_received_total{model="m",lane="chat"} 120\nprocess_start_time_seconds 1000\n'
AT_1060 = "Thu, 01 Jan 1970 00:17:40 GMT"


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
        body, date = get(url, "/metrics")

    assert (body, date != "") == (PAGE, True)


def test_an_error_is_named_with_its_url() -> None:
    with answering(503, b"") as url, pytest.raises(RefusedError, match=rf"{url}/metrics answers 503"):
        get(url, "/metrics")


def test_a_port_without_a_listener_is_named() -> None:
    with answering(200, b"") as url:
        pass

    with pytest.raises(RefusedError, match=rf"{url}/metrics does not answer"):
        get(url, "/metrics")


def test_a_window_is_watched_twice_a_second_to_its_end() -> None:
    clock = [100.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    readings = observe("http://s:1", 1.75, lambda _url, _path: (PAGE, ""), lambda: clock[0], sleep)

    assert [reading.at for reading in readings] == [100.0, 100.5, 101.0, 101.5, 101.75]


def test_a_whole_life_is_measured_by_the_sidecars_own_clock() -> None:
    """The sidecar began at 1000 and dates its answer 1060; the clock of this machine does not matter."""
    first, last = observe("http://s:1", 0.0, lambda _url, _path: (PAGE, AT_1060), lambda: 5.0, lambda _: None)

    assert (last.at - first.at, first.received, last.received) == (60.0, 0.0, 120.0)


def test_a_life_of_unknown_length_is_refused() -> None:
    with pytest.raises(RefusedError, match="does not state its start time"):
        observe("http://s:1", 0.0, lambda _url, _path: (PAGE, ""), lambda: 5.0, lambda _: None)


def test_a_page_that_is_no_sidecars_is_refused_with_its_url() -> None:
    with pytest.raises(RefusedError, match=r"http://s:1/metrics is no /metrics page of a sidecar"):
        observe("http://s:1", 1.0, lambda _url, _path: (b"vllm:x 1\n", ""), lambda: 5.0, lambda _: None)


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
    assert longest_of("http://e:1", lambda _url, _path: (said.encode(), "")) == longest


def test_an_engine_that_does_not_tell_its_cache_has_none() -> None:
    assert cache_of("http://e:1", lambda _url, _path: (b"sglang:num_running_reqs 1\n", "")) is None
