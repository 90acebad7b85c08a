"""Writes Markdown tables, and replaces generated tables and lists within pages that are written by hand.

Knows the syntax of a table and where a section ends. It refuses to know the pages and the content of their tables.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Block:
    """One generated table or list. It stands below `heading`, which includes its number signs."""

    heading: str
    text: str


def row(cells: Iterable[str]) -> str:
    """One line of a table. A pipe within a cell is escaped, or it would begin another cell."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table with its head."""
    first = tuple(head)
    return row(first) + "|" + "---|" * len(first) + "\n" + "".join(map(row, rows))


def replaced(page: str, block: Block) -> str:
    """The page with `block` in place of its earlier version.

    The earlier version is the first table of the section with the same first cell in its head, or the first list of the
    section. Raises ValueError if the section has none.
    """
    opening = re.match(r"\| [^|]+\||- ", block.text)
    if opening is None:
        raise ValueError(f"neither a table nor a list: {block.text[:20]!r}")
    line = re.escape(opening[0][0])
    before = rf"^{re.escape(block.heading)}\n(?:(?!## ).*\n)*?"
    pattern = rf"({before}){re.escape(opening[0])}.*\n(?:{line}.*\n)*"
    found, times = re.subn(pattern, lambda match: match[1] + block.text, page, count=1, flags=re.MULTILINE)
    if not times:
        raise ValueError(f"nothing to replace below {block.heading!r}: no line begins with {opening[0]!r}")
    return found
