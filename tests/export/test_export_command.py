"""`sidecar export` writes what the repository holds, and with each flag that alone which the flag says."""

from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.export.shipped_files import ALERT_RULES, shipped


def written(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_without_flags_it_writes_the_committed_files(tmp_path: Path) -> None:
    code = main(["export", "rules", f"--out={tmp_path}"])
    texts = written(tmp_path)

    assert code == 0
    assert len(texts) == 4
    assert texts == {name: (shipped(ALERT_RULES) / name).read_text() for name in texts}


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")

    assert main(["export", "rules", f"--out={tmp_path / 'file'}"]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err
