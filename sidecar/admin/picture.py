"""The picture: each lane's mean request as one stacked bar, drawn as SVG on the server.

Knows how to draw additive means and nothing else: no quantile ever stands in a stack. All bars share one scale, so
that lanes can be compared; phases too thin to label are named in the table beneath. Every text is escaped.
"""

from html import escape

from sidecar.admin.anatomy import LaneAnatomy
from sidecar.ledger.account import Phase


PHASE_ORDER = tuple(
    phase.value
    for phase in (Phase.QUEUE, Phase.PREFILL, Phase.FIRST_TOKEN, Phase.UNATTRIBUTED, Phase.DECODE, Phase.STREAM)
)
"""In the order in which a request lives through them; unattributed is time before the first token."""

_WIDTH = 1000
_BAR = 34
_ROW = 74


def seconds(value: float) -> str:
    """A duration for reading: three digits that matter, in us, ms, s or min."""
    if value == float("inf"):
        return "∞"
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    if value < 0.9995:
        return f"{_three(value * 1e3)} ms"
    return f"{_three(value)} s" if value < 120 else f"{value / 60:.1f} min"


def bar_title(bar: LaneAnatomy) -> str:
    """A bar's name: lane, and whether its answers were streamed."""
    return bar.lane if bar.streaming else f"{bar.lane}, not streamed"


def picture(bars: tuple[LaneAnatomy, ...]) -> str:
    """All bars under each other, on one scale that ends at the longest."""
    longest = max((bar.mean_seconds for bar in bars), default=0.0) or 1.0
    rows = "".join(_row(bar, index * _ROW, longest) for index, bar in enumerate(bars))
    described = "; ".join(f"{bar_title(bar)}: {seconds(bar.mean_seconds)}" for bar in bars)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_ROW * len(bars)}" role="img" aria-label="Mean request by phase: {escape(described)}">'
        f"{rows}</svg>"
    )


def _row(bar: LaneAnatomy, top: int, longest: float) -> str:
    x = 0.0
    parts = []
    for phase in PHASE_ORDER:
        mean = bar.phases.get(phase)
        if mean is None:
            continue
        width = _WIDTH * mean / longest
        share = mean / bar.mean_seconds if bar.mean_seconds else 0.0
        words = f"{phase} {seconds(mean)} ({share:.0%})"
        label = phase.replace("_", " ")
        fits = width > 11 * len(label) + 12
        text = f'<text class="on" x="{x + 7:.1f}" y="{top + 51}">{label}</text>' if fits else ""
        parts.append(
            f'<g><title>{escape(words)}</title><rect class="p-{phase}" x="{x:.1f}" y="{top + 29}"'
            f' width="{max(width, 0):.1f}" height="{_BAR}"/>{text}</g>'
        )
        x += width
    requests = "1 request" if bar.requests == 1 else f"{bar.requests:,} requests"
    title = escape(bar_title(bar))
    return (
        f'<text class="lane" x="0" y="{top + 20}">{title}'
        f'<tspan class="quiet" dx="12">mean {seconds(bar.mean_seconds)} over {requests}</tspan></text>{"".join(parts)}'
    )


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
