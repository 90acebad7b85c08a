"""A run as text: the tables, the bounds and the line that names machine, tree and versions; and its place in docs/evidence.

`--report` writes the shorter form between two marks of docs/evidence/performance.md, and draws the picture
beside that page. Measures nothing.
"""

from collections.abc import Mapping, Sequence

from bench.checkout import REPOSITORY
from bench.peers import curves, draw, full, scale, verdicts
from bench.peers.parts import MEASURES_NO_USAGE, TABLES
from bench.peers.table import Column, Results, spread, table


BASE = "vllm-router"
EVIDENCE = REPOSITORY / "docs" / "evidence"
PAGE = EVIDENCE / "performance.md"
ROWS = {"sidecar": "the sidecar", BASE: BASE}
ROWS_IN_FULL = ("direct", *MEASURES_NO_USAGE)
TABLES_IN_FULL = (
    "Added to a token by streams, p99, us",
    "From the client's first byte to the engine's first byte of a prompt, us",
    "... and to the engine's last byte, us",
    "The most",
)
"""The terminal has them and the page does not: a check of the load, rows that differ from their neighbour by the usage chunk, whose
cost is among the bounds, and figures of which the bounds and the curves over sizes have those that are judged."""
CURVE_SIZES = 3
"""A curve on the page has so many sizes at least: the two of `make bench` are columns of its first table."""
DRAWN = (
    Column("event-300", "CPU per token event, 300 streams, us"),
    Column("request", "CPU per one-token request, us", 0),
)


def body(results: Results, titles: Mapping[str, str]) -> list[str]:
    """All tables that have figures, with the bounds at the end."""
    return _text(results, titles, TABLES, 2)


def evidence(results: Results, titles: Mapping[str, str]) -> list[str]:
    """The shorter form of them, for the page."""
    shown = {row: words for row, words in titles.items() if row not in ROWS_IN_FULL}
    tables = {title: columns for title, columns in TABLES.items() if title not in TABLES_IN_FULL}
    return _text(results, shown, tables, CURVE_SIZES)


def _text(
    results: Results, titles: Mapping[str, str], tables: Mapping[str, Sequence[Column]], curve_sizes: int
) -> list[str]:
    lines: list[str] = []
    for title, columns in tables.items():
        if any(results.values(row, column.key) for row in titles for column in columns):
            shown = {row: words for row, words in titles.items() if row in results.rounds or row in results.reasons}
            lines += [f"**{title}**", "", *table(results, shown, columns, BASE), ""]
    rows = {row: title for row, title in full.SITUATIONS.items() if results.values(row, "as-event-300")}
    if rows:
        lines += ["**The sidecar in other situations**, with ratios to its row without", ""]
        lines += [*table(results, rows, full.SITUATION_COLUMNS, "sidecar"), ""]
    lines += scaling(results, curve_sizes)
    lines += drift(results)
    found = verdicts.lines(results)
    return [*lines, "**Bounds**", "", *found, ""] if found else lines


def scaling(results: Results, curve_sizes: int) -> list[str]:
    """The sidecar with more lanes, models and buckets, and the curves over at least so many sizes."""
    lines: list[str] = []
    rows = {row: title for row, title in scale.TITLES.items() if results.values(row, "scale-event")}
    if rows:
        lines += ["**The sidecar with more lanes, models and buckets**, with ratios to the fewest", ""]
        lines += [*table(results, rows, scale.COLUMNS, next(iter(rows))), ""]
    found = curves.lines(results, scale.curves(results), ROWS, curve_sizes)
    if found:
        lines += ["**How it scales.** Exponent 0: the same at every size; 1: in proportion to it", "", *found, ""]
    return lines


def drift(results: Results) -> list[str]:
    """The first minute of varied traffic, the last one, and all between."""
    lines = []
    for column, words in (
        ("long-event", "CPU per event, us"),
        ("long-request", "CPU per request, us"),
        ("long-resident", "RSS, MB"),
    ):
        found = results.values(full.MINUTES, column)
        if len(found) > 1:
            first, last = found[min(found)], found[max(found)]
            lines.append(
                f"| {words} | {first:.1f} | {last:.1f} | {last / first:.2f} | {spread(list(found.values())).text(1)} |"
            )
    if not lines:
        return []
    head = ["| figure | first minute | last minute | ratio | all minutes |", "|---|---|---|---|---|"]
    return [
        f"**{max(results.values(full.MINUTES, 'long-event'), default=0) + 1} minutes of varied traffic**",
        "",
        *head,
        *lines,
        "",
    ]


def write(results: Results, titles: Mapping[str, str], summary: str, command: str) -> None:
    """Into the page, between the marks of this command, and the picture beside it. Raises ValueError without the marks."""
    text = "\n".join([*evidence(results, titles), summary])
    picture = f"{command.replace(' ', '-')}.svg"
    (EVIDENCE / picture).write_text(draw.picture(results, titles, DRAWN, BASE))
    page = PAGE.read_text()
    before, begin, rest = page.partition(f"<!-- {command}: begin -->\n")
    _, end, after = rest.partition(f"<!-- {command}: end -->")
    if not begin or not end:
        raise ValueError(f"{PAGE} has no marks of `{command}`")
    shown = f"![CPU per event and per request of each proxy]({picture})"
    PAGE.write_text(f"{before}{begin}{shown}\n\n{text}\n{end}{after}")
