"""An engine is one file, an entry in kinds.py and, for a new API, one dialect: a tenth engine and its names show it."""

import ast
import inspect
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from prometheus_client.parser import text_string_to_metric_families

import sidecar
from sidecar.engines.kinds import KINDS
from tests.support.proofs import proofs
from tests.support.sidecar_process import SidecarProcess, running_sidecar


CHECKOUT = Path(__file__).parents[2]
SUPPORT = CHECKOUT / "tests" / "support"

QUEUED, READ = 0.02, 0.03
"""Seconds for which the toy lets a request wait, and seconds in which it reads the prompt."""


class ToyHandler(BaseHTTPRequestHandler):
    """The toy engine as a server."""

    pages: ClassVar = {
        "/health": "",
        "/v1/models": '{"data": [{"id": "bear", "owned_by": "toymaker"}]}',
        "/version": '{"version": "1.0"}',
        "/metrics": "toy_waiting 3\ntoy_running 4\n",
    }

    def do_GET(self) -> None:
        page = self.pages.get(self.path)
        self._head(404 if page is None else 200, "application/json", page or "")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(QUEUED + READ)
        times = {"queued": 1000 * QUEUED, "read": 1000 * READ}
        events = ({"word": "a"}, {"word": "b"}, {"toy_times": times})
        self._head(200, "text/event-stream", "".join(f"data: {json.dumps(event)}\n\n" for event in events))

    def _head(self, status: int, content_type: str, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None: ...


@contextmanager
def toy_server() -> Iterator[str]:
    """The toy engine on a real socket; yields its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), ToyHandler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product with the toy in it: two new files, and its entry in kinds.py."""
    folder = tmp_path_factory.mktemp("checkout")
    package = folder / "sidecar"
    for name in ("sidecar", "tools", "docs", "deploy", ".ci"):
        shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Makefile", "CONTRIBUTING.md", "Dockerfile"):
        shutil.copy(CHECKOUT / name, folder)
    shutil.copy(SUPPORT / "toy_generate.py", package / "timeline" / "dialects")
    toy = (SUPPORT / "toy.py").read_text()
    (package / "engines" / "toy.py").write_text(toy.replace("tests.support.toy_", "sidecar.timeline.dialects.toy_"))
    kinds = package / "engines" / "kinds.py"
    before = kinds.read_text()
    with_import = before.replace(
        "from sidecar.engines.triton", "from sidecar.engines.toy import Toy\nfrom sidecar.engines.triton"
    )
    kinds.write_text(with_import.replace("        Triton(),\n", "        Toy(),\n        Triton(),\n"))
    assert kinds.read_text().count("Toy") == before.count("Toy") + 2
    return folder


def run(checkout: Path, *arguments: str) -> str:
    """The output of a module of the copy."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def values(sidecar: SidecarProcess, name: str, **labels: str) -> list[float]:
    """The values of all series of this name with these labels, except those that are 0."""
    return [
        sample.value
        for family in text_string_to_metric_families(sidecar.page("/metrics"))
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items() and sample.value
    ]


@pytest.mark.long
@pytest.mark.reaches_in
def test_a_tenth_engine_is_detected_and_read(checkout: Path, tmp_path: Path) -> None:
    """Its kind and version, its state, and the times in its answers, over real sockets."""
    with toy_server() as url, running_sidecar(url, tmp_path, checkout=checkout) as sidecar:
        deadline = time.monotonic() + 20.0
        while not values(sidecar, "llm_engine_requests_waiting") and time.monotonic() < deadline:
            time.sleep(0.1)
        request = urllib.request.Request(f"http://127.0.0.1:{sidecar.port}/toy/generate", data=b"{}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()
        sidecar.wait_for_log_lines("request", 1)
        seconds = {
            phase: values(sidecar, "llm_request_phase_seconds_sum", phase=phase, source="engine")
            for phase in ("queue", "prefill")
        }

        assert values(sidecar, "llm_engine_info", engine="toy", version="1.0") == [1]
        assert values(sidecar, "llm_engine_requests_waiting") == [3]
        assert values(sidecar, "llm_engine_requests_running") == [4]
        assert seconds == {"queue": [pytest.approx(QUEUED)], "prefill": [pytest.approx(READ)]}
        assert "Toy Box 1.0" in sidecar.page("/")


@pytest.mark.long
@pytest.mark.reaches_in
def test_a_tenth_engine_is_named_in_the_config_and_in_the_docs(checkout: Path) -> None:
    """Config and diagnosis accept its name; the docs that are generated from the code include it."""
    run(checkout, "tools.docs")
    engines, metrics = ((checkout / "docs" / name).read_text() for name in ("engines.md", "metrics.md"))
    (checkout / "toy.yml").write_text("engine:\n  url: http://127.0.0.1:1\n  kind: toy\n")

    run(checkout, "sidecar", "check", "--config.file=toy.yml")
    run(checkout, "sidecar", "diagnose", "--engine=toy", "--ttft-p99=5s", "--queue-p99=4.8s", "--tpot-p99=40ms")
    assert "\n## Toy Box\n\n`engine.kind: toy`\n" in engines
    assert "| `toy_times` in the last event of `/toy/generate` | 1.0 |" in engines
    assert "`tgi`, `toy`, `triton`" in metrics


# --- names ---------------------------------------------------------------------------------------------------------------

NAMES_ALLOWED = {
    "commands/capacity/answers.py": "sentences that give a flag of one engine as an example",
    "commands/capacity/flags.py": "help that says which engine's page is read",
    "cli.py": "examples of command lines",
    "commands/diagnose/diagnose_command.py": "examples of command lines",
    "commands/inject/engine_in_pod.py": "programs of an engine that serve nothing, and images that carry its name and are none",
    "commands/inject/inject_flags.py": "examples of command lines",
    "proxy/forward.py": "a Server header: the road imports no room",
    "commands/simulator": "it simulates one engine, with the names on its page",
    "timeline/apis.py": "paths, and who serves them",
    "timeline/operations.py": "the name of a dialect",
    "timeline/dialects": "a dialect is called after the API that it reads",
}
"""Files and folders outside engines/*.py in which a text names an engine, each with its reason."""


def names() -> re.Pattern[str]:
    """Matches every engine's name as it stands in the config, in titles, in model lists and on pages of metrics."""
    words = {kind.name for kind in KINDS.values()} | {kind.short_title for kind in KINDS.values()}
    words |= {kind.owned_by for kind in KINDS.values() if not kind.owner_is_shared}
    words |= {kind.metric_prefix.decode().rstrip(":_") for kind in KINDS.values()}
    return re.compile(rf"(?<![a-z0-9_])(?:{'|'.join(map(re.escape, words - {''}))})(?![a-z0-9])", re.IGNORECASE)


def texts_of(path: Path) -> list[str]:
    """Every string in the code of a file, except docstrings, which may cite an engine as a source."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
    return [
        value.decode("latin-1") if isinstance(value, bytes) else value
        for value in values
        if isinstance(value, str | bytes)
    ]


def test_an_engine_is_named_in_its_file_and_nowhere_else() -> None:
    """A table of names elsewhere is one that the tenth engine would be missing from."""
    package, pattern = Path(sidecar.__file__).parent, names()
    own = {Path(inspect.getfile(type(kind))) for kind in KINDS.values()}
    named = {
        str(path.relative_to(package))
        for path in set(package.rglob("*.py")) - own
        if pattern.search(path.read_text())  # parsing takes most of the time
        and any(pattern.search(text) for text in texts_of(path))
    }
    allowed = {
        path: [place for place in NAMES_ALLOWED if path == place or path.startswith(f"{place}/")] for path in named
    }

    assert sorted(path for path, places in allowed.items() if not places) == []
    assert sorted(set(NAMES_ALLOWED) - {place for places in allowed.values() for place in places}) == []


def test_each_file_of_an_engine_has_one() -> None:
    """The file is named after its kind."""
    assert {name: Path(inspect.getfile(type(kind))).stem for name, kind in KINDS.items()} == {
        name: name for name in KINDS
    }


def test_each_kind_says_how_a_container_starts_it() -> None:
    """Else `sidecar inject` would pass its manifests by."""
    assert [name for name, kind in KINDS.items() if kind.started is None] == []


def test_each_channel_that_no_real_engine_proves_says_at_which_commit_or_release_it_was_read() -> None:
    """Else it cannot be told what upstream has changed since (`make engines-news`)."""
    stated = re.compile(r"\b[0-9a-f]{8}\b|\bb[0-9]{4,}\b|\b[0-9]+\.[0-9]+\.[0-9]+")
    channels = [(kind.name, channel) for kind in KINDS.values() for channel in kind.channels]
    proven = {(proof.kind, proof.channel) for proof in proofs() if proof.real}

    assert [
        (name, channel.source)
        for name, channel in channels
        if (name, channel.name) not in proven and not stated.search(f"{channel.follows} {channel.version}")
    ] == []


def test_no_two_channels_of_a_kind_have_one_name() -> None:
    """Tests say by the name which one they prove."""
    names = {kind.name: [channel.name for channel in kind.channels] for kind in KINDS.values()}

    assert {kind: found for kind, found in names.items() if len(found) != len(set(found))} == {}
