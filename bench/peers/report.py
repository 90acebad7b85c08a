"""A run as text: the tables, the bounds and the line that names machine, tree and versions; and its place in docs/evidence.

`--report` writes it between two marks of docs/evidence/performance.md and draws the picture beside that page. Measures nothing.
"""

from collections.abc import Mapping

from bench.checkout import REPOSITORY
from bench.peers import curves, draw, full, scale, verdicts
from bench.peers.parts import TABLES
from bench.peers.table import Column, Results, spread, table


BASE = "vllm-router"
EVIDENCE = REPOSITORY / "docs" / "evidence"
PAGE = EVIDENCE / "performance.md"
ROWS = {"sidecar": "the sidecar", BASE: BASE}
DRAWN = (
    Column("event-300", "CPU per token event, 300 streams, us"),
    Column("request", "CPU per one-token request, us", 0),
)


def body(results: Results, titles: Mapping[str, str]) -> list[str]:
    """All tables that have figures, with the bounds at the end."""
    lines: list[str] = []
    for title, columns in TABLES.items():
        if any(results.values(row, column.key) for row in titles for column in columns):
            shown = {row: words for row, words in titles.items() if row in results.rounds or row in results.reasons}
            lines += [f"**{title}**", "", *table(results, shown, columns, BASE), ""]
    rows = {row: title for row, title in full.SITUATIONS.items() if results.values(row, "as-event-300")}
    if rows:
        lines += ["**The sidecar in other situations**, with ratios to its row without", ""]
        lines += [*table(results, rows, full.SITUATION_COLUMNS, "sidecar"), ""]
    lines += scaling(results)
    lines += drift(results)
    found = verdicts.lines(results)
    return [*lines, "**Bounds**", "", *found, ""] if found else lines


def scaling(results: Results) -> list[str]:
    """The sidecar with more lanes, models and buckets, and the curves over all sizes."""
    lines: list[str] = []
    rows = {row: title for row, title in scale.TITLES.items() if results.values(row, "scale-event")}
    if rows:
        lines += ["**The sidecar with more lanes, models and buckets**, with ratios to the fewest", ""]
        lines += [*table(results, rows, scale.COLUMNS, next(iter(rows))), ""]
    found = curves.lines(results, scale.curves(results), ROWS)
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


def write(results: Results, titles: Mapping[str, str], text: str, command: str) -> None:
    """Into the page, between the marks of this command, and the picture beside it. Raises ValueError without the marks."""
    picture = f"{command.replace(' ', '-')}.svg"
    (EVIDENCE / picture).write_text(draw.picture(results, titles, DRAWN, BASE))
    page = PAGE.read_text()
    before, begin, rest = page.partition(f"<!-- {command}: begin -->\n")
    _, end, after = rest.partition(f"<!-- {command}: end -->")
    if not begin or not end:
        raise ValueError(f"{PAGE} has no marks of `{command}`")
    shown = f"![CPU per event and per request of each proxy]({picture})"
    PAGE.write_text(f"{before}{begin}{shown}\n\n{text}\n{end}{after}")
