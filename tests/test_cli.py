"""The command line: its output, and exit codes that a script can rely on."""

import gc
import os
import re
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar import BUILD, __version__, cli
from sidecar.cli import main
from sidecar.config.file import ConfigErrors
from sidecar.config.schema import Config


URL = "--engine.url=http://127.0.0.1:8000"
GOOD = """\
engine: {url: "http://127.0.0.1:8000", models: [llama]}
lanes:
  header: X-Lane
  api_keys: {nightly: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}
  rules:
    - {lane: batch, api_keys: nightly, streaming: false}
    - {lane: code, headers: {x-team: [dev, tools*]}, max_tokens_at_least: 3}
objectives:
  batch:
    ttft: none
    prompt_buckets: {4k-16k: {e2e: {threshold_seconds: 400, target: 0.95}}, 64k+: {e2e: none}}
  code: {preset: none, prompt_buckets: {0-512: {ttft: {threshold_seconds: 2, target: 0.99}}}}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm, labels: {app: llm}}
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
        - {name: vllm, image: "vllm/vllm-openai:v0.9.1", args: [--model, llama], ports: [{containerPort: 8000}]}
---
apiVersion: v1
kind: Service
metadata: {name: llm}
spec: {selector: {app: llm}, ports: [{port: 80, targetPort: 8000}]}
"""


def unfolded(printed: str) -> list[str]:
    """Errors as one line each."""
    return printed.replace("\n    ", " ").splitlines()


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: object) -> None:
    module = types.ModuleType(name)
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, name, module)


def test_the_default_config_stays_within_the_design(capsys: pytest.CaptureFixture[str]) -> None:
    """With defaults and one model: at most 25,000 series, under 4,000 in full use (design section 5)."""
    assert main(["check", URL]) == 0
    series = capsys.readouterr().out.partition("\nseries")[2].partition("counted")[0]
    used, ceiling, limit = map(int, re.findall(r"[0-9]+", series))

    assert 0 < used < 4000
    assert used < ceiling <= 25_000 < limit


