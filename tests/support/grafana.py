"""A server that answers as Grafana does where a link leads: its plain page for any name, and over its API only dashboards that it has.

Knows the dashboards that the project ships. Refuses to draw one: a real Grafana is not run by these tests.
"""

import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from sidecar.commands.export.shipped_files import GRAFANA, shipped


DASHBOARDS = tuple(path.stem for path in (shipped(GRAFANA) / "dashboards").glob("*.json"))
"""The uid of each shipped dashboard, which is its file's name."""


@contextmanager
def grafana(uids: Sequence[str] = DASHBOARDS) -> Iterator[str]:
    """The base URL of a Grafana that has these dashboards."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            uid = re.fullmatch(r"/api/dashboards/uid/(.*)", self.path)
            self.send_response(200 if uid is None or uid[1] in uids else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


def has_dashboard(link: str) -> bool:
    """Whether the Grafana to which a link leads has its dashboard. The link's own status says nothing: it is 200 for any name."""
    parts = urlsplit(link)
    found = re.fullmatch(r"/d/([^/]+)(/.*)?", parts.path)
    if found is None:
        return False
    try:
        with urllib.request.urlopen(f"{parts.scheme}://{parts.netloc}/api/dashboards/uid/{found[1]}", timeout=10):
            return True
    except urllib.error.HTTPError:
        return False
