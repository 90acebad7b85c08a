"""A Prometheus of its own for benches and tests: series are written to it, and it evaluates shipped rules often.

Series go through Prometheus' remote-write receiver. Groups are evaluated every 3 s instead of every 5 to 60 s, only so that some
evaluations take little time; windows and expressions are as shipped. It refuses to know what rules and series mean.
"""

import json
import re
import struct
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.alert_rules.syntax import FILES, FOLDER
from tests.support.ports import free_port
from tests.support.tools import need_newer, need_tool


SCRAPE_SECONDS, EVALUATE_SECONDS = 15, 3


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def field(number: int, body: bytes) -> bytes:
    """A field of bytes, with its number and length."""
    return bytes((number << 3 | 2,)) + varint(len(body)) + body


def encoded(labels: dict[str, str]) -> bytes:
    """The labels of a TimeSeries message, sorted as Prometheus wants them."""
    return b"".join(
        field(1, field(1, name.encode()) + field(2, value.encode())) for name, value in sorted(labels.items())
    )


def sample(value: float, at_ms: int) -> bytes:
    """One sample of a TimeSeries message."""
    return field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + varint(at_ms))


def uncompressed(body: bytes) -> bytes:
    """In Snappy's format, without compression."""
    parts = [varint(len(body))]
    for at in range(0, len(body), 65_536):
        piece = body[at : at + 65_536]
        parts.append(b"\xf4" + struct.pack("<H", len(piece) - 1) + piece)
    return b"".join(parts)


def send(url: str, body: bytes) -> None:
    """A WriteRequest, to Prometheus' receiver."""
    headers = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
    request = urllib.request.Request(f"{url}/api/v1/write", data=uncompressed(body), headers=headers)
    urllib.request.urlopen(request, timeout=60).close()


# --- Prometheus ------------------------------------------------------------------------------------------------------------


@contextmanager
def prometheus(folder: Path, files: Sequence[str] = FILES, *, newer: bool = False) -> Iterator[str]:
    """A server that evaluates shipped rules often, takes remote writes and scrapes nothing. `newer`: a 3.x, not the one installed.

    `files`: of `alert_rules/`.
    """
    for name in files:
        text = (FOLDER / name).read_text()
        (folder / name).write_text(re.sub(r"(?m)^(    interval: )\d+s$", rf"\g<1>{EVALUATE_SECONDS}s", text))
    (folder / "prometheus.yml").write_text(f"rule_files: {json.dumps(list(files))}\n")
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        *(
            str((need_newer if newer else need_tool)("prometheus")),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
        ),
        *(
            f"--web.listen-address={url.removeprefix('http://')}",
            "--web.enable-remote-write-receiver",
            "--web.enable-lifecycle",
            "--enable-feature=native-histograms",
            "--log.level=error",
        ),
    ]
    process = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{url}/-/ready", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait(10)


def evaluate_alone(url: str, folder: Path, group: Mapping[str, Any]) -> None:
    """Have the server of this folder evaluate one group of a rule file and nothing else, every EVALUATE_SECONDS."""
    (folder / "alone.yml").write_text(json.dumps({"groups": [{**group, "interval": f"{EVALUATE_SECONDS}s"}]}))
    (folder / "prometheus.yml").write_text('rule_files: ["alone.yml"]\n')
    urllib.request.urlopen(f"{url}/-/reload", data=b"", timeout=30).close()


class Durations(NamedTuple):
    """Seconds of one evaluation."""

    groups: dict[str, float]
    rules: dict[str, float]


def durations(url: str) -> Durations:
    """Read the seconds of the last evaluation."""
    with urllib.request.urlopen(f"{url}/api/v1/rules", timeout=30) as answer:
        groups = json.load(answer)["data"]["groups"]
    rules = {
        f"{rule['name']} {' '.join(rule.get('labels', {}).values())}".rstrip(): float(rule["evaluationTime"])
        for group in groups
        for rule in group["rules"]
    }
    return Durations({group["name"]: float(group["evaluationTime"]) for group in groups}, rules)
