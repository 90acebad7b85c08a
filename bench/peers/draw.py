"""The picture of a run: CPU per event and per request of each proxy, as bars with the spread of the rounds. Pure: SVG as text.

Colours are Okabe and Ito's, which colour-blind readers can tell apart, and differ in lightness, so that they do in print.
"""

from collections.abc import Mapping, Sequence
from html import escape

from bench.peers.table import Column, Results, ratios, spread


SIDECAR, BASE, OTHER = "#0072B2", "#E69F00", "#B0B0B0"
LEFT, WIDTH, BAR, GAP, HEAD = 290, 430, 20, 8, 34
RIGHT = 210


def colour(row: str, base: str) -> str:
    if row.startswith(("sidecar", "pure", "beside")):
        return SIDECAR
    return BASE if row == base else OTHER


def picture(results: Results, rows: Mapping[str, str], columns: Sequence[Column], base: str) -> str:
    """One panel for each column that was measured; text states what a bar shows, so that none has to be measured by eye."""
    parts, top = [], 0
    for column in columns:
        found = {row: list(results.values(row, column.key).values()) for row in rows}
        shown = {row: spread(values) for row, values in found.items() if values and row != "direct"}
        if not shown:
            continue
        most = max(each.highest for each in shown.values())
        parts.append(f'<text x="0" y="{top + 20}" font-weight="bold">{escape(column.title)}</text>')
        top += HEAD
        for row, each in shown.items():
            middle, scale = top + BAR / 2, WIDTH / most
            compared = ratios(results.values(row, column.key), results.values(base, column.key))
            words = f"{each.median:.{column.digits}f}"
            words += f", x {spread(compared).median:.2f}" if compared and row != base else ""
            low, high = LEFT + each.lowest * scale, LEFT + each.highest * scale
            parts += [
                f'<text x="{LEFT - 8}" y="{middle + 4}" text-anchor="end">{escape(rows[row])}</text>',
                f'<rect x="{LEFT}" y="{top}" width="{each.median * scale:.1f}" height="{BAR}" fill="{colour(row, base)}"/>',
                f'<path d="M{low:.1f} {middle}H{high:.1f}" stroke="#000" stroke-width="1.5"/>',
                f'<text x="{max(high, LEFT + each.median * scale) + 8:.1f}" y="{middle + 4}">{words}</text>',
            ]
            top += BAR + GAP
        top += GAP
    size = f'width="{LEFT + WIDTH + RIGHT}" height="{top}" viewBox="0 0 {LEFT + WIDTH + RIGHT} {top}"'
    note = "bars: median over rounds; lines: lowest to highest round; x: ratio to vllm-router, round by round"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">',
            f"<title>{escape(note)}</title>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            *parts,
            "</svg>\n",
        ]
    )
