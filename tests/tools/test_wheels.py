"""The Dockerfile alone names the image's Python, with which the wheel is made."""

import re
from pathlib import Path

from tools.wheels import image_python


CHECKOUT = Path(__file__).parents[2]


def test_the_dockerfile_names_its_python_once_for_both_stages() -> None:
    text = (CHECKOUT / "Dockerfile").read_text()

    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert re.findall(r"^ARG BASE=python:(\S+?)-", text, re.MULTILINE) == ["${PYTHON}"]
    assert re.findall(r"3\.[0-9]+", text) == [image_python()]
