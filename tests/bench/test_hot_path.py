"""The compiled files are those that an event and a request run through, and the list says how much of them each file is."""

import re
import tomllib
from pathlib import Path

import pytest

from bench.hot_path import of_events, of_requests, shares, totals, totals_in


CHECKOUT = Path(__file__).parents[2]
TEXT = (CHECKOUT / "pyproject.toml").read_text()
STATED = re.compile(r'^    "(sidecar/\S+?\.py)", # ([0-9.]+), ([0-9.]+)', re.MULTILINE)
LEAST_OF_AN_EVENT, LEAST_OF_A_REQUEST = 99.0, 85.0
"""Percent of the instructions of each that run in compiled files, at least: what is left out is spread over forty files."""


@pytest.mark.long
@pytest.mark.reaches_in
def test_the_compiled_files_execute_nearly_all_of_an_event_and_of_a_request() -> None:
    """A change that puts a hot function into a file that is not compiled, or makes a listed file idle, is seen here. The shares in
    the comments are of the day on which the list was drawn: a file may have moved by a third since, or by one percent.
    """
    compiled = tomllib.loads(TEXT)["tool"]["sidecar"]["compiled"]
    stated = {path: (float(event), float(request)) for path, event, request in STATED.findall(TEXT)}
    event, request = shares(of_events()), shares(of_requests())
    moved = {
        path: (said, (event[path], request[path]))
        for path, said in stated.items()
        if any(abs(was - now) > max(1.0, was / 3) for was, now in zip(said, (event[path], request[path]), strict=True))
    }

    assert list(stated) == compiled
    assert moved == {}
    assert sum(event[path] for path in compiled) >= LEAST_OF_AN_EVENT
    assert sum(request[path] for path in compiled) >= LEAST_OF_A_REQUEST


@pytest.mark.long
def test_a_checkout_beside_itself_costs_the_same() -> None:
    assert totals_in(CHECKOUT) == pytest.approx(totals(), rel=0.005)
