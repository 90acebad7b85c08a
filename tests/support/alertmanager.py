"""A real Alertmanager with the shipped configuration, and the sink that stands for everybody whom it tells.

Only addresses and waits differ from what is shipped: every notification goes to the sink, and each wait is a fixed fraction
of its own length, so that the order in which things are told stays the same. Knows Alertmanager's API v2; imports nothing
of the sidecar.
"""

import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.support.tools import need_tool


CONFIG = Path(__file__).parents[2] / "alert_rules" / "alertmanager.yml"
_WAITS = ("group_wait", "group_interval", "repeat_interval")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class AlertmanagerStartError(RuntimeError):
    """Alertmanager exited or never became ready; the message ends with its log."""


@dataclass(frozen=True, slots=True)
class Told:
    """One notification as it arrived: the path says whom it was for, the body is what Alertmanager sent."""

    path: str
    body: dict[str, Any]

    @property
    def text(self) -> str:
        return json.dumps(self.body)


@dataclass(slots=True)
class Sink:
    """Takes every POST and says yes."""

    url: str
    told: list[Told] = field(default_factory=list)

    def at(self, path: str, *, about: str | Sequence[str] = ()) -> list[Told]:
        """What arrived at `path` so far; with `about` only that in whose JSON all these words stand."""
        words = [about] if isinstance(about, str) else about
        return [told for told in list(self.told) if told.path == path and all(word in told.text for word in words)]

    def wait_for(
        self, path: str, *, about: str | Sequence[str] = (), at_least: int = 1, patience_seconds: float = 20.0
    ) -> list[Told]:
        """As `at`, once there are `at_least` so many; what there is when patience ends."""
        deadline = time.monotonic() + patience_seconds
        while len(arrived := self.at(path, about=about)) < at_least and time.monotonic() < deadline:
            time.sleep(0.05)
        return arrived


@contextmanager
def listening_sink() -> Iterator[Sink]:
    """A sink on a free port of 127.0.0.1 for the length of a `with` block."""

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sink.told.append(Told(self.path, json.loads(body)))
            # PagerDuty says 202; everybody else is content with any 2xx.
            self.send_response(202 if self.path == "/pagerduty" else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Ear)
    sink = Sink(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield sink
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


def shipped() -> dict[str, Any]:
    """alert_rules/alertmanager.yml as it is read, aliases and merges resolved."""
    config: dict[str, Any] = yaml.safe_load(CONFIG.read_text())
    return config


def at_sink(config: Mapping[str, Any], sink_url: str, folder: Path, *, waits_divided_by: float) -> dict[str, Any]:
    """The same configuration with every address at the sink: webhooks keep their path, Slack is /slack, PagerDuty /pagerduty.

    Keys of PagerDuty, which are files, come to stand in `folder`; each holds its own file name.
    """
    local = deepcopy(dict(config))
    local["templates"] = [str(CONFIG.parent / pattern) for pattern in local["templates"]]
    del local["global"]["slack_api_url_file"]
    local["global"] |= {"slack_api_url": f"{sink_url}/slack", "pagerduty_url": f"{sink_url}/pagerduty"}
    for receiver in local["receivers"]:
        for webhook in receiver.get("webhook_configs", []):
            webhook["url"] = re.sub(r"^https://[\w.]+", sink_url, webhook["url"])
        for pager in receiver.get("pagerduty_configs", []):
            key = folder / Path(pager["routing_key_file"]).name
            key.write_text(key.name)
            pager["routing_key_file"] = str(key)
    _hasten(local["route"], waits_divided_by)
    return local


def _hasten(route: dict[str, Any], divisor: float) -> None:
    for wait in _WAITS:
        if wait in route:
            milliseconds = seconds_of(route[wait]) * 1000 / divisor
            route[wait] = f"{round(milliseconds)}ms"
    for child in route.get("routes", []):
        _hasten(child, divisor)


def seconds_of(duration: str) -> float:
    """`2m` in seconds. One unit, as the shipped file has it."""
    return float(duration[:-1]) * _UNIT_SECONDS[duration[-1]]


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """A server that is ready."""

    url: str

    def fire(self, alerts: Sequence[Mapping[str, str]], *, annotations: Mapping[str, str], over: bool = False) -> None:
        """Post alerts with these labels, as Prometheus would; `over` says that they have ended."""
        ended = {"endsAt": "2000-01-01T00:00:00Z", "startsAt": "2000-01-01T00:00:00Z"} if over else {}
        body = json.dumps(
            [{"labels": dict(labels), "annotations": dict(annotations), **ended} for labels in alerts]
        ).encode()
        request = urllib.request.Request(
            f"{self.url}/api/v2/alerts", data=body, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()

    def muted(self, labels: Mapping[str, str]) -> bool:
        """Whether the alert with exactly these labels is held back by another. Raises ValueError if there is none.

        Alertmanager notes what mutes a moment after it has taken it: wait for one that is muted before asking for others.
        """
        wanted = {name: value for name, value in labels.items() if value}
        (found,) = [alert for alert in self._alerts() if alert["labels"] == wanted]
        return bool(found["status"]["inhibitedBy"])

    def wait_until_muted(self, labels: Mapping[str, str], *, patience_seconds: float = 20.0) -> bool:
        """As `muted`, once it is, or when patience ends."""
        deadline = time.monotonic() + patience_seconds
        while not (is_muted := self.muted(labels)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return is_muted

    def _alerts(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=10) as answer:
            alerts: list[dict[str, Any]] = json.loads(answer.read())
            return alerts


@contextmanager
def running_alertmanager(config: Mapping[str, Any], folder: Path) -> Iterator[Alertmanager]:
    """A ready Alertmanager for the length of a `with` block; SIGKILL at its end. Raises AlertmanagerStartError."""
    # The name upstream gives it, or Debian's.
    found = shutil.which("alertmanager")
    program = Path(found) if found else need_tool("prometheus-alertmanager")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    file, log = folder / "alertmanager.yml", folder / "alertmanager.log"
    file.write_text(yaml.safe_dump(dict(config)))
    command = [
        *(str(program), f"--config.file={file}", f"--storage.path={folder / 'data'}"),
        f"--web.listen-address={url.removeprefix('http://')}",
        "--cluster.listen-address=",
    ]
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        _wait_until_ready(url, process, log)
        yield Alertmanager(url)
    finally:
        process.kill()
        process.wait(timeout=10)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path, patience_seconds: float = 30.0) -> None:
    deadline = time.monotonic() + patience_seconds
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(f"{url}/-/ready", timeout=10).close()
            return
        time.sleep(0.05)
    raise AlertmanagerStartError(f"exit status {process.poll()}\n{log.read_text()[-4000:]}")
