"""The bench of two wheels: its interval holds the ratio, and its sides take turns on sidecars of their own."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import cast

import pytest

from bench import two_wheels
from bench.checkout import REPOSITORY
from bench.peers.measure import FailedError, Generator, Window
from bench.peers.proxies import Running
from bench.two_wheels import FIGURES, LIMITS, NEW, OLD, measured, options, ratio_of, record_of


def rounds(ratio: float, noise: float, count: int, seed: int = 1) -> list[tuple[float, float]]:
    """Rounds of a bench on a machine whose pace changes by half, with so much noise of the ratio."""
    drawn = Random(seed)
    paces = [drawn.uniform(300, 450) for _ in range(count)]
    return [(pace, pace * ratio * drawn.gauss(1, noise)) for pace in paces]


def test_the_interval_holds_the_ratio_in_nineteen_of_twenty_benches() -> None:
    held = sum(
        found.low <= 1.2 <= found.high for found in (ratio_of(rounds(1.2, 0.03, 12, seed)) for seed in range(400))
    )
    assert 0.93 <= held / 400 <= 0.97


class Load:
    """An engine and load that say at once what a window costs: 300 us, and `more` times as much on the second port."""

    port, pid = 1, 1

    def __init__(self, more: float) -> None:
        self._more = more
        self.played: list[tuple[str, int, int]] = []
        self.failing = 0

    def play(self, mode: str, proxy: Running, given: Mapping[str, int]) -> Window:
        self.played.append((mode, proxy.port, given.get("one_id", 0)))
        if self.failing:
            self.failing -= 1
            raise FailedError("300 errors, the first: closed within an answer")
        cost = 0.3 * (self._more if proxy.port == 2 or given.get("one_id") else 1.0)
        return Window({"requests": 1000, "tokens": 1000}, cost, 60.0, 0.0, cost / 3)

    def close(self) -> None:
        pass


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Load:
    load = Load(1.2)

    @contextmanager
    def sidecar(_port: int, folder: Path, *, usage: bool, tree: Path) -> Iterator[Running]:
        assert folder.is_dir()
        yield Running(2 if tree == REPOSITORY and usage else 1, os.getpid(), start_seconds=0.5)

    monkeypatch.setattr(two_wheels, "sidecar", sidecar)
    monkeypatch.setattr(two_wheels, "generator", Path)
    monkeypatch.setattr(two_wheels, "Generator", lambda _: cast("Generator", load))
    return load


TREES = {OLD: Path("/earlier"), NEW: REPOSITORY}


def test_each_figure_has_fresh_sidecars_and_the_sides_take_turns(bench: Load) -> None:
    """Windows of A B B A and B A A B: each side has as many before the other as behind it, in every round."""
    found = record_of(measured(FIGURES, TREES, options().parse_args(["--rounds=6"])))
    assert {name: each["estimate"] for name, each in found.items() if name in LIMITS} == pytest.approx(
        dict.fromkeys(LIMITS, 1.2)
    )
    assert {each["verdict"] for name, each in found.items() if name in LIMITS} == {"MISSED"}
    assert found["event, us in the kernel"]["second"] == pytest.approx(120)
    events = [port for mode, port, _ in bench.played if mode == "streams"]
    assert (events[:8], events[8:16]) == ([1, 2, 2, 1, 2, 1, 1, 2], [2, 1, 1, 2, 1, 2, 2, 1])
    one_id = [each for mode, port, each in bench.played[-18:] if (mode, port) == ("requests", 1)]
    assert (len(one_id), sum(one_id)) == (18, 9)
