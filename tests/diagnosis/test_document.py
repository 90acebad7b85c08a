"""The JSON document, which programs of users read, and the page that explains it."""

import re
from pathlib import Path

import pytest

from sidecar.accounts.slowest import Slowest, SlowestRequests
from sidecar.cli import main
from sidecar.diagnosis.document import document
from sidecar.diagnosis.measured import Latency
from sidecar.diagnosis.tree import diagnose
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from tests.support.measured import live, verdict


DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "diagnosis.md").read_text()
SLOWEST_PAGE = (DOCS / "slowest.md").read_text()


def keys_of(row: str) -> set[str]:
    """The words in backticks in one cell, without those in parentheses."""
    return set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", row)))


def test_the_page_explains_every_key_and_no_other() -> None:
    (found,) = document([diagnose(live(verdict(Blame.QUEUE), inter_token=Latency(p99_seconds=0.2, samples=500)))])[
        "diagnoses"
    ]
    rows = dict(re.findall(r"^\| (`[^|]+) \| (.+) \|$", PAGE, re.MULTILINE))
    explained = set().union(*map(keys_of, rows))
    inner = {name: cell for names, cell in rows.items() for name in keys_of(names)}

    assert explained == found.keys()
    assert keys_of(inner["inter_token"]) == found["inter_token"].keys()
    assert keys_of(inner["second"]) == found["second"].keys()
    assert keys_of(inner["measured"]) == found["measured"].keys()
    assert keys_of(inner["steps"]) == found["steps"][0].keys()
    assert keys_of(inner["not_to_do"]) == found["not_to_do"][0].keys()


def test_the_page_of_the_slowest_explains_every_key_and_no_other() -> None:
    found = document([], (), SlowestRequests(1.0, 1, (Slowest("chat", Objective.TTFT, 1),)))["slowest"]

    explained = set().union(
        *map(keys_of, re.findall(r"^\| (`[^|]+) \|", SLOWEST_PAGE.split("## The requests")[0], re.MULTILINE))
    )

    assert explained == {*found, *found["of"][0]}


def test_the_answer_on_the_page_is_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """The command of the page prints the text of the page, word for word."""
    command = next(line for line in PAGE.splitlines() if line.startswith("sidecar diagnose --ttft-p99"))
    shown = re.search(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert shown is not None

    assert main(command.split()[1:]) == 0
    assert capsys.readouterr().out == shown[1]
