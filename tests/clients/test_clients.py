"""Clients as users have them get through the sidecar what they get without it, and are counted for what they did."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.classify.inflate import zstd_library
from tests.clients.engine import WORDS, Engine, running_engine
from tests.support.sidecar_process import SidecarProcess, running_sidecar
from tests.support.tools import need_tool


pytestmark = pytest.mark.long

HERE = Path(__file__).parent
PATIENCE_SECONDS = 60


def python(script: str, _folder: Path) -> list[str]:
    return [sys.executable, str(HERE / script)]


def node(_script: str, _folder: Path) -> list[str]:
    return [str(need_tool("node")), str(HERE / "asks_fetch.mjs")]


def java(_script: str, _folder: Path) -> list[str]:
    """Its client, if a JDK is installed: no other test needs one."""
    if shutil.which("java") is None:
        pytest.skip("java is not installed: what its client gets is shown where it is")
    return [str(need_tool("java")), str(HERE / "AsksJava.java")]


def curl(coding: str, folder: Path) -> list[str]:
    """A long prompt, compressed or in chunks, to this path below the base."""
    said = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "words " * 300_000}]}
    plain = json.dumps(said).encode()
    file = folder / "body"
    file.write_bytes(zstd_library().compress(plain) if coding == "zstd" else plain)
    fields = {"zstd": ["-H", "Content-Encoding: zstd"], "chunked": ["-H", "Transfer-Encoding: chunked"]}.get(coding, [])
    json_type = ["-H", "Content-Type: application/json"]
    return [str(need_tool("curl")), "-sS", "--data-binary", f"@{file}", *json_type, *fields]


class Client(NamedTuple):
    command: Callable[[str, Path], list[str]]
    with_what: str
    outcomes: dict[str, int]
    """Requests by outcome."""
    tokens: int
    """Output tokens that usage states."""
    path: str = ""
    """Added to the base address."""


CLIENTS = {
    "openai": Client(python, "asks_openai.py", {"ok": 8, "client_cancelled": 1, "accepted": 1}, 4 * len(WORDS)),
    "anthropic": Client(python, "asks_anthropic.py", {"ok": 1}, 2 * len(WORDS)),
    "fetch": Client(node, "", {"ok": 3, "client_cancelled": 1}, 0),
    "java": Client(java, "", {"ok": 1}, 0),
    "curl": Client(curl, "plain", {"ok": 1}, 0, "/v1/chat/completions"),
    "curl zstd": Client(curl, "zstd", {"ok": 1}, 0, "/v1/chat/completions"),
    "curl chunked": Client(curl, "chunked", {"ok": 1}, 0, "/v1/chat/completions"),
}


def told(client: Client, port: int, folder: Path) -> bytes:
    command = [*client.command(client.with_what, folder), f"http://127.0.0.1:{port}{client.path}"]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return done.stdout


def counts(sidecar: SidecarProcess, name: str, label: str = "") -> dict[str, float]:
    """The samples of one metric that are not 0, summed by this label."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(sidecar.page("/metrics")):
        for sample in family.samples:
            if sample.name == name and sample.value:
                key = sample.labels.get(label, "")
                found[key] = found.get(key, 0) + sample.value
    return found


@pytest.fixture(scope="module")
def engine() -> Iterator[tuple[Engine, int]]:
    with running_engine() as found:
        yield found


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_gets_what_it_gets_without_the_sidecar(name: str, engine: tuple[Engine, int], tmp_path: Path) -> None:
    """Also the engine: each body comes as it left the client, at most with the question for usage in it."""
    client, (asked_of, port) = CLIENTS[name], engine
    begun = len(asked_of.asked)
    direct = told(client, port, tmp_path)
    bodies = asked_of.asked[begun:]
    for include_usage in ("never", "auto"):
        config = tmp_path / "config.yml"
        config.write_text(f"engine: {{kind: vllm, models: [m]}}\nproxy: {{include_usage: {include_usage}}}\n")
        flags = [f"--config.file={config}"]
        with running_sidecar(f"http://127.0.0.1:{port}", tmp_path, flags=flags) as sidecar:
            begun = len(asked_of.asked)
            through = told(client, sidecar.port, tmp_path)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while sum(counts(sidecar, "llm_requests_total").values()) < sum(client.outcomes.values()):
                assert time.monotonic() < deadline, counts(sidecar, "llm_requests_total", "outcome")
                time.sleep(0.05)
            came = [one for one in asked_of.asked[begun:] if one[0] not in ("/health", "/v1/models", "/metrics")]

            assert through == direct
            assert came == bodies or include_usage == "auto"
            assert [path for path, _ in came] == [path for path, _ in bodies]
            assert counts(sidecar, "llm_requests_total", "outcome") == client.outcomes
            assert counts(sidecar, "llm_requests_total", "model").keys() == {"m"}
            assert counts(sidecar, "llm_uncounted_inference_total") == {}
            assert counts(sidecar, "llm_sidecar_dropped_total", "reason") == {}
            stated = counts(sidecar, "llm_output_tokens_sum").get("", 0)
            assert stated == client.tokens if include_usage == "never" else stated >= client.tokens
