"""A real Alertmanager with the shipped configuration; all its notifications go to a sink (`sink.py`).

Only addresses and waits differ from what is shipped: every notification goes to the sink, and each wait is a fixed
fraction of its own length, so that notifications keep their order. Knows Alertmanager's API v2.
"""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sidecar.commands.demo.shipped import at_sink as told_to
from sidecar.config.quick_yaml import read_yaml
from tests.support.ports import free_port
from tests.support.tools import need_tool


CONFIG = Path(__file__).parents[2] / "alert_rules" / "alertmanager.yml"


class AlertmanagerStartError(RuntimeError):
    """Alertmanager exited or never became ready; the message ends with its log."""


def shipped() -> dict[str, Any]:
    """The content of alert_rules/alertmanager.yml, aliases and merges resolved."""
    config: dict[str, Any] = read_yaml(CONFIG.read_text())
    return config


def at_sink(config: Mapping[str, Any], sink_url: str, folder: Path, *, waits_divided_by: float) -> dict[str, Any]:
    """The same configuration with every address at the sink (`sidecar/commands/demo/shipped.py`, which the demo uses too)."""
    return told_to(config, sink_url, folder, waits_divided_by=waits_divided_by, templates=CONFIG.parent)


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """A server that is ready."""

    url: str

    def fire(self, alerts: Sequence[Mapping[str, str]], *, annotations: Mapping[str, str], over: bool = False) -> None:
        """Post alerts with these labels, as Prometheus would; with `over` they have ended."""
        ended = {"endsAt": "2000-01-01T00:00:00Z", "startsAt": "2000-01-01T00:00:00Z"} if over else {}
        body = json.dumps(
            [{"labels": dict(labels), "annotations": dict(annotations), **ended} for labels in alerts]
        ).encode()
        self._post("alerts", body)

    def silence(self, **labels: str) -> None:
        """The alerts with these labels, from now on."""
        matchers = [{"name": name, "value": value, "isRegex": False} for name, value in labels.items()]
        times = {"startsAt": "2000-01-01T00:00:00Z", "endsAt": "2100-01-01T00:00:00Z"}
        self._post("silences", json.dumps({"matchers": matchers, **times, "createdBy": "a", "comment": "b"}).encode())

    def _post(self, what: str, body: bytes) -> None:
        request = urllib.request.Request(
            f"{self.url}/api/v2/{what}", data=body, headers={"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=10).close()

    def muted(self, labels: Mapping[str, str]) -> bool:
        """Whether the alert with exactly these labels is inhibited by another. Raises ValueError if there is none.

        Alertmanager notes an inhibition a moment after it takes the alert: wait for a muted one before others.
        """
        wanted = {name: value for name, value in labels.items() if value}
        (found,) = [alert for alert in self._alerts() if alert["labels"] == wanted]
        return bool(found["status"]["inhibitedBy"])

    def wait_until_muted(self, labels: Mapping[str, str], *, patience_seconds: float = 20.0) -> bool:
        """As `muted`, once it is True, or when patience ends."""
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
    # Upstream's name of the program, or else Debian's.
    found = shutil.which("alertmanager")
    program = Path(found) if found else need_tool("prometheus-alertmanager")
    url = f"http://127.0.0.1:{free_port()}"
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
