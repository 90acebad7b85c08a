"""The page's grammar: sections with a heading, tables with scopes, numbers that do not break across lines.

Knows HTML and no number. Cells and bodies come in as HTML; whoever makes them escapes what is not ours.
"""

from collections.abc import Iterable, Sequence
from html import escape
from re import compile as pattern

from sidecar.diagnosis.wording import percent as spelled


_CODE = pattern("`([^`]+)`")


def prose(text: str) -> str:
    """A sentence of ours or of a data file, which marks what is to be typed with backticks."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def section(name: str, title: str, aside: str, body: str, *, phase: str = "") -> str:
    """A part of the page that is swapped as a whole when it is drawn again. `name`: its stable id. `aside`: for the quiet rest."""
    said = f' <span class="quiet">{escape(aside)}</span>' if aside else ""
    first = f' data-phase="{escape(phase)}"' if phase else ""
    return (
        f'<section id="{name}" data-live aria-labelledby="{name}-title"{first}>'
        f'<h2 id="{name}-title">{escape(title)}{said}</h2>{body}</section>'
    )


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table that says what it holds, to who cannot see it. `heads` are text; cells are HTML, the first of a row its name."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    named = f' class="{kind}"' if kind else ""
    return (
        f"<table{named}><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def quiet(text: str) -> str:
    """What is not to be looked at first."""
    return f'<span class="quiet">{escape(text)}</span>'


def plain(text: str) -> str:
    """A sentence where a table or a picture would have been."""
    return f'<p class="plain">{escape(text)}</p>'


def items(texts: Iterable[str], *, ordered: bool = False) -> str:
    """A list of sentences (HTML); nothing where there are none."""
    told = "".join(f"<li>{text}</li>" for text in texts)
    name = "ol" if ordered else "ul"
    return f"<{name}>{told}</{name}>" if told else ""


def percent(ratio: float) -> str:
    """`78 %`, on one line."""
    return spelled(ratio).replace(" ", "\u00a0")


def span(seconds: float) -> str:
    """A time that has passed, for reading: whole seconds, minutes, hours or days."""
    minutes = seconds / 60
    if minutes < 1.95:
        return f"{seconds:.0f}\u00a0s"
    return f"{minutes:.0f}\u00a0min" if minutes < 119.5 else span_of_hours(minutes / 60)


def span_of_hours(hours: float) -> str:
    """Hours or days."""
    return f"{hours:.0f}\u00a0h" if hours < 47.5 else f"{hours / 24:.0f}\u00a0d"
