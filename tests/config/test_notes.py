"""Settings that have no effect are named once, with what to do instead."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.config.file import load
from sidecar.config.notes import notes
from sidecar.config.objectives import lanes_without_objectives
from sidecar.config.schema import Config


def config(tmp_path: Path, text: str = "") -> Config:
    file = tmp_path / "sidecar.yml"
    file.write_text(f"engine: {{url: http://127.0.0.1:1}}\n{text}")
    return load(str(file))


def told(of: Config, environment: dict[str, str] | None = None) -> dict[str, tuple[tuple[str, ...], str]]:
    return {note.event: (note.names, note.hint) for note in notes(of, environment or {})}


NAMED = "lanes: {default: prod-chat, header: x-lane, names: [gold, batch, night, bulk]}\n"


def test_lanes_that_promise_nothing_are_named_with_how_to_give_them_objectives(tmp_path: Path) -> None:
    """The note leaves out `other`, which cannot have objectives, and lanes that the config frees from them."""
    meant = "objectives: {night: {preset: none}, bulk: {ttft: none}, gold: {}}\n"
    silent = config(tmp_path, NAMED + meant)

    names, hint = told(silent)["lanes_without_objectives"]

    assert names == ("gold", "prod-chat")
    assert "set objectives.LANE.preset to one of interactive, batch, code, voice, agent" in hint
    assert lanes_without_objectives(silent) == ["gold", "night", "bulk", "prod-chat", "other"]


def test_where_every_lane_promises_something_nothing_is_told(tmp_path: Path) -> None:
    given = "objectives: {gold: {preset: interactive}, prod-chat: {ttft: {threshold_seconds: 1, target: 0.9}}}\n"

    assert told(config(tmp_path, "lanes: {default: prod-chat, header: x-lane, names: [gold, batch]}\n" + given)) == {}
    assert told(config(tmp_path)) == {}


def test_a_variable_that_looks_like_a_key_is_named_with_its_right_spelling(tmp_path: Path) -> None:
    """Others with a single underscore are no mistake: other programs may name theirs so."""
    environment = {
        "SIDECAR_ENGINE_URL": "http://secret-CANARY",
        "SIDECAR_PROXY_LISTEN_ADDRESS": ":1",
        "SIDECAR_CONFIG_FILE": "x",
        "SIDECAR_COLOUR": "blue",
        "SIDECAR_GPU_TYPE": "H100",
        "PATH": "",
    }

    names, hint = told(config(tmp_path), environment)["environment_ignored"]

    assert names == ("SIDECAR_CONFIG_FILE", "SIDECAR_ENGINE_URL", "SIDECAR_PROXY_LISTEN_ADDRESS")
    assert hint == (
        "not read: use --config.file in place of SIDECAR_CONFIG_FILE;"
        " use SIDECAR__ENGINE__URL in place of SIDECAR_ENGINE_URL;"
        " use SIDECAR__PROXY__LISTEN_ADDRESS in place of SIDECAR_PROXY_LISTEN_ADDRESS"
    )


@pytest.mark.parametrize(
    "name", ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_9901_TCP", "PORT_9901_TCP_ADDR"]
)
def test_what_kubernetes_sets_for_a_service_of_that_name_is_no_mistake(name: str, tmp_path: Path) -> None:
    assert told(config(tmp_path), {f"SIDECAR_{name}": "tcp://10.0.0.1:9901", f"SIDECAR_CHAT_{name}": "1"}) == {}


def test_check_and_serve_tell_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`serve` prints the same notes in two lines of its log, and no value of a variable anywhere."""
    monkeypatch.setenv("SIDECAR_ENGINE_URL", "http://secret-CANARY")
    expected = told(config(tmp_path, NAMED), {"SIDECAR_ENGINE_URL": ""})
    flag = f"--config.file={tmp_path / 'sidecar.yml'}"

    assert main(["check", flag]) == 0
    checked = " ".join(capsys.readouterr().out.split())
    log = served(flag, "--proxy.listen-address=127.0.0.1:0", "--web.listen-address=127.0.0.1:0", "--log.format=json")

    assert [f"note {', '.join(names)}: {hint}" in checked for names, hint in expected.values()] == [True, True]
    fields = {"environment_ignored": "variables", "lanes_without_objectives": "lanes"}
    told_by_serve = {
        line["event"]: (tuple(line[fields[line["event"]]]), line["hint"], line["level"])
        for line in map(json.loads, log.splitlines())
        if line["event"] in fields
    }
    assert told_by_serve == {event: (*said, "warning") for event, said in expected.items()}
    assert "CANARY" not in checked + log


def served(*flags: str) -> str:
    """The first three lines of the log: the listeners, and the notes."""
    command = [sys.executable, "-m", "sidecar", "serve", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(3)]
        process.kill()
    return "".join(lines)
