"""Seconds that a real Prometheus takes to evaluate all rule groups once, for a large fleet of synthetic series.

The series that recorded rules read are made for every pod and written through Prometheus' remote-write receiver: some minutes of
history at once, then one sample each 15 s. All objectives miss now and then, so that nothing is empty. Groups are evaluated
every 3 s instead of every 5 to 30 s, only so that 20 evaluations take a minute; windows and expressions are as shipped. Reported is
the median, over so many evaluations, of the sum of all groups' last durations. Alerts about engines and the sidecar itself are
loaded, and find no series. It refuses to know what the rules mean. Run: `.venv/bin/python -m bench.rules_cost`; `--pods 200`,
`--lanes 10`, `--evaluations 20`.
"""

import argparse
import json
import re
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from sidecar.objectives.attribution import VOTES
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import ROOT_PHASES, ROOTS
from tests.alert_rules.syntax import FILES, FOLDER
from tests.support.ports import free_port
from tests.support.tools import need_newer, need_tool


SCRAPE_SECONDS, HISTORY_SAMPLES, EVALUATE_SECONDS = 15, 26, 3
BUCKETS = ("0-512", "512-4k", "4k-16k", "16k-64k", "64k+", "unknown")
OBJECTIVES = (Objective.TTFT, Objective.TPOT)
BOUND_SECONDS = 1.0
"""For 200 pods of 10 lanes on two idle cores."""
DEAREST = 12
"""Rules that are printed one by one."""


def series(pods: int, lanes: int) -> Iterator[tuple[dict[str, str], float]]:
    """Labels of each counter that recorded rules read, with its growth a second."""
    for pod in range(pods):
        target = {
            "namespace": "bench",
            "job": "llm",
            "pod": f"llm-{pod}",
            "instance": f"10.0.0.{pod}:9901",
            "model": "llama",
        }
        for lane in range(lanes):
            for objective in OBJECTIVES:
                who = {**target, "lane": f"lane-{lane}", "objective": str(objective)}
                for bucket in BUCKETS:
                    kept = {**who, "prompt_bucket": bucket}
                    yield {"__name__": "llm_slo_requests_total", **kept}, 0.5
                    yield {"__name__": "llm_slo_misses_total", **kept}, 0.02
                    yield {"__name__": "llm_slo_allowed_misses_total", **kept}, 0.025
                for phase in ROOT_PHASES:
                    yield {"__name__": "llm_slo_root_misses_total", **who, "phase": phase}, 0.015
                for vote in VOTES[objective]:
                    yield {"__name__": "llm_slo_blamed_misses_total", **who, "phase": str(vote)}, 0.015
        for phase, cause in ROOTS:
            yield {"__name__": "llm_slo_root_cause_misses_total", **target, "phase": phase, "cause": cause}, 0.1


# --- remote write ----------------------------------------------------------------------------------------------------------


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


def message(some: Iterable[tuple[bytes, float]], at_ms: int) -> bytes:
    """A WriteRequest with one sample per series."""
    return b"".join(field(1, labels + sample(value, at_ms)) for labels, value in some)


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


def write(url: str, some: list[tuple[bytes, float]], seconds: float, at_ms: int) -> None:
    """Each counter as it stands after so many seconds."""
    for at in range(0, len(some), 10_000):
        send(url, message(((labels, rate * seconds) for labels, rate in some[at : at + 10_000]), at_ms))


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


def measured(pods: int, lanes: int, evaluations: int) -> tuple[list[Durations], int]:
    """Durations of so many evaluations, and the number of series."""
    some = [(encoded(labels), rate) for labels, rate in series(pods, lanes)]
    found: list[Durations] = []
    with tempfile.TemporaryDirectory() as name, prometheus(Path(name)) as url:
        now_ms = int(datetime.now(UTC).timestamp() * 1000)  # noqa: TID251  samples carry the time of day
        began_ms, began = now_ms - HISTORY_SAMPLES * SCRAPE_SECONDS * 1000, time.monotonic()
        for step in range(HISTORY_SAMPLES):
            write(url, some, step * SCRAPE_SECONDS, began_ms + step * SCRAPE_SECONDS * 1000)
        step = HISTORY_SAMPLES
        skipped = 3
        while len(found) < evaluations + skipped:
            if time.monotonic() - began >= (step - HISTORY_SAMPLES) * SCRAPE_SECONDS:
                write(url, some, step * SCRAPE_SECONDS, began_ms + step * SCRAPE_SECONDS * 1000)
                step += 1
            time.sleep(EVALUATE_SECONDS)
            found.append(durations(url))
    return found[skipped:], len(some)


def main() -> None:
    """Print the medians of the dearest rules, of each group and of their sum; exit 1 if the sum is above the bound."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.rules_cost", description="Seconds of one evaluation of all rules."
    )
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--lanes", type=int, default=10)
    parser.add_argument("--evaluations", type=int, default=20)
    given = parser.parse_args()
    found, many = measured(given.pods, given.lanes, given.evaluations)
    total = median(sum(one.groups.values()) for one in found)
    rules = {name: median(one.rules[name] for one in found) for name in found[0].rules}
    dearest = sorted(rules, key=rules.__getitem__, reverse=True)[:DEAREST]
    lines = [f"{many} series of {given.pods} pods x {given.lanes} lanes, {len(found)} evaluations, seconds (median)"]
    lines += [f"{rules[name]:.3f}  {name}" for name in dearest]
    lines += [f"{median(one.groups[name] for one in found):.3f}  group {name}" for name in found[0].groups]
    print("\n".join([*lines, f"{total:.3f}  all groups; the bound is {BOUND_SECONDS:g}"]))
    sys.exit(total > BOUND_SECONDS)


if __name__ == "__main__":
    main()
