"""`sidecar verify` as a person or a program uses it: flags, keys, text, JSON, exit codes, Ctrl-C."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.commands.simulator.http_face import SimulatedEngine
from sidecar.commands.verify import verify_run
from sidecar.commands.verify.probe_shapes import VERIFY_PROBES
from sidecar.commands.verify.verify_command import main
from sidecar.commands.verify.verify_findings import findings
from sidecar.commands.verify.verify_output import VERIFY_VERSION, verify_text
from sidecar.config.folding import FAILED, MISUSED, OK
from tests.commands.verify.played import STREAMED, evidence, probed
from tests.commands.verify.quick_engine import QUICK
from tests.support.background import background


FEW = ("chat-short-1", "chat-short-64")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedEngine]:
    """A simulated engine in another thread, and two probes."""
    monkeypatch.setattr(verify_run, "VERIFY_PROBES", [probe for probe in VERIFY_PROBES if probe.name in FEW])
    with background() as thread, thread.entered(lambda: SimulatedEngine(QUICK)) as running:
        yield running


def unfolded(printed: str) -> list[str]:
    return printed.replace("\n    ", " ").splitlines()


def test_all_errors_of_the_flags_are_told_and_no_secret_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "none"
    flags = (
        "--entry.url=https://me:hunter2@gateway",
        "--engine.api-key-file=k",
        "--output=yaml",
        "--key=hunter2",
    )

    assert main([*flags, f"--entry.api-key-file={missing}"]) == MISUSED
    printed = capsys.readouterr().err
    assert [line.removeprefix("sidecar verify: ").partition(":")[0] for line in unfolded(printed)] == [
        "--key",
        "--entry.url",
        "--engine.api-key-file",
        "--output",
        "--engine.api-key-file",
        "--entry.api-key-file",
        "`sidecar verify --help` explains, with examples.",
    ]
    assert "hunter2" not in printed
    assert main([]) == MISUSED
    assert "--engine.url: is needed, or --entry.url, or both" in capsys.readouterr().err


def test_the_document_has_its_version_and_shows_no_address(
    engine: SimulatedEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"--engine.url={engine.url}", "--output=json"]) == OK
    printed = capsys.readouterr().out
    said = json.loads(printed)

    assert said.keys() == {
        "schema_version",
        "sidecar_version",
        "engine",
        "differs",
        "findings",
        "added_ttft_seconds",
        "probes",
    }
    assert (said["schema_version"], said["engine"]["kind"], said["engine"]["model"]) == (
        VERIFY_VERSION,
        "vllm",
        "quick-model",
    )
    assert [probe["name"] for probe in said["probes"]] == list(FEW)
    one = said["probes"][1]["engine"]
    assert one.keys() == {
        *("asked", "status", "failure", "client_seconds", "stream", "fields"),
        "engine_seconds",
    }
    assert (one["stream"]["usage"]["completion_tokens"], one["status"]) == (64, 200)
    assert one["engine_seconds"].keys() == {"queue", "prefill", "decode"}
    assert (
        0
        < one["engine_seconds"]["queue"] + one["engine_seconds"]["prefill"]
        <= one["client_seconds"]["ttft"]
        <= one["client_seconds"]["total"]
    )
    assert engine.url.removeprefix("http://") not in printed


def test_a_report_that_lies_ends_with_1_and_stands_first_behind_the_table(
    engine: SimulatedEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.report_factor = 100.0

    assert main([f"--engine.url={engine.url}"]) == FAILED
    printed = capsys.readouterr().out
    assert "chat-short-64 " in printed
    assert printed.partition("\n\n")[2].partition("\n\n")[2].startswith("differs  report ")


def test_both_tables_fit_eighty_columns() -> None:
    seen = evidence([probed(name) for name in STREAMED], [probed(name, reads=1) for name in STREAMED])
    text = verify_text(seen, findings(seen), 80)

    assert max(map(len, text.splitlines())) <= 80
    assert text.count("chat-last-64 ") == 2
    assert "at_once" in text


def test_a_key_comes_from_a_file_or_a_variable_and_an_error_of_the_server_does_not_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: SimulatedEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text("from-a-file\n")
    monkeypatch.setenv("SIDECAR_VERIFY_ENTRY_API_KEY", "from-a-variable")
    given: dict[str, str] = {}
    monkeypatch.setattr(verify_run, "verified", _noting(given))

    assert (
        main([f"--engine.url={engine.url}", f"--entry.url={engine.url}", f"--engine.api-key-file={tmp_path / 'key'}"])
        == FAILED
    )
    assert given == {"engine": "from-a-file", "entry": "from-a-variable"}
    assert "from-a" not in capsys.readouterr().err


def _noting(given: dict[str, str]) -> object:
    async def verified(places: list[verify_run.Place], *_others: object) -> None:
        given.update({place.name: place.key for place in places})
        raise verify_run.UnverifiableError("enough")

    return verified


@pytest.mark.long
def test_ctrl_c_closes_the_connection_and_says_so() -> None:
    """The engine hangs; the probe's connection is closed when the command ends, so that the engine stops working on it."""
    with background() as thread, thread.entered(lambda: SimulatedEngine(QUICK)) as engine:

        async def hang() -> None:
            engine.adjust(hung=True)

        async def inside() -> int:
            return len(engine.simulation.running) + len(engine.simulation.waiting)

        thread.run(hang())
        command = [sys.executable, "-m", "sidecar", "verify", f"--engine.url={engine.url}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            waiting = threading.Event()
            while thread.run(inside()) == 0:
                assert process.poll() is None
                waiting.wait(0.02)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
        while thread.run(inside()):
            waiting.wait(0.02)

    assert (process.returncode, said.strip()) == (
        FAILED,
        "sidecar verify: stopped; its connection is closed, so that the engine ends the probe",
    )
