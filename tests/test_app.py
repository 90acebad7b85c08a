"""The order of a start: traffic first, then the rest, and a start that fails in either half ends the process."""

import asyncio
import os
import signal
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog.testing
from msgspec.structs import asdict

from sidecar import app as module
from sidecar import beside_traffic
from sidecar.app import App
from sidecar.budgets.budgets import LEAST_FILES, LEAST_MEMORY_BYTES, Kind, limits_of
from sidecar.budgets.machine import Machine
from sidecar.config.schema import Config, ProxyConfig
from sidecar.otlp import outbox
from tests.support.certificates import Authority
from tests.support.collector import Collector, until
from tests.support.configs import section_of
from tests.support.origin import Origin, Visit, answering
from tests.support.otlp import request_of
from tests.support.ports import free_port
from tests.support.sidecar_process import running_sidecar
from tests.support.spans import fixture


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def config(engine_port: int = 9, port: int = 0, web_port: int = 0) -> Config:
    return section_of(
        Config,
        {
            "engine": {"url": f"http://127.0.0.1:{engine_port}"},
            "proxy": {"listen_address": f"127.0.0.1:{port}"},
            "web": {"listen_address": f"127.0.0.1:{web_port}"},
            "shutdown": {"lame_duck_seconds": 0, "grace_seconds": 5},
        },
    )


async def asked(port: int, path: str) -> bytes:
    """The status line of an answer; tries again until the port is open."""
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            break
        except OSError:
            await asyncio.sleep(0.01)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n")[0]


async def failed(of: Config, machine: Machine | None = None) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of a start that fails, and what its log said."""
    app = App(of, lambda: of, machine=machine)
    with structlog.testing.capture_logs() as logs:
        code = await asyncio.wait_for(app.serve(), 10)
    return code, [dict(line) for line in logs if line["log_level"] in ("error", "critical")]


def test_traffic_is_served_while_the_rest_is_loaded_and_probes_wait_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rest is held back until a request has come through; a probe that came before is answered then. A stop ends it."""
    go_on = threading.Event()
    load = module._loaded

    def held_back() -> object:
        assert go_on.wait(10)
        return load()

    monkeypatch.setattr(module, "_loaded", held_back)

    async def scenario() -> tuple[list[object], int]:
        port, web_port = free_port(), free_port()
        seen: list[object] = []
        async with Origin(answering(OK)).listening() as origin:
            of = config(origin.port, port, web_port)
            app = App(of, lambda: of)
            serving = asyncio.create_task(app.serve())
            seen.append(await asked(port, "/v1/models"))
            probe = asyncio.create_task(asked(web_port, "/-/healthy"))
            await asyncio.sleep(0)
            seen += [app.beside is None, probe.done()]
            go_on.set()
            seen.append(await probe)
            app._told_to_stop()
            code = await serving
        return seen, code

    assert asyncio.run(scenario()) == ([b"HTTP/1.1 200 OK", True, False, b"HTTP/1.1 200 OK"], 0)


def test_what_cannot_be_loaded_ends_the_process_and_the_log_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sidecar without metrics and probes does not go on serving."""

    def broken() -> object:
        raise ModuleNotFoundError("No module named 'aiohttp'")

    monkeypatch.setattr(module, "_loaded", broken)

    code, said = asyncio.run(failed(config()))

    assert (code, [(line["event"], line["why"]) for line in said]) == (
        1,
        [("start_failed", "No module named 'aiohttp'")],
    )


def test_certificates_are_not_read_while_the_rest_is_loaded_and_are_read_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiohttp would read all that the machine trusts; a context that is made later has them."""
    Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    found = []
    with module._no_certificates():
        found.append(len(ssl.create_default_context().get_ca_certs()))
    found.append(len(ssl.create_default_context().get_ca_certs()))

    assert found == [0, 1]


