"""The probes and the hook of the shipped manifests: an engine is restarted for a proven stall, and not for the sidecar's absence."""

import os
import re
import shlex
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from sidecar.commands.inject.engine_in_pod import HOOKS
from sidecar.health.watchdog import STUCK_SECONDS
from sidecar.pod.liveness.progress import KEPT_SECONDS
from tests.support.certificates import Authority
from tests.support.imports import CHECKOUT
from tests.support.kustomize import DOCUMENTED, attached
from tests.support.manifests import pod_of
from tests.support.probes import ABSENT_SECONDS, added, probes
from tests.support.tools import need_tool


RESTART_SECONDS = 15.0
"""The kubelet's first pause before it starts a container again (10 s), and the start of the sidecar itself."""


def engine_probe() -> list[str]:
    """The command of the engine's liveness probe, of the component for vLLM."""
    command: list[str] = probes()["engine"]["exec"]["command"]
    return command


def most_failures(probe: dict[str, Any], absent_seconds: float) -> int:
    """How many probes can begin in an absence, and fail: the next one is answered."""
    return int(absent_seconds // probe["periodSeconds"]) + 1


def over_tls(hook: list[str]) -> list[str]:
    """The hook after the words that `admin-tls` changes in it."""
    for at in (3, 8):
        hook[at] = added("admin-tls", f"lifecycle/preStop/exec/command/{at}")
    return hook


def pre_stops() -> dict[str, list[str]]:
    """Every command that is shipped or shown as the engine's preStop, by the scheme that it asks over and its program."""
    (python,) = re.findall(
        r"^ +(python3 -c .*/-/drain.*)$", (CHECKOUT / "docs" / "attach.md").read_text(), re.MULTILINE
    )
    return {
        "http curl": HOOKS["curl"](65),
        "https curl": over_tls(HOOKS["curl"](65)),
        "http python": HOOKS["python3"](65),
        "http python of the guide": shlex.split(python),
    }


class Server(ThreadingHTTPServer):
    """A server that answers everything with one status, and remembers what it was asked."""

    def __init__(self, status: int) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                asked.append(f"{self.command} {self.path}")
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST = do_CONNECT = answer  # noqa: N815  the library's names

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
                """No line for each request."""

        super().__init__(("127.0.0.1", 0), Handler)


@contextmanager
def answering(status: int, folder: Path | None = None) -> Iterator[Server]:
    """A running server; over TLS, with a certificate that is written into `folder`, where one is given."""
    with Server(status) as server:
        if folder is not None:
            Authority(folder)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def environment(proxy: Server | None) -> dict[str, str]:
    """The environment of a container; with a proxy, every variable names it that a program might read."""
    bare = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    if proxy is None:
        return bare
    names = [name for scheme in ("http", "https", "all") for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper())]
    return bare | dict.fromkeys(names, f"http://127.0.0.1:{proxy.server_port}")


LIMIT = re.compile(r"-m (\d+) ")
"""The time limit of one question of the engine's probe, in seconds."""


def passes(
    engine: int,
    sidecar: int,
    *,
    patience: str | None = None,
    path: str | None = None,
    proxy: Server | None = None,
    command: list[str] | None = None,
) -> bool:
    """Whether the engine's probe succeeds against an engine and a sidecar at these ports. `patience`: a shorter time limit of
    each question; `path`: the directories of the container's commands; `command`: another than that of the component alone.
    """
    shell, flag, script, name, scheme, *_ = command or engine_probe()
    assert "127.0.0.1:9901/-/engine" in script
    script = script.replace("127.0.0.1:9901", f"127.0.0.1:{sidecar}")
    arguments = [name, scheme, f"--engine.url=http://127.0.0.1:{engine}"]
    if patience is not None:
        script = LIMIT.sub(f"-m {patience} ", script)
    found = which(shell)
    assert found is not None
    variables = environment(proxy) | ({} if path is None else {"PATH": path})
    words = [found, flag, script, *arguments]
    return subprocess.run(words, check=False, timeout=20, env=variables).returncode == 0


@contextmanager
def silent() -> Iterator[int]:
    """A port where the kernel accepts connections and no process answers, as after SIGSTOP."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def refusing() -> int:
    """A port where nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
    return port


@pytest.mark.parametrize(("status", "succeeds"), [(200, True), (503, False), (500, True), (404, True)])
def test_the_engines_probe_fails_for_a_proven_stall_alone(status: int, succeeds: bool) -> None:
    need_tool("curl")
    with answering(200) as engine, answering(status) as sidecar:
        assert passes(engine.server_port, sidecar.server_port) is succeeds
        assert (engine.asked, sidecar.asked) == (["GET /health"], ["GET /-/engine"])


