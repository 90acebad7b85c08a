"""SGLang's exported lines and files, for the tests of their readers."""

import json
from pathlib import Path

from tests.support.fetching import WORDS, Fetching


FIXTURE = (WORDS / "sglang-export.jsonl").read_bytes()
LINES = FIXTURE.splitlines(keepends=True)
OURS = "9b1c4f0e2d7a4c7f8f0a2f6a1f3d5b7c"
THIS_HOUR, NEXT_HOUR = "sglang-request-metrics-20261120_04.log", "sglang-request-metrics-20261120_05.log"


def line(request_id: str = OURS, **more: object) -> bytes:
    return json.dumps({**json.loads(LINES[1]), "id": request_id, **more}).encode() + b"\n"


def fetching(folder: Path) -> Fetching:
    return Fetching("sglang", sglang_metrics_dir=str(folder))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
