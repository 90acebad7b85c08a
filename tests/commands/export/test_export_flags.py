"""The help of `sidecar export` fits a terminal of 80 columns, and says of each flag what it does."""

import re
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.commands.export.export_flags import export_parser, read_parameters
from sidecar.commands.export.parameters import Parameters


def test_every_line_of_the_help_fits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert main(["export", "--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


def test_the_page_has_every_parameter_with_its_default() -> None:
    """docs/export.md, in the table of parameters: each flag once, and no other."""
    page = (Path(__file__).parents[3] / "docs" / "export.md").read_text()
    rows = [row.split(" | ") for row in re.findall(r"^\| (`--.*) \|$", page, re.MULTILINE)]
    told = {flag: row[2:] for row in rows for flag in re.findall(r"--[\w.-]+", row[0])}
    parser = export_parser(("rules",))
    known = {
        action.option_strings[0]: action.default for action in parser._actions if action.dest not in ("what", "help")
    }
    general = {"--out", "--force"}
    stated = {flag: default for flag, default in known.items() if isinstance(default, str) and default}

    assert told.keys() == known.keys() - general
    assert {flag: told[flag] for flag, default in stated.items() if f"`{default}`" not in "".join(told[flag])} == {}


def test_without_flags_the_parameters_are_the_defaults() -> None:
    known = export_parser(("rules",)).parse_args(["rules", "--out=x"])

    assert read_parameters(known) == Parameters()


def test_receivers_are_read_once_each_and_without_spaces() -> None:
    known = export_parser(("rules",)).parse_args(["rules", "--out=x", "--receivers=slack, webhook,slack,"])

    assert read_parameters(known).receivers == ("slack", "webhook")
