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


def told(of: Config) -> dict[str, tuple[tuple[str, ...], str]]:
    return {note.event: (note.names, note.hint) for note in notes(of)}


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


def test_check_and_serve_tell_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`serve` prints the same note in a line of its log."""
    expected = told(config(tmp_path, NAMED))
    flag = f"--config.file={tmp_path / 'sidecar.yml'}"

    assert main(["check", flag]) == 0
    checked = " ".join(capsys.readouterr().out.split())
    log = served(flag, "--proxy.listen-address=127.0.0.1:0", "--web.listen-address=127.0.0.1:0", "--log.format=json")

    assert [f"note {', '.join(names)}: {hint}" in checked for names, hint in expected.values()] == [True]
    fields = {"lanes_without_objectives": "lanes"}
    told_by_serve = {
        line["event"]: (tuple(line[fields[line["event"]]]), line["hint"], line["level"])
        for line in map(json.loads, log.splitlines())
        if line["event"] in fields
    }
    assert told_by_serve == {event: (*said, "warning") for event, said in expected.items()}


def served(*flags: str) -> str:
    """The first lines of the log: the listeners, and the note."""
    command = [sys.executable, "-m", "sidecar", "serve", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(2)]
        process.kill()
    return "".join(lines)
