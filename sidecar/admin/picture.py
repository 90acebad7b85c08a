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
    return "".join(_bar(bar, longest) for bar in bars)


def _bar(bar: LaneAnatomy, longest: float) -> str:
    # Percentages instead of a viewBox: on a phone the bar gets narrower, and its text stays readable.
    x = 0.0
    parts = []
    words = []
    for phase in PHASE_ORDER:
        mean = bar.phases.get(phase)
        if mean is None:
            continue
        width = 100 * mean / longest
        label = phase.replace("_", " ")
        words.append(f"{label} {seconds(mean)} ({mean / bar.mean_seconds if bar.mean_seconds else 0:.0%})")
        fits = width > 1.1 * len(label) + 1.2
        text = f'<text x="{x:.3f}%" dx="7" y="22">{label}</text>' if fits else ""
        parts.append(
            f"<g><title>{escape(words[-1])}</title>"
            f'<rect class="p-{phase}" x="{x:.3f}%" width="{max(width, 0):.3f}%" height="100%"/>{text}</g>'
        )
        x += width
    requests = "1 request" if bar.requests == 1 else f"{bar.requests:,} requests"
    title = escape(bar_title(bar))
    said = f'<span class="quiet">mean {seconds(bar.mean_seconds)} over {requests}</span>'
    described = escape(f"{bar_title(bar)}: {', '.join(words)}")
    return f'<p class="lane">{title} {said}</p><svg role="img" aria-label="{described}">{"".join(parts)}</svg>'


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
