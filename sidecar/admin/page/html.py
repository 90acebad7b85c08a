"""HTML building blocks of the page: sections with a heading, tables with scopes, numbers that stay on one line.

Knows HTML, and refuses to know what numbers mean. Cells and bodies come in as HTML; the caller escapes foreign text.
"""

from collections.abc import Iterable, Sequence
from html import escape
from re import compile as pattern

from sidecar.diagnosis.wording import percent as spelled


_CODE = pattern("`([^`]+)`")


def prose(text: str) -> str:
    """A sentence of the code or of a data file as HTML: text in backticks becomes `<code>`."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def section(name: str, title: str, aside: str, body: str, *, phase: str = "", folds: bool = False) -> str:
    """A part of the page that the script replaces as a whole. `name`: its id. `aside`: quiet text after the title. `folds`: the script folds it
    where the screen is small, and its title unfolds it.
    """
    said = f' <span class="quiet">{escape(aside)}</span>' if aside else ""
    first = f' data-phase="{escape(phase)}"' if phase else ""
    head = f'<h2 id="{name}-title">{escape(title)}{said}</h2>'
    if folds:
        drawn = f'<details class="folds" id="{name}-part" open><summary>{head}</summary>{body}</details>'
    else:
        drawn = f"{head}{body}"
    return f'<section id="{name}" data-live aria-labelledby="{name}-title"{first}>{drawn}</section>'


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table with a caption for screen readers. `heads` are text; cells are HTML, and the first cell names its row."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    named = f' class="{kind}"' if kind else ""
    return (
        f"<table{named}><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def quiet(text: str) -> str:
    return f'<span class="quiet">{escape(text)}</span>'


def plain(text: str) -> str:
    """A sentence in place of a table or picture."""
    return f'<p class="plain">{escape(text)}</p>'


def items(texts: Iterable[str], *, ordered: bool = False) -> str:
    """A list of sentences (HTML); empty if there are none."""
    told = "".join(f"<li>{text}</li>" for text in texts)
    name = "ol" if ordered else "ul"
    return f"<{name}>{told}</{name}>" if told else ""


def percent(ratio: float) -> str:
    """`78 %`, on one line."""
    return spelled(ratio).replace(" ", "\u00a0")


def span(seconds: float) -> str:
    """A past duration as text: whole seconds, minutes, hours or days."""
    minutes = seconds / 60
    if minutes < 1.95:
        return f"{seconds:.0f}\u00a0s"
    if minutes < 119.5:
        return f"{minutes:.0f}\u00a0min"
    hours = minutes / 60
    return f"{hours:.0f}\u00a0h" if hours < 47.5 else f"{hours / 24:.0f}\u00a0d"
