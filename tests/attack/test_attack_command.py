"""`sidecar attack`, as its users run it: against the sidecar, against a naive proxy, and with wrong flags."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from sidecar.attack import attack_command, resources
from sidecar.attack.attack_command import ATTACK_FAMILIES, main
from sidecar.attack.hostile_answers import hostile_answers
from sidecar.attack.recording_origin import RecordingOrigin
from tests.attack.naive_proxy import naive_proxy
from tests.support.flood import FLOOD, opened_at_once
from tests.support.ports import free_port
from tests.support.sidecar_process import running_sidecar


SOME = "hosts,pipelines,trailers"
LOADS = "slow-heads,unfinished-uploads,idle-connections,slow-readers,tiny-chunks,flooded-pipelines"


@pytest.fixture
def origin_port() -> int:
    return free_port()


@pytest.fixture
def sidecar_port(origin_port: int, tmp_path: Path) -> Iterator[int]:
    """A sidecar that has seen its engine once; the engine is away when the test begins."""
    with ExitStack() as stack:
        with engine_for_a_moment(origin_port):
            running = running_sidecar(f"http://127.0.0.1:{origin_port}", tmp_path, flags=["--log.level=error"])
            sidecar = stack.enter_context(running)
        yield sidecar.port


class Healthy(BaseHTTPRequestHandler):
    """An engine that answers its probes, so that the sidecar becomes ready."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def engine_for_a_moment(port: int) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", port), Healthy) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join(10)


def attack(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, Any]]:
    status = main([*flags, "--json"])
    said = capsys.readouterr()
    return status, json.loads(said.out) if said.out else {"error": said.err}


def verdicts(report: dict[str, Any], hop: int = 0) -> dict[str, str]:
    return {one["family"]: one["verdict"] for one in report["hops"][hop]["families"]}


def test_the_sidecar_passes(
    sidecar_port: int, origin_port: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests, answers and loads against the sidecar itself: every family passes, and the status is 0.

    Whether other requests are answered is asserted here; how fast is not, since other tests run beside this one.
    """
    monkeypatch.setattr(resources, "SLOWEST_PROBE_SECONDS", resources.PROBE_PATIENCE_SECONDS)
    monkeypatch.setattr(attack_command, "hostile_answers", lambda: hostile_answers()[::10])
    flags = (f"--target=sidecar=http://127.0.0.1:{sidecar_port}", f"--origin-listen=127.0.0.1:{origin_port}")
    status, report = attack(capsys, *flags, f"--only={SOME},answers,{LOADS}", "--seconds=1", "--connections=20")

    assert [one for one in report["hops"][0]["families"] if one["verdict"] != "pass"] == []
    assert list(verdicts(report)) == f"{SOME},answers,{LOADS}".split(",")
    assert (status, report["passed"], report["hops"][0]["name"]) == (0, True, "sidecar")


def test_a_naive_proxy_fails_where_it_is_naive(origin_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    """It counts bodies right, and passes on names of fields that some servers take for others: the family of names fails,
    with the first attack that shows it, and the status is 1."""
    with naive_proxy(origin_port) as port:
        flags = (f"--target=http://127.0.0.1:{port}", f"--origin-listen=127.0.0.1:{origin_port}")
        status, report = attack(capsys, *flags, "--only=names,bodies")

    assert (status, report["passed"], verdicts(report)) == (1, False, {"names": "fail", "bodies": "pass"})
    names = report["hops"][0]["families"][0]
    assert names["faults"] > 10
    assert names["reason"].startswith("the origin got ")
    assert "[names " in names["reason"]


def test_without_an_origin_the_answers_alone_are_judged(sidecar_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The engine is away: the sidecar answers every good request with 502 or 503, which is no fault of its reading."""
    only = "--only=hosts,answers,slow-readers"
    target = f"--target=http://127.0.0.1:{sidecar_port}"
    status, report = attack(capsys, target, only)

    assert verdicts(report) == {"hosts": "pass", "answers": "not judged", "slow-readers": "not judged"}
    assert (status, report["origin_recorded"]) == (0, False)
    assert main([target, only]) == 0
    text = capsys.readouterr().out
    assert "not judged" in text
    assert "Judged by the answers alone." in text


def test_an_origin_that_is_not_behind_the_hop_is_told(sidecar_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    status, report = attack(
        capsys, f"--target=http://127.0.0.1:{sidecar_port}", f"--origin-listen=127.0.0.1:{free_port()}"
    )

    assert status == 1
    assert "upstream" in report["error"] or "does not answer" in report["error"]


def test_an_address_without_a_server_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    status, report = attack(capsys, f"--target=http://127.0.0.1:{port}")

    assert (status, report["error"]) == (
        1,
        f"sidecar attack: 127.0.0.1:{port}: 127.0.0.1:{port} does not answer a good request\n",
    )


def test_an_origin_that_cannot_listen_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, report = attack(capsys, f"--target=http://127.0.0.1:{port}", f"--origin-listen=127.0.0.1:{port}")

    assert status == 1
    assert report["error"].startswith("sidecar attack: --origin-listen: ")


def test_a_busy_origin_takes_the_connections_of_an_attack() -> None:
    """Those that a hop opens while the loop is busy wait for it: none is dropped, and no attacker is answered 504."""

    async def scenario() -> int:
        async with RecordingOrigin().listening() as origin:
            return opened_at_once(origin.port)

    assert asyncio.run(scenario()) == FLOOD


def test_every_wrong_flag_is_told_at_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is attacked; the allowed values stand in the errors."""
    monkeypatch.setenv("COLUMNS", "400")
    flags = [
        *("--target=https://a", "--target=http://192.0.2.1:80", "--origin-listen=8000", "--only=framing,x"),
        *("--seconds=0", "--connections=many", "--seed=-1", "--fast"),
    ]
    assert main(flags) == 2
    assert capsys.readouterr().err.splitlines() == [
        "sidecar attack: --fast: there is no such flag",
        "sidecar attack: --target: 'https://a' is no http://host:port",
        "sidecar attack: --target: 192.0.2.1 is not loopback; if the target is yours, say --i-own-this-target",
        "sidecar attack: --origin-listen: '8000' is no host:port, such as 127.0.0.1:8000",
        f"sidecar attack: --only: there is no family 'x'; there are {', '.join(ATTACK_FAMILIES)}",
        "sidecar attack: --seed: '-1' is no whole number from 0 to 9223372036854775808",
        "sidecar attack: --seconds: '0' is no whole number from 1 to 600",
        "sidecar attack: --connections: 'many' is no whole number from 1 to 2000",
        "`sidecar attack --help` explains, with examples.",
    ]


def test_a_target_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "--target: which hop?" in capsys.readouterr().err


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    """Every flag, every family with its meaning, examples, the exit codes, in 80 columns."""
    assert main(["--help"]) == 0
    said = capsys.readouterr().out

    assert all(f"  {family} " in said for family in ATTACK_FAMILIES)
    assert {"--origin-listen", "--i-own-this-target", "--only", "--seed", "--seconds", "--json"} <= set(said.split())
    assert [line for line in said.splitlines() if len(line) > 80] == []
