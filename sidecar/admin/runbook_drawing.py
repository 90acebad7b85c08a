"""Draws a runbook: Markdown becomes parts once, and the parts become a page with labels, answers and one engine's column.

The parts of a runbook are HTML, queries and tables. Making them takes milliseconds and depends on nothing but the file;
filling them in is cheap, so nothing is kept that depends on a link. It refuses to know where labels, answers and the present
cause come from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from sidecar.admin.page.html import items, prose
from sidecar.admin.runbook_labels import filled
from sidecar.diagnosis.confirming import Answer
from sidecar.diagnosis.interventions import ENGINES
from sidecar.engines.kinds import KINDS
from sidecar.history.slices import Sliced


if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


INDEX = "README"
"""Name of the file that is the index and no runbook."""
DETAILS = "Details"
"""The heading from which on a runbook is folded: above it stands what a person on call reads first."""
_COLUMN_OF = {KINDS[engine].short_title: engine for engine in ENGINES}


@dataclass(frozen=True, slots=True)
class Query:
    html: str
    check: str
    """The name of its check; empty if none answers it."""


@dataclass(frozen=True, slots=True)
class Table:
    heads: tuple[str, ...]
    """Plain text."""
    rows: tuple[tuple[str, ...], ...]
    """Cells as HTML."""
    texts: tuple[tuple[str, ...], ...]
    """Cells as Markdown."""


Part = str | Query | Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The values that fill a runbook in."""

    values: Mapping[str, str]
    """Label to its value."""
    answers: Mapping[str, Answer]
    """Check to its answer."""
    engines: tuple[str, ...] = ENGINES
    """The engines whose columns are shown."""
    about_engines: str = ""
    """HTML: the sentence about them, above a table that has such columns."""
    cause: str = ""
    """The present cause; empty if it is not known."""
    phase: str = ""


def parts(text: str) -> tuple[Part, ...]:
    """The parts of a runbook, in order. Links between runbooks lead to pages."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  1 MB, and few processes are ever asked for a runbook

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    for token in tokens:
        for child in token.children or ():
            _lead_to_a_page(child)
    found: list[Part] = []
    begun = 0
    for number, token in enumerate(tokens):
        info = token.info.split() if token.type == "fence" else []
        if info[:1] == ["promql"]:
            query = Query(f"<pre><code>{escape(token.content)}</code></pre>", "".join(info[1:]))
            found += [_html(markdown, tokens[begun:number]), query]
            begun = number + 1
        elif token.type == "table_open":
            found.append(_html(markdown, tokens[begun:number]))
            begun = number
        elif token.type == "table_close":
            found.append(_table(markdown, tokens[begun : number + 1]))
            begun = number + 1
    found.append(_html(markdown, tokens[begun:]))
    return tuple(found)


def _html(markdown: "MarkdownIt", tokens: Sequence["Token"]) -> str:
    html: str = markdown.renderer.render(tokens, markdown.options, {})
    return html


def _table(markdown: "MarkdownIt", tokens: Sequence["Token"]) -> Table:
    rows: list[list[Token]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(token)
    head, *body = rows
    return Table(
        tuple(cell.content for cell in head),
        tuple(tuple(_html(markdown, [cell]) for cell in row) for row in body),
        tuple(tuple(cell.content for cell in row) for row in body),
    )


def _lead_to_a_page(token: "Token") -> None:
    href = token.attrs.get("href")
    if isinstance(href, str) and href.endswith(".md") and "/" not in href:
        name = href.removesuffix(".md")
        token.attrs["href"] = f"/runbooks/{name if name != INDEX else ''}"


def drawn(of: Sequence[Part], shown: Shown) -> Sliced[str]:
    """The HTML of a runbook."""
    html = []
    for part in of:
        yield
        if isinstance(part, Query):
            html.append(filled(part.html, shown.values) + _answer(part.check, shown.answers))
        elif isinstance(part, Table):
            html.append(_rows(part, shown))
        else:
            html.append(part)
    first, mark, rest = "".join(html).partition(f"<h2>{DETAILS}</h2>")
    return f'{first}<details class="card" id="details"><summary>{DETAILS}</summary>{rest}</details>' if mark else first


def _answer(check: str, answers: Mapping[str, Answer]) -> str:
    answer = answers.get(check)
    if answer is None:
        return '<div class="answer"><p>This pod cannot answer it: only Prometheus knows.</p></div>'
    lines = [prose(line) for line in answer.lines]
    if len(lines) == 1:
        return f'<div class="answer"><p>This pod now: <strong>{lines[0]}</strong></p></div>'
    return f'<div class="answer"><p>This pod now:</p>{items(lines)}</div>'


# --- tables --------------------------------------------------------------------------------------------------------------


def _rows(table: Table, shown: Shown) -> str:
    kept = [n for n, head in enumerate(table.heads) if _COLUMN_OF.get(head) in {None, *shown.engines}]
    about = f'<p class="quiet">{shown.about_engines}</p>' if _COLUMN_OF.keys() & {*table.heads} else ""
    marks = [_mark(table.heads, texts, shown) for texts in table.texts]
    order = sorted(range(len(table.rows)), key=lambda row: not marks[row])
    heads = "".join(f'<th scope="col">{escape(table.heads[n])}</th>' for n in kept)
    body = "".join(_row(table, row, kept, marks[row]) for row in order)
    return f"{about}<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _row(table: Table, row: int, kept: Sequence[int], mark: str) -> str:
    said = f'<strong class="now">{escape(mark)}</strong> ' if mark else ""
    # The head stands in each cell, because on a phone a row is a list: one cell below the other.
    cells = "".join(
        f'<td data-head="{escape(table.heads[n])}"><div>{said if n == kept[0] else ""}{table.rows[row][n]}</div></td>'
        for n in kept
    )
    return f"<tr{' class=present' if mark else ''}>{cells}</tr>"


def _mark(heads: Sequence[str], texts: Sequence[str], shown: Shown) -> str:
    """Words for a row that is about the present cause; empty for any other."""
    if heads[0] == "cause" and shown.cause and texts[0] == f"`{shown.cause}`":
        return "The present cause:"
    if heads[0] == "phase" and shown.phase and texts[0] == f"`{shown.phase}`":
        return "The present phase:"
    if "targets" in heads:
        targets = texts[heads.index("targets")].split(", ")
        for of in (shown.cause, shown.phase):
            if of and of in targets:
                return f"For {of}, as now:"
    return ""
