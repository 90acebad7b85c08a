"""The texts of the runbooks, and their parts: sections and tables."""

import re

import pytest
from markdown_it import MarkdownIt

from sidecar.admin.runbook_drawing import INDEX
from sidecar.admin.runbooks import read


TEXTS = read()
"""Name to text, the index included."""
NAMES = [name for name in TEXTS if name != INDEX]
each_runbook = pytest.mark.parametrize("name", NAMES)


def sections(text: str) -> dict[str, str]:
    """Heading to the text below it."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))


def tables(section: str) -> list[list[list[str]]]:
    """The tables of a section as rows of cells, header row included, read as Markdown reads them."""
    found: list[list[list[str]]] = []
    in_cell = False
    for token in MarkdownIt("commonmark").enable("table").parse(section):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in {"th_open", "td_open", "th_close", "td_close"}:
            in_cell = token.nesting == 1
        elif in_cell:
            found[-1][-1].append(token.content)
    return found


def fenced(text: str) -> list[tuple[str, str]]:
    """The queries of a runbook, each with the name of its check, which is empty if none answers it."""
    return re.findall(r"^```promql ?([\w-]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


CHECKED = [(check, name, query) for name, text in TEXTS.items() for check, query in fenced(text) if check]
"""Check, runbook and query of every query that has a check."""