@pytest.mark.parametrize(("listener", "key"), [("port", "proxy"), ("web_port", "web")])
def test_a_port_that_is_taken_ends_the_start(listener: str, key: str) -> None:
    """The log names the key, the port and what to do; the rest is not even loaded."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        code, (said,) = asyncio.run(failed(config(**{listener: taken})))

    assert (code, said["event"], said["key"], said["address"]) == (
        1,
        "listen_failed",
        f"{key}.listen_address",
        f"127.0.0.1:{taken}",
    )
    assert "address already in use" in said["why"]
    assert said["hint"] == (
        f"Another process listens on port {taken} (`ss -ltnp 'sport = :{taken}'` names it): stop it, or choose another"
        f" address with --{key}.listen-address or SIDECAR__{key.upper()}__LISTEN_ADDRESS."
    )


def test_both_ports_that_are_taken_are_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        code, said = asyncio.run(failed(config(port=one.getsockname()[1], web_port=other.getsockname()[1])))

    assert (code, [line["key"] for line in said]) == (1, ["web.listen_address", "proxy.listen_address"])


def test_an_address_of_another_machine_is_told_apart_from_a_port_that_is_taken() -> None:
    of = section_of(Config, {"engine": {"url": "http://127.0.0.1:9"}, "web": {"listen_address": "192.0.2.1:0"}})
    _, said = asyncio.run(failed(of))

    assert said[0]["hint"].startswith("No interface of this machine has that address: choose another")


def test_a_listener_of_the_rest_whose_port_is_taken_ends_the_process_in_the_same_way() -> None:
    """gRPC is loaded late, so its port is asked for late."""
    pytest.importorskip("grpc")
    with socket.create_server(("127.0.0.1", 0)) as other:
        spans = {"grpc_listen_address": f"127.0.0.1:{other.getsockname()[1]}"}
        of = config()
        with_grpc = section_of(Config, {**asdict(of), "spans": spans})
        code, said = asyncio.run(failed(with_grpc))

    assert (code, [(line["event"], line["key"]) for line in said]) == (
        1,
        [("listen_failed", "spans.grpc_listen_address")],
    )


@pytest.mark.parametrize("files", [0, 64, LEAST_FILES - 1])
def test_files_with_which_all_clients_would_be_refused_end_the_start(files: int) -> None:
    """The log says what was given, what is needed and what to set."""
    code, (said,) = asyncio.run(failed(config(), Machine(LEAST_MEMORY_BYTES, files)))

    assert (code, said["event"], said["open_files"], said["needed"]) == (1, "too_few_files", files, LEAST_FILES)
    assert said["hint"].startswith("raise the hard limit of open files (ulimit -Hn, LimitNOFILE=) to 65536.")


@pytest.mark.parametrize(
    ("memory_bytes", "requests", "warnings"),
    [(LEAST_MEMORY_BYTES - 1, 159, ["little_memory"]), (LEAST_MEMORY_BYTES, 160, [])],
)
def test_a_start_says_what_the_machine_gives_and_warns_of_too_little_memory(
    memory_bytes: int, requests: int, warnings: list[str]
) -> None:
    """A MiB of memory allows one request."""

    async def scenario() -> list[dict[str, Any]]:
        of = config()
        app = App(of, lambda: of, machine=Machine(memory_bytes, 4096))
        app._told_to_stop()
        with structlog.testing.capture_logs() as logs:
            assert await app.serve() == 0
        return [dict(line) for line in logs]

    said = asyncio.run(scenario())
    (limits,) = [line for line in said if line["event"] == "budgets"]

    assert [line["event"] for line in said if "memory" in line["event"]] == warnings
    assert (limits["memory_bytes"], limits["open_files"], limits["requests"]) == (memory_bytes, 4096, requests)


@pytest.mark.long
def test_with_the_fewest_files_all_places_are_served(tmp_path: Path) -> None:
    """As many requests at once as there are places, each on a connection of its own: all are answered 200, the probe too."""
    places = limits_of(1 << 30, LEAST_FILES, ProxyConfig())[Kind.REQUESTS]

    async def scenario() -> list[bytes]:
        inside: list[Visit] = []
        all_inside = asyncio.Event()

        async def held(visit: Visit) -> None:
            while True:
                head, _ = await visit.request()
                if head.startswith(b"GET /held "):
                    inside.append(visit)
                    if len(inside) == places:
                        all_inside.set()
                    await all_inside.wait()
                visit.send(OK)

        async with Origin(held).listening() as origin:
            few = ("prlimit", f"--nofile={LEAST_FILES}:{LEAST_FILES}")
            running = running_sidecar(f"http://127.0.0.1:{origin.port}", tmp_path, wrap=few)
            sidecar = await asyncio.to_thread(running.__enter__)
            try:
                clients = [asked(sidecar.port, "/held") for _ in range(places)]
                return [
                    *await asyncio.wait_for(asyncio.gather(*clients), 30),
                    await asked(sidecar.web_port, "/-/ready"),
                ]
            finally:
                await asyncio.to_thread(running.__exit__, None, None, None)

    assert asyncio.run(scenario()) == [b"HTTP/1.1 200 OK"] * (places + 1)


def test_signals_that_mean_something_to_other_servers_end_nothing_and_are_told_once() -> None:
    """Log rotation sends SIGUSR1 to many a server; unexpected, it kills."""

    async def scenario() -> tuple[list[bytes], int, list[str]]:
        port = free_port()
        async with Origin(answering(OK)).listening() as origin:
            of = config(origin.port, port)
            app = App(of, lambda: of, machine=Machine(1 << 30, 4096))
            with structlog.testing.capture_logs() as logs:
                serving = asyncio.create_task(app.serve())
                answers = [await asked(port, "/")]
                for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
                    os.kill(os.getpid(), number)
                    answers.append(await asked(port, "/"))
                app._told_to_stop()
                code = await serving
            return answers, code, [line["signal"] for line in logs if line["event"] == "signal_ignored"]

    assert asyncio.run(scenario()) == ([b"HTTP/1.1 200 OK"] * 4, 0, ["SIGUSR1", "SIGUSR2"])


def exporting(engine_port: int, port: int, url: str, grace_seconds: float) -> Config:
    return section_of(
        Config,
        {
            "engine": {"url": f"http://127.0.0.1:{engine_port}"},
            "proxy": {"listen_address": f"127.0.0.1:{port}"},
            "web": {"listen_address": "127.0.0.1:0"},
            "spans": {"export_url": url, "export_untraced_ratio": 1.0},
            "shutdown": {"lame_duck_seconds": 0, "grace_seconds": grace_seconds},
        },
    )


ASKS = b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


@pytest.mark.parametrize("takes", [True, False])
def test_spans_in_flight_are_sent_before_the_process_ends_and_a_collector_that_hangs_does_not_hold_it(
    monkeypatch: pytest.MonkeyPatch, takes: bool
) -> None:
    """They would wait for more in a batch; the end of the drain sends them at once, while /metrics still answers."""
    monkeypatch.setattr(outbox, "GATHER_SECONDS", 60.0)
    monkeypatch.setattr(beside_traffic, "MOST_LAST_SPANS_SECONDS", 5.0 if takes else 0.05)
    monkeypatch.setattr(beside_traffic, "AT_END_SECONDS", 0.05)

    async def scenario() -> tuple[int, int, dict[str, int], int]:
        port, collector = free_port(), Collector()
        if not takes:
            collector.open.clear()
        async with Origin(answering(OK)).listening() as origin, collector.listening():
            of = exporting(origin.port, port, collector.url, 5.0)
            app = App(of, lambda: of)
            serving = asyncio.create_task(app.serve())
            await until(lambda: app.beside is not None and bool(app.beside.spans._sending))
            assert app.beside is not None
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ASKS)
            await reader.read()
            writer.close()
            export = app.beside.export
            assert export is not None
            app._told_to_stop()
            code = await serving
            return code, export.made, {fate: n for fate, n in export.ended.items() if n}, export.outbox.in_flight

    code, made, fates, in_flight = asyncio.run(scenario())

    assert made > 0
    assert (code, fates, in_flight) == (0, {"acknowledged" if takes else "shutdown": made}, 0)


def test_without_a_proxy_no_port_is_opened_for_traffic_and_spans_become_requests() -> None:
    """Over real sockets: the traffic's port stays closed, the pod is ready although no engine answers, a span that is posted as its engine
    would is a request on the page of metrics, and the status page says what is left out.
    """
    (span,) = fixture("vllm-chat").spans
    sent = request_of(
        {"start_time_unix_nano": span.start_unix_nano, "end_time_unix_nano": span.end_unix_nano},
        attributes=span.attributes,
    ).SerializeToString()

    async def scenario() -> tuple[list[int], str, str, dict[str, Any]]:
        port, web_port = free_port(), free_port()
        of = section_of(
            Config,
            {
                "engine": {"url": "http://127.0.0.1:9", "kind": "vllm", "models": ["tiny"]},
                "proxy": {"listen_address": f"127.0.0.1:{port}"},  # a loaded config is refused with it
                "web": {"listen_address": f"127.0.0.1:{web_port}"},
                "spans": {"without_proxy": True},
                "shutdown": {"lame_duck_seconds": 0},
            },
        )
        app = App(of, lambda: of)
        with structlog.testing.capture_logs() as logs:
            serving = asyncio.create_task(app.serve())
            await asked(web_port, "/-/healthy")
            url, statuses = f"http://127.0.0.1:{web_port}", []
            async with aiohttp.ClientSession() as session:
                headers = {"Content-Type": "application/x-protobuf"}
                async with session.post(f"{url}/v1/traces", data=sent, headers=headers) as answer:
                    statuses.append(answer.status)
                async with session.get(f"{url}/-/ready") as answer:
                    statuses.append(answer.status)
                pages = []
                for path in ("/metrics", "/"):
                    async with session.get(url + path) as answer:
                        pages.append(await answer.text())
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            app._told_to_stop()
            statuses.append(await serving)
        (listening,) = [dict(line) for line in logs if line["event"] == "listening"]
        return statuses, pages[0], pages[1], listening

    statuses, metrics, page, listening = asyncio.run(scenario())
    split = 'llm_phase_attribution_total{quantization="unknown",gpu_type="unknown",lane="default",source="engine",reason="span_alone"} 1'

    assert (statuses, listening["traffic"][:17]) == ([200, 200, 0], "none (--no-proxy)")
    assert split in metrics.splitlines()
    assert "llm_sidecar_without_proxy 1" in metrics.splitlines()
    assert "So objectives hold on what succeeded." in page
    assert "Not known: no traffic passes here (--no-proxy)." in page
