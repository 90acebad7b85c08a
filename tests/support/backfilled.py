"""A real Prometheus that serves series of the past: written as text, made into blocks by promtool, and asked over HTTP.

Knows the two programs and how a child of the registry becomes samples. It refuses to know which series a test writes.
"""

import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sidecar.metrics.children import GaugeChild, HistogramChild
from tests.support.ports import free_port
from tests.support.tools import need_tool


def samples_of(child: Any) -> Iterator[tuple[str, dict[str, str], float]]:
    """Suffix of the name, further labels, and value of each sample; none of a gauge without a value."""
    if isinstance(child, HistogramChild):
        total = 0
        for edge, count in zip((*child.bounds, float("inf")), child.counts, strict=True):
            total += count
            yield "_bucket", {"le": "+Inf" if edge == float("inf") else f"{edge:g}"}, total
        yield "_sum", {}, child.sum
        yield "_count", {}, child.count
    elif not (isinstance(child, GaugeChild) and child.value is None):
        yield "", {}, child.value


def sample_line(name: str, labels: Mapping[str, str], value: float, at_unix: float) -> str:
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value} {at_unix:.3f}"


@contextmanager
def backfilled(folder: Path, lines: Iterable[str], *flags: str) -> Iterator[str]:
    """The URL of a Prometheus that holds these samples, for the length of a `with` block. `flags`: further ones of Prometheus."""
    (folder / "past.txt").write_text("\n".join((*lines, "# EOF", "")))
    (folder / "prometheus.yml").write_text("{}")
    promtool = str(need_tool("promtool"))
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(folder / "past.txt"), str(folder / "data")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    port = free_port()
    arguments = [
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        *flags,
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([str(need_tool("prometheus")), *arguments], stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"{url}/-/ready", timeout=1) as answer:
                    if answer.status == 200:
                        break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail((folder / "log").read_text())
        yield url
    finally:
        process.terminate()
        process.wait(30)
