"""The check of `make bench` in `make thorough` fails on a cost that is far above its bound."""

from pathlib import Path
from typing import cast

import pytest

from bench.peers import __main__ as command
from bench.peers.bench import Bench
from bench.peers.check import CHECKED
from bench.peers.measure import Generator
from bench.peers.parts import Plan
from bench.peers.table import Results
from bench.peers.verdicts import ROUTER


@pytest.mark.parametrize(("times", "code"), [(1.4, 0), (1.6, 1)])
def test_an_event_that_costs_half_more_than_its_bound_ends_the_command_with_one(
    times: float, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bound is what the router takes."""

    def played(bench: Bench, _parts: object, _plan: object) -> None:
        for bound in CHECKED:
            bench.results.add(ROUTER, bound.column, 0, 10.0)
            bench.results.add(bound.row, bound.column, 0, 10.0 * times)

    monkeypatch.setattr(command, "played", played)
    bench = Bench(cast("Generator", None), Results(), Path())

    assert command.checked(bench, (), Plan(1, 1.0, ())) == code