@pytest.mark.parametrize(("status", "succeeds"), [(200, True), (503, False)])
def test_with_tls_on_the_admin_port_the_engines_probe_asks_over_tls(
    status: int, succeeds: bool, tmp_path: Path
) -> None:
    """In the order of the guide's table. Over plain HTTP it got no answer from such a port, and no stall ever failed it."""
    need_tool("curl")
    rows = re.findall(r"^\| `components/(\S+?)`", (CHECKOUT / "docs/attach.md").read_text(), re.MULTILINE)
    order = sorted(["engine-liveness", "admin-tls"], key=rows.index)
    made = pod_of(attached(tmp_path, DOCUMENTED["vllm"], order))
    with answering(200) as engine, answering(status, tmp_path) as sidecar:
        command = made.engine["livenessProbe"]["exec"]["command"]
        assert passes(engine.server_port, sidecar.server_port, command=command) is succeeds
        assert sidecar.asked == ["GET /-/engine"]


def test_the_engines_probe_asks_no_proxy() -> None:
    """A proxy that the engine's image or cluster sets for downloads answers 503 for a host of ours: no proof of a stall."""
    need_tool("curl")
    with answering(503) as proxy, answering(200) as engine, answering(200) as sidecar:
        assert passes(engine.server_port, sidecar.server_port, proxy=proxy)
        assert (len(engine.asked), len(sidecar.asked), proxy.asked) == (1, 1, [])


@pytest.mark.parametrize("hook", ["http curl", "https curl", "http python", "http python of the guide"])
def test_the_hook_of_the_engine_drains_the_sidecar_and_asks_no_proxy(hook: str, tmp_path: Path) -> None:
    """Each command as it is shipped, with the port of a server of this test."""
    *words, last = pre_stops()[hook]
    if "curl" in hook:
        need_tool("curl")
    folder = tmp_path if hook.startswith("https") else None
    with answering(503) as proxy, answering(200, folder) as server:
        command = [*words, last.replace("127.0.0.1:9901", f"127.0.0.1:{server.server_port}")]
        assert subprocess.run(command, check=False, timeout=20, env=environment(proxy)).returncode == 0
        assert (server.asked, proxy.asked) == (["POST /-/drain"], [])


@pytest.mark.long
def test_the_engines_probe_does_not_fail_for_a_sidecar_that_is_away_or_stopped() -> None:
    need_tool("curl")
    with answering(200) as engine, silent() as stopped:
        found = passes(engine.server_port, refusing()), passes(engine.server_port, stopped, patience="2")

    assert found == (True, True)


@pytest.mark.long
def test_the_engines_probe_fails_for_an_engine_that_does_not_answer_its_health_check() -> None:
    """Its whole process is frozen, it is idle, and the sidecar has no stream that shows it; or its health check says no."""
    need_tool("curl")
    with answering(200) as sidecar, silent() as frozen, answering(500) as ill:
        ports = frozen, ill.server_port, refusing()
        found = [passes(port, sidecar.server_port, patience="1") for port in ports]

    assert found == [False, False, False]


def test_the_engines_probe_never_fails_in_an_image_without_curl(tmp_path: Path) -> None:
    with answering(503) as sidecar:
        assert passes(refusing(), sidecar.server_port, path=str(tmp_path))


def test_the_engines_probe_has_time_for_its_own_limit_and_a_stall_outlasts_its_budget() -> None:
    """A stall that clients have given up on keeps the pod away for longer than the kubelet needs to restart the container: that is at
    least three minutes from the last output on.
    """
    probe = probes()["engine"]

    assert (probe["failureThreshold"] - 1) * probe["periodSeconds"] >= 180
    assert sum(int(limit) for limit in LIMIT.findall(engine_probe()[2])) < probe["timeoutSeconds"]
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


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_probes_ask_the_engine_where_the_sidecar_has_it_from(engine: str, tmp_path: Path) -> None:
    """And while the model loads, for half an hour, the liveness probe is not asked."""
    made = pod_of(attached(tmp_path, DOCUMENTED[engine], ["engine-liveness"]))
    startup, liveness = made.engine["startupProbe"], made.engine["livenessProbe"]
    told = f"--engine.url={made.flags['--engine.url']}"

    assert [probe["exec"]["command"][-1] for probe in (startup, liveness)] == [told, told]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 1800


@pytest.mark.parametrize(("status", "succeeds"), [(200, True), (503, False)])
def test_the_start_is_over_when_the_engines_health_says_so(status: int, succeeds: bool) -> None:
    need_tool("curl")
    command = [*added("engine-liveness", "startupProbe")["exec"]["command"]]
    with answering(status) as engine:
        words = [*command, f"--engine.url=http://127.0.0.1:{engine.server_port}"]
        done = subprocess.run(words, check=False, timeout=20, env=environment(None))
        assert ((done.returncode == 0), engine.asked) == (succeeds, ["GET /health"])
