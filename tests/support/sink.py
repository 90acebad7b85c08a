"""The sink in place of all receivers of an Alertmanager: pagers, chats, webhooks.

It accepts every POST and keeps the notifications in order of arrival. Knows nothing of rules and routes.
"""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification as it arrived: the path names the receiver, the body is what Alertmanager sent."""

    path: str
    body: dict[str, Any]
    arrived_at: float
    """Instant of arrival, on the monotonic clock."""

    @property
    def text(self) -> str:
        return json.dumps(self.body)


@dataclass(slots=True)
class Sink:
    """Accepts every POST."""

    url: str
    notifications: list[Notification] = field(default_factory=list, repr=False)

    def at(self, path: str, *, about: str | Sequence[str] = (), since: int = 0) -> list[Notification]:
        """Notifications at `path` so far; with `about` only those with all these words in their JSON.

        `since`: skip so many notifications that arrived first, at any path.
        """
        words = [about] if isinstance(about, str) else about
        later = list(self.notifications)[since:]
        return [told for told in later if told.path == path and all(word in told.text for word in words)]

    def wait_for(
        self,
        path: str,
        *,
        about: str | Sequence[str] = (),
        since: int = 0,
        at_least: int = 1,
        patience_seconds: float = 20.0,
    ) -> list[Notification]:
        """As `at`, once there are `at_least` so many, or whatever there is when patience ends."""
        deadline = time.monotonic() + patience_seconds
        while len(arrived := self.at(path, about=about, since=since)) < at_least and time.monotonic() < deadline:
            time.sleep(0.05)
        return arrived


@contextmanager
def listening_sink() -> Iterator[Sink]:
    """A sink on a free port of 127.0.0.1 for the length of a `with` block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sink.notifications.append(Notification(self.path, json.loads(body), time.monotonic()))
            # PagerDuty answers 202; all other receivers accept any 2xx.
            self.send_response(202 if self.path == "/pagerduty" else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        # Hundreds of groups may be told at once; a connection that finds the queue full is tried again a second later.
        request_queue_size = 1024

    server = Server(("127.0.0.1", 0), Handler)
    sink = Sink(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield sink
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
