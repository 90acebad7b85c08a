"""The command as a fixture, with its answers parsed."""

import json
from typing import Any

import pytest

from sidecar.commands.capacity.capacity_command import main
from tests.commands.capacity.asked import Run


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command with --output=json, and return its answers by topic."""

    def ask(*flags: str, rc: int = 0, **seams: Any) -> dict[str, Any]:
        assert main([*flags, "--output=json"], **seams) == rc
        return {answer["topic"]: answer for answer in json.loads(capsys.readouterr().out)["answers"]}

    return ask
