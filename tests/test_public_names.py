"""Names that users build on stay: every name that commit b839b8d exposed and no release took away, and every alert, series and receiver of 0.2.0.

Dashboards, alert rules, configs, scripts and log queries of users carry these names. New names may come; each release
adds a line for them to tests/public_names.txt. A line goes only with an entry under "Removed" in CHANGELOG.md, and a flag that goes is told at
its use with what replaces it (`shared_flags.gone`). An info metric may get a label more, which no query notices that
names the labels it wants: its line has changed so.
"""

from pathlib import Path

import pytest

from tests.support.public_names import public_names


RELEASED = Path(__file__).with_name("public_names.txt").read_text().splitlines()


def test_the_record_holds_names_of_every_kind() -> None:
    """Without names of each kind, the test below would prove nothing."""
    kinds = {line.partition(" ")[0] for line in RELEASED}

    assert (kinds, len(RELEASED)) == (
        {"alert", "bucket", "config", "endpoint", "flag", "log", "metric", "receiver", "series", "value"},
        967,
    )


def test_no_released_name_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # otherwise argparse separates a long flag from its help

    assert sorted(set(RELEASED) - set(public_names())) == []
