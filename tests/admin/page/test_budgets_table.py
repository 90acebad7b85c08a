"""The budgets on the status page: each with limit, use and what happens beyond."""

from sidecar.admin.page.budgets_table import budgets_section
from sidecar.budgets.budgets import Budgets, Kind, limits_of
from sidecar.config.schema import ProxyConfig
from tests.support.page_reader import Reader


def test_each_budget_is_a_row() -> None:
    """Bytes are MiB, all else is a number."""
    budgets = Budgets(limits_of(1 << 30, 4096, ProxyConfig()))
    budgets.held.used, budgets.uploads.exceeded = 3 << 19, 1234

    page = Reader(budgets_section(budgets.rows()))

    assert page.open == []
    words = " ".join(page.text.split())
    assert "refused: 503 no_room_for_head. 1.5 MiB 128.0 MiB 0" in words
    assert "408 made_room; those that the sidecar itself does not read go last. 0" in words
    assert "1,234" in words
    assert all(kind.label.replace("_", " ") in page.text for kind in Kind)


def test_without_budgets_there_is_no_section() -> None:
    assert budgets_section([]) == ""