def test_check_prints_every_error_and_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A broken config prints each error, folded, then the number of errors."""
    file = tmp_path / "sidecar.yml"
    file.write_text("engine:\n  urll: x\nlog:\n  level: loud\n")

    assert main(["check", f"--config.file={file}"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line.split(": ")[0].removeprefix(str(file)) for line in unfolded(printed.err)] == [
        ":2:3",
        ":2:3",
        ":4:10",
        "sidecar",
    ]
    assert printed.err.endswith("sidecar: the config is refused: 3 errors\n")


def test_check_reads_the_web_config_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "web.yml"
    file.write_text("basic_auth_users: {a: nonsense}\nwrong: 1\n")
    flags = ["check", "--engine.url=http://127.0.0.1:8000", f"--web.config.file={file}"]

    assert main(flags) == 2
    lines = unfolded(capsys.readouterr().err)
    assert [line.partition(": ")[0] for line in lines] == [f"{file}:1:23", f"{file}:2:1", "sidecar"]
    file.write_text("")
    assert main(flags) == 0


@pytest.mark.parametrize(
    "arguments",
    [[], ["fly"], ["serve", "--engine.uri=x"], ["serve", "--engine.ur=http://a"], ["serve"], ["check", "x"]],
)
def test_wrong_usage_exits_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """No command, an unknown one, an unknown or shortened flag, no engine URL: each is reported on stderr."""
    assert main(arguments) == 2
    assert capsys.readouterr().err != ""


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["chek"], "check"),
        (["serve", "--engine-url=x"], "--engine.url"),
        (["check", "--config=x"], "--config.file"),
        (["check", "--proxy.listen_address=:1"], "--proxy.listen-address"),
        (["demo", "--incidnt=queue"], "--incident"),
        (["demo", "--incident=quue"], "queue"),
        (["baseline", "exprt"], "export"),
        (["export", "rulez"], "rules"),
        (["inject", "--selectr=a"], "--selector"),
        (["diagnose", "--tftt-p99=3s"], "--ttft-p99"),
        (["compare", "--lanes=chat"], "--lane"),
        (["verify", "--engine-url=x"], "--engine.url"),
        (["doctor", "--send-page"], "--send-test-page"),
        (["drain", "--sidecar-url=x"], "--sidecar.url"),
        (["capacity", "--modle=x"], "--model"),
    ],
)
def test_a_near_miss_names_what_was_meant(arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands, their flags and words out of closed sets."""
    assert main(arguments) == 2
    assert f'did you mean "{meant}"?' in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "taught"),
    [
        (["--help"], ["sidecar serve --engine.url=", "sidecar demo", "exit codes", "docs/configuration.md"]),
        (["serve", "--help"], ["SIGHUP", "--proxy.listen-address"]),
        (["check", "--help"], ["line and column", "--config.file"]),
    ],
)
def test_help_teaches(arguments: list[str], taught: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Help shows examples with their purpose, and exits 0."""
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert [text for text in taught if text not in printed] == []


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Commands with flags of their own are parsed elsewhere, and could be missing here."""
    assert main(["--help"]) == 0
    listed = re.findall(r"^    ([a-z]+)  ", capsys.readouterr().out, re.MULTILINE)
    cases = re.findall(r'^ +case ("[a-z" |]+"):', Path(cli.__file__).read_text(), re.MULTILINE)
    own = [name for each in cases for name in re.findall("[a-z]+", each)]

    assert {"drain", "export"} <= set(own)
    assert sorted(listed) == sorted({*own, "serve", "check"})


def test_serve_hands_over_a_config_and_a_way_to_read_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The app gets the config and a reload that reads the file anew, with the flags and the environment applied again; its
    return value is the exit code."""
    file = tmp_path / "sidecar.yml"
    file.write_text(GOOD)
    seen: list[Config] = []

    def run(config: Config, reload: Callable[[], Config]) -> int:
        seen.append(config)
        file.write_text(GOOD.replace("batch", "nightly"))
        seen.append(reload())
        file.write_text("engine: {")
        with pytest.raises(ConfigErrors):
            reload()
        return 1

    stand_in(monkeypatch, "sidecar.app", run=run)
    monkeypatch.setenv("SIDECAR__PROXY__MAX_IN_FLIGHT", "7")

    assert main(["serve", f"--config.file={file}", "--proxy.listen-address=127.0.0.1:0"]) == 1
    assert [config.lanes.declared[0] for config in seen] == ["batch", "nightly"]
    assert [(config.proxy.listen_address, config.proxy.max_in_flight) for config in seen] == [("127.0.0.1:0", 7)] * 2


def test_no_garbage_is_collected_while_serve_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The app switches the collector on once all is loaded; however it ends, it is on afterwards."""
    collects: list[bool] = []

    def run(_config: Config, _reload: Callable[[], Config]) -> int:
        collects.append(gc.isenabled())
        return 0

    stand_in(monkeypatch, "sidecar.app", run=run)

    assert main(["serve", "--engine.url=http://127.0.0.1:8000"]) == 0
    assert [*collects, gc.isenabled()] == [False, True]


def test_demo_reads_its_own_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """All arguments after `demo` go to the demo unchanged."""
    given: list[list[str]] = []

    def demo(argv: list[str]) -> int:
        given.append(argv)
        return 0

    stand_in(monkeypatch, "sidecar.commands.demo.demo", main=demo)

    assert main(["demo", "--preset", "70b"]) == 0
    assert given == [["--preset", "70b"]]


def test_python_m_sidecar_is_the_same_program() -> None:
    """`python -m sidecar --version` prints the version and exits 0."""
    done = subprocess.run([sys.executable, "-m", "sidecar", "--version"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, f"sidecar {__version__} ({BUILD})\n")


COMMANDS_THAT_PRINT = {
    "help": ["--help"],
    "help of a command": ["serve", "--help"],
    "check": ["check", URL],
    "diagnose": ["diagnose", "--ttft-p99=5s", "--tpot-p99=40ms"],
    "capacity": ["capacity", "--model=llama-3.1-8b"],
    "doctor": ["doctor", "--sidecar.url=http://127.0.0.1:1"],
    "export": ["export", "routes", "--out=written"],
    "inject": ["inject", "--image=x", "--all", "deployment.yaml"],
    "demo": ["demo", "--plain", "--port=0", "--admin-port=0"],
}


@pytest.mark.long
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("name", COMMANDS_THAT_PRINT)
def test_a_pipe_that_closes_ends_each_command_as_sigpipe_would(name: str, buffered: bool, tmp_path: Path) -> None:
    """`sidecar ... | head -1`: no traceback, and the exit status 141, by which shells show SIGPIPE."""
    (tmp_path / "deployment.yaml").write_text(DEPLOYMENT)
    left = run_without_a_reader(COMMANDS_THAT_PRINT[name], tmp_path, ["stdout"], buffered=buffered)

    assert "Traceback" not in left.stderr
    assert "Exception" not in left.stderr
    # argparse itself drops what it cannot write
    assert left.returncode == (0 if "help" in name and not buffered else 141)


def test_errors_without_a_reader_end_the_command_too(tmp_path: Path) -> None:
    """`sidecar serve 2>&1 | true`: the exit status is the same."""
    assert run_without_a_reader(["serve"], tmp_path, ["stdout", "stderr"], buffered=True).returncode == 141


def test_a_pipe_of_the_command_itself_that_breaks_is_no_reader_that_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake in the code is not hidden as a reader that has left."""

    def demo(_argv: list[str]) -> int:
        raise BrokenPipeError

    stand_in(monkeypatch, "sidecar.commands.demo.demo", main=demo)
    (reader, writer) = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        with pytest.raises(BrokenPipeError):
            main(["demo"])


def run_without_a_reader(
    arguments: list[str], folder: Path, streams: list[str], *, buffered: bool
) -> subprocess.CompletedProcess[str]:
    """One command whose streams go to a pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment |= {"PYTHONPATH": str(Path(cli.__file__).parents[1])} | ({} if buffered else {"PYTHONUNBUFFERED": "1"})
    try:
        return subprocess.run(
            [sys.executable, "-m", "sidecar", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer if "stderr" in streams else subprocess.PIPE,
            cwd=folder,
            env=environment,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
