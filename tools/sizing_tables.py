"""Writes the tables of docs/sizing.md: series from the catalogue, CPU and memory from the last `make bench`.

Knows which rows and columns of docs/evidence/performance.md are read, and which labels a recorded series keeps. It measures nothing, and
rounds only sums.
"""

import re
from math import prod
from pathlib import Path

from sidecar.config.schema import PromptBucketsConfig
from sidecar.metrics.catalogue import OBJECTIVE, ROOT_PHASE, catalogue, series_ceiling, series_in_use
from tests.alert_rules.syntax import recorded, rules
from tools.markdown import Block, table


_BENCH = Path(__file__).parents[1] / "docs/evidence/performance.md"
_ROW = "sidecar, usage asked and cut"
_SCRAPES = 15
"""Seconds between two scrapes, as docs/attach.md shows it."""
_SHAPES = ((1, 1), (3, 1), (3, 3), (5, 3), (10, 3))
"""Lanes and models of a pod, without the fallbacks."""
_PODS = 20
PROCESS_SERIES = 6
"""process_*, as prometheus_client writes them on Linux."""
_TOKENS_PER_SECOND, _REQUESTS_PER_STREAM = 50, 0.1
"""A stream has so many of both: the bench has 50 tokens a second, and an answer of 500 tokens takes ten seconds."""


def blocks() -> tuple[Block, ...]:
    return (Block("## CPU and memory of one pod", _cost()), Block("## Series", _series()))


def _series() -> str:
    # The fallback of each label is a value too: `other` for lanes and models, `unknown` for the prompt buckets.
    buckets = len(PromptBucketsConfig().edges) + 2
    rows = []
    for lanes, models in _SHAPES:
        used, ceiling = (series(lanes + 1, buckets, models + 1) for series in (series_in_use, series_ceiling))
        whole = used * _PODS
        lean = series_in_use(lanes + 1, buckets, models + 1, catalogue(profile="lean")) + PROCESS_SERIES
        numbers = (used, ceiling, whole, whole // _SCRAPES, lean, *recorded_series(lanes, models))
        rows.append((f"{lanes}", f"{models}", *(f"{number:,}" for number in numbers)))
    head = (
        "lanes",
        "models",
        "series of a pod in full use",
        "ceiling",
        f"{_PODS} pods in full use",
        "samples a second",
        "lean: series of a pod",
        "recorded of a pod",
        "recorded of a fleet",
    )
    return table(head, rows)


def recorded_series(lanes: int, models: int) -> tuple[int, int]:
    """The most series that the recording rules make for each pod, and for the fleet of one job, whatever its pods."""
    values = {"lane": lanes, "model": models, "objective": len(OBJECTIVE.values), "phase": len(ROOT_PHASE.values)}
    values["of"] = 3  # misses, requests, allowed misses
    pod = fleet = 0
    for rule in rules():
        if rule.is_record:
            labels = recorded()[rule.name]
            series = prod(values.get(label, 1) for label in labels)
            pod, fleet = (pod + series, fleet) if "pod" in labels else (pod, fleet + series)
    return pod, fleet


def _cost() -> str:
    rows = [
        (
            f"{streams} streams",
            f"{streams * _TOKENS_PER_SECOND:,}",
            f"{streams * _REQUESTS_PER_STREAM:.0f}",
            f"{cores:.2f}",
            f"{memory:.0f} MB" if memory is not None else "-",
        )
        for streams, (cores, memory) in costs().items()
    ]
    return table(("load", "token events a second", "requests a second", "cores", "memory"), rows)


def costs() -> dict[int, tuple[float, float | None]]:
    """Streams at once to cores and resident memory in MB, None where it was not measured, of the compiled sidecar."""
    row = _bench_row(_BENCH.read_text("utf-8"))
    found: dict[int, tuple[float, float | None]] = {}
    for streams, event, memory in ((0, "0", row[7]), (100, row[1], ""), (300, row[2], row[8])):
        requests = streams * _REQUESTS_PER_STREAM
        busy = (streams * _TOKENS_PER_SECOND * _figure(event) + requests * _figure(row[5])) / 1e6
        found[streams] = busy, _figure(memory) if memory else None
    return found


def _bench_row(page: str) -> list[str]:
    """The cells of the compiled sidecar in the first table of `make bench`. Raises ValueError if the page has none."""
    found = re.search(rf"make bench: begin.*?^\| ({_ROW} [^\n]*) \|$", page, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"{_BENCH.name} has no row {_ROW!r} below `make bench: begin`")
    return [cell.strip() for cell in found[1].split("|")]


def _figure(cell: str) -> float:
    """The number with which a cell begins: the median."""
    return float(cell.split(maxsplit=1)[0].rstrip(","))
