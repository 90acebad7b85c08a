"""Names that users build on stay: what commit b839b8d exposed is still exposed, under the same name.

Dashboards, alert rules, configs, scripts and log queries of users carry these names. New ones may come; tests/public_names.txt
gets a line more when one is released, and loses none.
"""

from pathlib import Path

import pytest

from tests.support.public_names import public_names


RELEASED = Path(__file__).with_name("public_names.txt").read_text().splitlines()


def test_the_record_holds_names_of_every_kind() -> None:
    """Or the promise below would be empty."""
    kinds = {line.partition(" ")[0] for line in RELEASED}

    assert (kinds, len(RELEASED)) == ({"bucket", "config", "endpoint", "flag", "log", "metric", "value"}, 871)


def test_no_released_name_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # argparse cuts a long flag from its words otherwise

    assert sorted(set(RELEASED) - set(public_names())) == []
