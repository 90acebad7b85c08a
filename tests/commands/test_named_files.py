"""`sidecar check` looks at every file and directory that a config names, and tells all that is wrong with them at once."""

import json
import os
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.commands.named_files import _named, file_errors
from sidecar.config.file import load
from sidecar.config.schema import KEYS
from sidecar.config.section import Accepted
from sidecar.config.values import FileName, Folder
from sidecar.pod.usual.baseline import Key, head
from tests.support.configs import URL, few


KEY = Key("vllm", "0.9.1", ("llama",), None, None)


def written(folder: Path, **keys: object) -> Path:
    """A config that names these, each on a line of its own."""
    lines = [f'engine: {{url: "{URL}", api_key_file: "{keys["key"]}", sglang_metrics_dir: "{keys["metrics"]}"}}']
    lines += [f'state: {{directory: "{keys["state"]}"}}', f'baseline: {{file: "{keys["baseline"]}"}}']
    file = folder / "sidecar.yml"
    file.write_text("\n".join(lines))
    return file


def test_all_that_cannot_be_used_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its place, its key, the file and why; the file of TLS and passwords too."""
    (tmp_path / "empty").write_text("")
    gone = tmp_path / "gone"
    file = written(
        tmp_path, key=tmp_path / "empty", metrics=gone, state=tmp_path / "empty", baseline=tmp_path / "empty"
    )

    assert main(["check", f"--config.file={file}", f"--web.config.file={gone}"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    for told in (
        f"{file}:1: engine.api_key_file: {tmp_path / 'empty'}: it holds no key that a header can carry",
        f"{file}:1: engine.sglang_metrics_dir: {gone}: No such file or directory",
        f"{file}:2: state.directory: {tmp_path / 'empty'}: it is no directory",
        f"{file}:3: baseline.file: {tmp_path / 'empty'}: it is no JSON: was it cut short?",
        f"{gone}: cannot be read: No such file or directory",
        "the config is refused: 5 errors",
    ):
        assert told in said


def test_what_is_right_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-1\n")
    (tmp_path / "baseline.json").write_text(
        json.dumps({**head(KEY, 1.8e9, burning=False, provisional=False), "learners": {}})
    )
    file = written(
        tmp_path, key=tmp_path / "key", metrics=tmp_path, state=tmp_path, baseline=tmp_path / "baseline.json"
    )

    assert main(["check", f"--config.file={file}"]) == 0


@pytest.mark.parametrize(
    ("key", "why"), [("baseline.file", "it is no regular file"), ("engine.api_key_file", "it is no")]
)
def test_a_pipe_in_the_place_of_a_file_holds_nothing_up(key: str, why: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (error,) = file_errors(load(None, {"engine.url": URL, key: str(tmp_path / "pipe")}, {}, series_in_use=few))

    assert error.startswith(f"--{key.replace('_', '-')}: {key}: {tmp_path / 'pipe'}: {why}")


def test_the_place_of_a_variable_is_its_name(tmp_path: Path) -> None:
    variables = {"SIDECAR__STATE__DIRECTORY": str(tmp_path / "gone")}

    assert file_errors(load(None, {"engine.url": URL}, variables, series_in_use=few)) == [
        f"$SIDECAR__STATE__DIRECTORY: state.directory: {tmp_path / 'gone'}: No such file or directory"
    ]


def test_a_directory_that_may_not_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may use every directory, and may run the tests: so the answer of the kernel is stood in for."""
    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)
    flags = {"engine.url": URL, "state.directory": str(tmp_path), "engine.sglang_metrics_dir": str(tmp_path)}

    assert file_errors(load(None, flags, {}, series_in_use=few)) == [
        f"--state.directory: state.directory: {tmp_path}: it cannot be written to by this user"
    ]


def test_every_key_that_names_a_file_is_looked_at() -> None:
    """A new key of these types is added to the table, or this test fails."""
    words = [str(Accepted(of)) for of in (FileName, Folder)]
    named = {tuple(key.split(".")) for key, accepted in KEYS.items() if str(accepted) in words}

    assert {path for path, _, _ in _named(load(None, {"engine.url": URL}, {}, series_in_use=few))} == named
