"""The image's wheel is made with the image's Python, which the Dockerfile alone names."""

import re
from pathlib import Path

import pytest

from tools import wheels
from tools.wheels import WheelError, image_python, make


CHECKOUT = Path(__file__).parents[2]


def test_the_dockerfile_names_its_python_once_for_both_stages() -> None:
    text = (CHECKOUT / "Dockerfile").read_text()

    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert re.findall(r"^ARG BASE=python:(\S+?)-", text, re.MULTILINE) == ["${PYTHON}"]
    assert re.findall(r"3\.[0-9]+", text) == [image_python()]


def test_another_python_than_the_images_compiles_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("ARG PYTHON=3.99\nFROM python:${PYTHON}-slim\n")
    monkeypatch.setattr(wheels, "CHECKOUT", tmp_path)

    with pytest.raises(WheelError, match=r"the image's Python is 3.99 \(Dockerfile, ARG PYTHON\), and this is 3"):
        make("compiled", tmp_path)


@pytest.mark.parametrize("arguments", [["fast", "folder"], ["compiled"], []])
def test_another_word_than_a_build_is_refused_with_the_allowed_ones(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["tools/wheels.py", *arguments])

    assert wheels.main() == 2
    assert "BUILD is one of: compiled, pure" in capsys.readouterr().err
