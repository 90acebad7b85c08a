"""`python -m tools.house`: what it counts."""

import ast

import pytest

from tools.house import branches, code_lines, figures, request_tables


SOURCE = '''"""A module."""
import re


class Table:
    """A class."""

    def __init__(self) -> None:
        self._open: dict[Hashable, int] = {}
        """A table."""
        self._names: dict[str, int] = {}  # none

    def left(self, key: Hashable) -> int:
        if key in self._open and (key or self):
            return (
                1
            )
        return 0 if key else 1
'''


def test_it_counts_code_branches_and_tables_of_requests() -> None:
    tree = ast.parse(SOURCE)

    assert (code_lines(tree), branches(tree), request_tables(tree)) == (10, 4, ["self._open"])


@pytest.mark.long
def test_it_tells_each_figure_of_this_tree() -> None:
    told = figures()

    assert next(iter(told)) == "lines of sidecar/"
    assert all(value[0].isdigit() for value in told.values())
