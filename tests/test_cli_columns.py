"""Eighty columns suffice: the help of every command, its typical answers, and its errors; a wider terminal is used."""

import re
import sys
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.config.folding import WIDTH


CONFIG = """\
engine: {url: "http://127.0.0.1:8000", models: [llama-3.3-70b, a-second-model-with-a-rather-long-name-of-its-own]}
lanes:
  header: x-lane
  names: [interactive-users-of-the-web-page, gold, prod-chat, agent, voice, batch]
  rules:
    - {lane: code, headers: {user-agent: [continue/*, cursor/*, another-editor-plugin/*]}, paths: [/v1/completions]}
objectives:
  gold: {preset: interactive, prompt_buckets: {4k-16k: {ttft: {threshold_seconds: 9.5, target: 0.99}}}}
"""
WRONG = """\
engine: {url: "${ENGINE_URL}", modles: [x]}
proxy: {max_in_flight: 0, listen_address: 0.0.0.0}
lanes: {rules: [{lane: a, api_keys: [x]}, {lane: b, api_keys: [x]}]}
objectives: {nope: {preset: loud}}
"""
ANSWERS = {
    "check": ["check", "--config.file=good.yml", "--log.level=warning"],
    "diagnose": ["diagnose", "--ttft-p99=5s", "--queue-p99=4.8s", "--tpot-p99=40ms", "--engine=vllm"],
    "what fits": ["capacity", "--model=llama-3.1-8b", "--gpu=h100", "--users=8"],
    "replicas": [
        *("capacity", "--rate=12", "--wait=200ms", "--slots=64"),
        *("--service=1:3s", "--service=64:11s", "--prefill=1:99ms"),
    ],
    "export": ["export", "all", "--out=what-a-team-takes"],
}
REFUSALS = {
    "no command": [],
    "no such command": ["fly"],
    "no such flag": ["serve", "--engine.uri=http://127.0.0.1:8000", "--web.listen-adress=0.0.0.0:9901"],
    "no engine": ["serve"],
    "wrong config": ["check", "--config.file=wrong.yml"],
    "no such file": ["check", "--config.file=none.yml"],
    "diagnose, wrong flags": [
        "diagnose",
        "--tftt=3s",
        "--gpus=2xfoo",
        "--output=xml",
        "--window=3s",
        "--sidecar.url=f",
    ],
    "diagnose, one number": ["diagnose", "--e2e-p99=8s"],
    "diagnose, no answer": ["diagnose", "--sidecar.url=http://127.0.0.1:1"],
    "compare, wrong flags": [
        "compare",
        "--old=yesterday",
        "--new=pod=a",
        "--window=3m",
        "--expect=luck",
        "--output=xml",
    ],
    "compare, no answer": ["compare", "--prometheus.url=http://127.0.0.1:1", "--old=2h", "--new=0m"],
    "capacity, wrong flags": ["capacity", "--model=lama", "--model.layers=3", "--service=8", "--nope"],
    "capacity, no room": ["capacity", "--model=llama-3.3-70b", "--gpu=h100", "--users=8", "--tpot=1ms"],
    "capacity, no answer": ["capacity", "--model=llama-3.1-8b", "--engine.url=http://127.0.0.1:1"],
    "baseline, wrong URL": ["baseline", "export", "--out=b.json", "--sidecar.url=here"],
    "baseline, no answer": ["baseline", "export", "--out=b.json", "--sidecar.url=http://127.0.0.1:1"],
    "drain, no answer": ["drain", "--sidecar.url=http://127.0.0.1:1"],
    "doctor, wrong flags": [
        *("doctor", "--engine.url=ftp://127.0.0.1:8000", "--send-test-page=loudly", "--output=xml"),
        *("--alertmanager.templates=no-such-folder-of-templates-below-the-folder-of-the-config", "--url=x"),
    ],
    "doctor, no answer": ["doctor", "--sidecar.url=http://127.0.0.1:1", "--prometheus.url=http://127.0.0.1:1"],
    "export, no folder": ["export", "rules"],
    "export, no such thing": ["export", "everything-that-there-is", "--out=out"],
    "export, wrong flags": [
        *("export", "rules", "--out=out", "--namespace=Namespace", "--image=:", "--datasource=a b"),
        *("--receivers=slack,a-pigeon", "--runbook-base=https://runbooks.example.com/with-a?query"),
    ],
    "export, changed files": ["export", "all", "--out=changed"],
    "export, failure": ["export", "all", "--out=good.yml"],
    "demo, wrong flags": ["demo", "--rate=0", "--duration=0", "--port=70000", "--engine-port=-1"],
    "demo, no such incident": ["demo", "--incident=a-fire-in-the-machine-room"],
    "demo, failure": ["demo", "--port=9901", "--admin-port=9901", "--engine-port=9901"],
}
FAILS = {name for name in REFUSALS if name.endswith(("no answer", "failure"))}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "__stdout__", None)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    Path("good.yml").write_text(CONFIG)
    Path("wrong.yml").write_text(WRONG)
    Path("changed/alert_rules/kubernetes").mkdir(parents=True)
    for name in ("llm-recording.yml", "kubernetes/alertmanager-config.yaml"):
        Path("changed/alert_rules", name).write_text("mine")


def too_long(printed: str, columns: int = WIDTH) -> list[str]:
    """Lines above the width, but for one that is a single word, such as an address."""
    return [line for line in printed.splitlines() if len(line) > columns and " " in line.strip()]


def commands(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The commands that `sidecar --help` lists."""
    assert main(["--help"]) == 0
    return re.findall(r"^    ([a-z]+)  ", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.usefixtures("folder")
def test_every_help_fits(capsys: pytest.CaptureFixture[str]) -> None:
    helps = {}
    for command in ([], *([name] for name in commands(capsys)), ["baseline", "export"]):
        assert main([*command, "--help"]) == 0
        helps[" ".join(command)] = capsys.readouterr().out

    assert len(helps) > 9
    assert {name: found for name, text in helps.items() if (found := too_long(text))} == {}
    assert WIDTH == 80


@pytest.mark.usefixtures("folder")
def test_every_help_says_what_each_exit_code_means(capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for command in ("", *commands(capsys)):
        assert main([*command.split(), "--help"]) == 0
        shown = " ".join(capsys.readouterr().out.split()).partition("exit codes:")[2]
        said[command] = re.findall(r"(?:^|[;,]) ([0-9]) ", shown)

    assert {"demo", "doctor", "export"} <= said.keys()
    assert {command: codes for command, codes in said.items() if codes != ["0", "1", "2"]} == {}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("columns", [80, 132])
def test_answers_are_as_wide_as_the_terminal(
    name: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The width is eighty columns if the terminal states none."""
    monkeypatch.setenv("COLUMNS", "" if columns == WIDTH else str(columns))

    assert main(ANSWERS[name]) == 0
    widths = [len(line) for line in capsys.readouterr().out.splitlines()]

    assert columns - 30 < max(widths) <= columns


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_fits_and_is_told_apart_from_a_failure(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2 for what a user typed, and 1 where nothing answers or a part cannot be had."""
    code = main(REFUSALS[name])
    printed = capsys.readouterr()
    said = printed.out + printed.err

    assert (code, said != "", too_long(said)) == (1 if name in FAILS else 2, True, [])
    assert [word for word in ("aiohttp", "ssl:default", "Traceback", "Errno") if word in said] == []
