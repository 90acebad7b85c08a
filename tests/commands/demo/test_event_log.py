"""Events are lines of JSON, each whole when it is written, and a file that cannot be made is told with its flag."""

import json
from pathlib import Path

import pytest

from sidecar.commands.demo.event_log import EventLog
from sidecar.commands.demo.processes import DemoError


def test_each_event_stands_there_at_once_with_its_seconds(tmp_path: Path) -> None:
    path, instants = tmp_path / "events", iter([100.0, 103.5, 160.25])
    lines = []
    with EventLog(str(path), lambda: next(instants)) as log:
        for event in ("fault", "heal"):
            log.tell(event, incident="queue")
            lines.append(path.read_text().splitlines()[-1])

    assert [json.loads(line) for line in lines] == [
        {"event": "fault", "seconds": 3.5, "incident": "queue"},
        {"event": "heal", "seconds": 60.25, "incident": "queue"},
    ]


def test_a_file_that_cannot_be_made_is_told_with_its_flag(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=r"--events: .*missing/events: No such file or directory"):
        EventLog(str(tmp_path / "missing" / "events"), lambda: 0.0)
