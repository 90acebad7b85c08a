"""Markdown tables, and the tables and lists that stand written by a command in a page written by hand.

Knows how a table is spelled and where a section ends. It refuses to know which pages there are and what their tables say.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Block:
    """One table or list written by a command. A page holds it below `heading`, which carries its number signs."""

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
    """The page with `block` in the place of its last version.

    That is the first table of the section whose head begins with the same cell, or the section's first list. Raises ValueError
    where the section has none.
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
