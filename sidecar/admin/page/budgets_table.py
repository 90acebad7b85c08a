"""The budgets of the process on the status page: limit, use, what found no room, and what happened to it.

Draws the rows of `sidecar/budgets/budgets.py`. It refuses to judge them: a budget that is used up is a fact.
"""

from collections.abc import Sequence
from html import escape

from sidecar.admin.page.html import quiet, section, table
from sidecar.budgets.budgets import Budget


def budgets_section(rows: Sequence[Budget]) -> str:
    """The section; nothing without rows."""
    if not rows:
        return ""
    heads = ["budget, and what happens beyond it", "used", "limit", "found no room"]
    cells = [
        [
            f"{escape(row.kind.label.replace('_', ' '))}<br>{quiet(row.kind.beyond.replace('`', ''))}",
            _amount(row, row.used),
            _amount(row, row.limit),
            f"{row.exceeded:,}",
        ]
        for row in rows
    ]
    body = table("Budgets of this process", heads, cells)
    return section("budgets", "Budgets", "now; found no room: since the start", body, folds=True)


def _amount(row: Budget, amount: int) -> str:
    return f"{amount / (1 << 20):,.1f} MiB" if row.kind.unit == "bytes" else f"{amount:,}"
