"""The probes of the shipped manifest: an engine is restarted for a proven stall, and nothing for the sidecar's short absence."""

import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml

from sidecar.health.watchdog import STUCK_SECONDS
from sidecar.slo.progress import KEPT_SECONDS
from tests.support.imports import CHECKOUT
from tests.support.tools import need_tool


TEXT = (CHECKOUT / "deploy" / "kubernetes.yaml").read_text()
ABSENT_SECONDS = 30.0
"""The sidecar is stopped or killed, and is back after so long."""
RESTART_SECONDS = 15.0
"""The kubelet's first pause before it starts a container again (10 s), and the start of the sidecar itself."""


def probes() -> dict[str, dict[str, Any]]:
    """The liveness probe of each container."""
    (deployment,) = [each for each in yaml.safe_load_all(TEXT) if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    return {each["name"]: each["livenessProbe"] for each in (*pod["initContainers"], *pod["containers"])}


def engine_probe() -> list[str]:
    """The command of the probe that stands in the manifest as a comment."""
    (line,) = re.findall(r"^ +# (exec: .*/-/engine.*)$", TEXT, re.MULTILINE)
    command: list[str] = yaml.safe_load(line)["exec"]["command"]
    return command


def most_failures(probe: dict[str, Any], absent_seconds: float) -> int:
    """How many probes can begin in an absence, and fail: the next one is answered."""
    return int(absent_seconds // probe["periodSeconds"]) + 1


@contextmanager
def answering(status: int) -> Iterator[int]:
    """A server that answers everything with this status; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
            """No line for each request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def passes(port: int, *, patience: str = "5") -> bool:
    """Whether the engine's probe succeeds against a sidecar at this port."""
    *shell, script = engine_probe()
    assert "-m 5 " in script
    script = script.replace("127.0.0.1:9901", f"127.0.0.1:{port}").replace("-m 5 ", f"-m {patience} ")
    return subprocess.run([*shell, script], check=False, timeout=20).returncode == 0


@pytest.mark.parametrize(("status", "succeeds"), [(200, True), (503, False), (500, True), (404, True)])
def test_the_engines_probe_fails_for_a_proven_stall_alone(status: int, succeeds: bool) -> None:
    need_tool("curl")
    with answering(status) as port:
        assert passes(port) is succeeds


def test_the_engines_probe_does_not_fail_for_a_sidecar_that_is_away_or_stopped() -> None:
    """Nothing listens; or the kernel accepts the connection and no process answers, as after SIGSTOP."""
    need_tool("curl")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        away = passes(port)
        listening.listen()
        stopped = passes(port, patience="0.2")

    assert (away, stopped) == (True, True)


def test_the_engines_probe_has_time_for_its_own_limit_and_a_stall_outlasts_its_budget() -> None:
    """A stall that clients have given up on is kept for longer than the kubelet needs to restart the container."""
    probe = probes()["engine"]

    assert probe["timeoutSeconds"] > 5
    assert probe["failureThreshold"] * probe["periodSeconds"] < KEPT_SECONDS


@pytest.mark.parametrize("container", ["engine", "sidecar"])
def test_half_a_minute_without_the_sidecar_does_not_spend_the_budget_of_a_probe(container: str) -> None:
    """The engine's, even if an operator writes it with httpGet, so that no answer is a failure."""
    probe = probes()[container]

    assert probe["failureThreshold"] * probe["periodSeconds"] >= 60
    assert probe["failureThreshold"] * probe["periodSeconds"] > ABSENT_SECONDS + RESTART_SECONDS
    assert most_failures(probe, ABSENT_SECONDS) < probe["failureThreshold"]


def test_the_sidecars_probe_does_not_fail_before_its_loop_counts_as_stuck() -> None:
    """A turn that takes seconds, under an attack or without CPU, is answered within the time limit of the probe."""
    probe = probes()["sidecar"]

    assert probe["httpGet"]["path"] == "/-/healthy"
    assert probe["failureThreshold"] * probe["periodSeconds"] >= STUCK_SECONDS
    assert probe["timeoutSeconds"] == probe["periodSeconds"]
