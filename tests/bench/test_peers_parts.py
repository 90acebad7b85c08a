"""The parts of `make bench-full`, without a proxy and without a load: each figure that a part takes has its column in a table."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

import pytest

from bench.peers import full, proxies, report, scale
from bench.peers.bench import Bench
from bench.peers.measure import Generator, Window
from bench.peers.parts import TABLES, Plan
from bench.peers.proxies import Proxy, Running
from bench.peers.table import Results


QUANTILES = {"count": 9, "p50": 1_000_000, "p99": 2_000_000, "max": 3_000_000}
SAID: dict[str, object] = {
    "window_ns": 10**9,
    "busy_ns": 10**8,
    "tokens": 1000,
    "requests": 100,
    "added_ns": QUANTILES,
    "first_token_ns": QUANTILES,
    "to_first_byte_ns": QUANTILES,
    "to_last_byte_ns": QUANTILES,
}
CARRIED = 300
"""Streams that the imagined proxy carries within 10 ms."""


class Load:
    """Answers each window at once; too many streams are late, and `noisy` windows have a busy machine beside them."""

    port = 1

    def __init__(self) -> None:
        self.noisy = 0
        self.played: list[tuple[str, Mapping[str, int]]] = []

    def play(self, mode: str, proxy: Running, options: Mapping[str, int]) -> Window:  # noqa: ARG002  the interface
        self.played.append((mode, options))
        late = {"added_ns": QUANTILES | {"p99": 20_000_000}} if options.get("cut") and options["n"] > CARRIED else {}
        self.noisy -= 1
        return Window(SAID | late, 0.01, 70.0, 0.5 if self.noisy >= 0 else 0.0)


@contextmanager
def imagined(engine_port: int, folder: Path, **_: object) -> Iterator[Running]:
    del engine_port, folder
    yield Running(1, os.getpid(), "1.0", start_seconds=0.3)


def bench_of(load: Load, folder: Path, stack: ExitStack, *keys: str) -> Bench:
    bench = Bench(cast("Generator", load), Results(), folder)
    bench.start([Proxy(key, key, imagined) for key in keys], stack)
    return bench


def test_every_column_is_filled_and_nothing_is_measured_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.peers.full.time.sleep", lambda _: None)
    monkeypatch.setattr(full, "MINUTE_SECONDS", 0.0)
    monkeypatch.setattr(proxies, "sidecar", imagined)
    keys = ("direct", "litellm", "vllm-router", "sidecar-silent", "sidecar")
    plan = Plan(2, 3.0, full.STREAMS, 2.0, full=True)
    with ExitStack() as stack:
        bench = bench_of(Load(), tmp_path, stack, *keys)
        for part in full.parts([Proxy(key, key, imagined) for key in keys]):
            part.play(bench, plan)

    columns = {
        column.key for columns in (*TABLES.values(), full.SITUATION_COLUMNS, scale.COLUMNS) for column in columns
    }
    taken = {column for found in bench.results.rounds.values() for column in found}
    of_no_table = {"long-event", "long-request", "long-resident", "p50-1", "p50-10", "p50-30", "p50-100", "p50-1000"}
    of_no_table |= {"ttft-request-short", "ttft-request-whole", "as-busy", "as-resident-300", "as-ttft-request"}
    of_a_page = {"series", "scale-series", "scale-used", "scale-first", "scale-scrape", "scale-page"}
    assert (columns - taken - of_a_page, taken - columns - of_no_table) == (set(), set())
    assert bench.results.reasons == {}
    assert bench.results.values("sidecar", "rate") == {0: 1000.0}
    titles = {key: key for key in keys}
    text = "\n".join(report.body(bench.results, titles))
    assert ("2 minutes of varied traffic" in text, "| RSS at rest, MB |" in text) == (True, True)
    page = "\n".join(report.evidence(bench.results, titles))
    in_full = [f"**{title}**" for title in report.TABLES_IN_FULL] + [
        f"| {row} |" for row in ("direct", "sidecar-silent")
    ]
    assert [(words in text, words in page) for words in in_full] == [(True, False)] * len(in_full)
    assert [words for words in ("**CPU per prompt, us**", "| sidecar |", "**Bounds**") if words not in page] == []
