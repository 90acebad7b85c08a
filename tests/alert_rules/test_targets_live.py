"""Real Prometheus and Alertmanager servers with the shipped rules and routes, fifteen times as fast: sidecars that stop answering."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from sidecar.commands.demo.servers import INSTALL, alerting, programs
from sidecar.commands.demo.shipped import FASTEST, find
from tests.support.background import background
from tests.support.prometheus import Prometheus, explained
from tests.support.sink import listening_sink
from tests.support.tools import missing


pytestmark = [pytest.mark.long, pytest.mark.timed]

PAGE = b'# TYPE llm_sidecar_build_info gauge\nllm_sidecar_build_info{version="1"} 1\n'


@contextmanager
def metrics() -> Iterator[str]:
    """The address of a sidecar's metrics for the length of a `with` block; after it, connections are refused."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name in the standard library
            """Not on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_one_of_two_that_stops_is_a_ticket_and_both_are_a_page() -> None:
    """Each arrives at its own receiver, and the page names both pods."""
    found, shipped = programs(), find(FASTEST)
    if found is None:
        missing(f"Prometheus and Alertmanager are not installed (Debian: {INSTALL})")
    assert shipped is not None
    with ExitStack() as first, ExitStack() as second, listening_sink() as sink, background() as thread:
        pods = {"a": first.enter_context(metrics()), "b": second.enter_context(metrics())}
        with (
            thread.entered(lambda: alerting(found, shipped, pods, sink.url)) as servers,
            explained(prometheus := Prometheus(servers.prometheus_url), sink),
        ):
            assert prometheus.wait_for("count_over_time(llm_sidecar_build_info[1m]) >= 5 and on () (sum(up) == 2)")
            first.close()
            tickets = sink.wait_for("/sidecar/ticket", about="LLMSidecarDown", patience_seconds=60)
            told = [alert["labels"]["pod"] for alert in tickets[0].body["alerts"]]
            before = sink.at("/sidecar/page", about="LLMSidecarDown")
            second.close()
            pages = sink.wait_for("/sidecar/page", about=('"pod": "a"', '"pod": "b"'), patience_seconds=60)
            paged = {alert["labels"]["pod"] for alert in pages[-1].body["alerts"]}

    assert (told, before, paged) == (["a"], [], {"a", "b"})
