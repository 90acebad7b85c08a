"""Stacked bars: the mean request of a lane, the time of one request, and the phases in which missed requests waited.

Knows how to draw additive values as SVG on the server; it never stacks quantiles. Bars of the anatomy share one scale,
so that lanes can be compared. Phases too thin for a label are named in the table beside the bar. Every text is escaped.
"""

from collections.abc import Iterable, Mapping
from html import escape

from sidecar.admin.page.anatomy import LaneAnatomy
from sidecar.diagnosis.wording import phase_name
from sidecar.ledger.account import Phase


PHASE_ORDER = tuple(
    phase.value
    for phase in (Phase.QUEUE, Phase.PREFILL, Phase.FIRST_TOKEN, Phase.UNATTRIBUTED, Phase.DECODE, Phase.STREAM)
)
"""Phases in the order of a request's life; unattributed is time before the first token."""
BLAME_ORDER = (*PHASE_ORDER, "engine")


def seconds(value: float) -> str:
    """A duration as text on one line: three significant digits, in us, ms, s or min."""
    if value == float("inf"):
        return "∞"
    if value < 0.001:
        return f"{value * 1e6:.0f}\u00a0µs"
    if value < 0.9995:
        return f"{_three(value * 1e3)}\u00a0ms"
    return f"{_three(value)}\u00a0s" if value < 120 else f"{value / 60:.1f}\u00a0min"


def bar_title(bar: LaneAnatomy) -> str:
    """A bar's name: the lane and whether its answers were streamed; or the prompt length."""
    if bar.prompt_bucket:
        return f"{bar.prompt_bucket} tokens" if bar.prompt_bucket[:1].isdigit() else f"length {bar.prompt_bucket}"
    return bar.lane if bar.streaming else f"{bar.lane}, not streamed"


def longest(bars: Iterable[LaneAnatomy]) -> float:
    """Mean seconds of the longest bar, bars per prompt length included: the scale of all bars."""
    return max((one.mean_seconds for bar in bars for one in (bar, *bar.buckets)), default=0.0) or 1.0


def legend(phases: Iterable[str]) -> str:
    return "".join(f'<span><i class="p-{phase}"></i>{phase_name(phase)}</span>' for phase in phases)


def mean_bar(bar: LaneAnatomy, scale_seconds: float) -> str:
    """One stacked bar of additive means with its caption; full width is `scale_seconds`."""
    requests = "1 request" if bar.requests == 1 else f"{bar.requests:,} requests"
    said = f'<span class="quiet">mean {seconds(bar.mean_seconds)} over {requests}</span>'
    kind = "thin" if bar.prompt_bucket else "lane"
    described = f"{bar.lane}, {bar_title(bar)}" if bar.prompt_bucket else bar_title(bar)
    name = f"{escape(bar_title(bar))} " if bar.prompt_bucket else ""  # a lane's name is in the heading above
    return f'<p class="{kind}">{name}{said}</p>' + stacked(
        bar.phases, scale_seconds, described, whole=bar.mean_seconds, kind=kind
    )


def stacked(
    parts: Mapping[str, float], scale: float, described: str, *, whole: float, kind: str = "", shares: bool = False
) -> str:
    """A bar of parts in the order of a request's life; full width: `scale`. `shares`: parts are ratios, not seconds."""
    # Percentages instead of a viewBox: on a phone the bar gets narrower, but its text stays readable.
    x = 0.0
    drawn = []
    words = []
    for phase in BLAME_ORDER:
        part = parts.get(phase)
        if part is None:
            continue
        width = 100 * max(part, 0.0) / scale
        label = phase_name(phase)
        share = f"{part / whole if whole else 0:.0%}"
        words.append(f"{label} {share}" if shares else f"{label} {seconds(part)} ({share})")
        # On the narrowest screen that shows labels, a bar is 440 px wide and a letter 8 px.
        fits = kind != "thin" and width > 1.85 * len(label) + 3.2
        text = f'<text x="{x:.3f}%" dx="7" y="22">{label}</text>' if fits else ""
        drawn.append(
            f"<g><title>{escape(words[-1])}</title>"
            f'<rect class="p-{phase}" x="{x:.3f}%" width="{width:.3f}%" height="100%"/>{text}</g>'
        )
        x += width
    label = escape(f"{described}: {', '.join(words)}")
    named = f' class="{kind}"' if kind else ""
    return f'<svg role="img"{named} aria-label="{label}">{"".join(drawn)}</svg>'


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
