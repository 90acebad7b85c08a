"""The last half hour of each phase as a small curve: additive means of half a minute, drawn as SVG on the server.

Draws the curves of `history/phase_points.py` in slices, one lane each; the lane of the headline stands open, and others are folded. Each
curve has a scale of its own, from 0 to its highest mean, which stands beside it; where nothing is known it has a gap. A
history that is shorter says so. It refuses to judge: only the line at the beginning of the incident comes from the verdict.
"""

from collections.abc import Sequence
from html import escape

from sidecar.admin.page.html import plain, section, span
from sidecar.admin.page.picture import PHASE_ORDER, seconds
from sidecar.diagnosis.wording import phase_name
from sidecar.history.phase_points import POINT_SECONDS, LaneCurve
from sidecar.history.series import LONG_SECONDS
from sidecar.history.slices import Sliced


LANES = 8
"""Lanes with curves, the busiest ones; more are counted in a sentence."""
_WIDTH, _HEIGHT = 600, 24
"""Units of the picture, which is stretched to its column: 600 for half an hour are 10 for a point."""


def half_hour(curves: Sequence[LaneCurve], first: tuple[str, str] | None, since_at: float | None) -> Sliced[str]:
    """The section. `first`: model and lane of the headline; `since_at`: beginning of its incident, on the clock of the curves."""
    ordered = sorted(curves, key=lambda curve: (curve.model, curve.lane) != first)
    if not ordered:
        nothing = plain("No streamed request ended well in this time, so no phase has a curve.")
        return section("half-hour", "Last half hour", "", nothing)
    several = len({curve.model for curve in curves}) > 1
    drawn = []
    for number, curve in enumerate(ordered[:LANES]):
        yield
        name = f"{curve.lane} ({curve.model})" if several else curve.lane
        lane = _lane(curve, name, since_at if (curve.model, curve.lane) == first else None)
        if number:
            fold = escape(f"half-hour-{name}".replace(" ", "-"))
            lane = f'<details id="{fold}"><summary>{escape(name)}</summary>{lane}</details>'
        else:
            lane = f"<h3>{escape(name)}</h3>{lane}"
        drawn.append(lane)
    more = len(ordered) - LANES
    if more > 0:
        drawn.append(plain(f"{more} more {'lane' if more == 1 else 'lanes'} with fewer requests have no curve here."))
    edges = ordered[0].edges
    short = "" if edges[-1] - edges[0] > LONG_SECONDS - 2 * POINT_SECONDS else ", all that this process has seen"
    aside = f"means of {span(POINT_SECONDS)} per phase, last {span(edges[-1] - edges[0])}{short}"
    return section("half-hour", "Last half hour", aside, "".join(drawn))


def _lane(curve: LaneCurve, name: str, since_at: float | None) -> str:
    rows = [_row(curve, name, phase, since_at) for phase in PHASE_ORDER if phase in curve.means]
    return f'<div class="sparks">{"".join(rows)}</div>'


def _row(curve: LaneCurve, name: str, phase: str, since_at: float | None) -> str:
    known = [mean for mean in curve.means[phase] if mean is not None]
    label, highest = phase_name(phase), max(known)
    past = span(curve.edges[-1] - curve.edges[0])
    latest = curve.means[phase][-1]
    words = f"latest {'not known' if latest is None else seconds(latest)}, highest {seconds(highest)}"
    described = f"{name}, {label}, over the last {past}: at first {seconds(known[0])}, {words}"
    return (
        f'<p><i class="p-{phase}"></i>{label} <span class="quiet">{words}</span></p>'
        f'<svg role="img" class="spark" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none"'
        f' aria-label="{escape(described)}">{_mark(curve, since_at)}<path d="{_path(curve, phase, highest)}"/></svg>'
    )


def _path(curve: LaneCurve, phase: str, highest: float) -> str:
    """A line through the middles of the points; it begins anew after a gap, and a lone point is a dot."""
    began_at, lasts = curve.edges[0], (curve.edges[-1] - curve.edges[0]) or 1.0
    drawn, pen = [], "M"
    for number, mean in enumerate(curve.means[phase]):
        if mean is None:
            pen = "M"
            continue
        middle = (curve.edges[number] + curve.edges[number + 1]) / 2
        x = _WIDTH * (middle - began_at) / lasts
        y = _HEIGHT - 2 - (_HEIGHT - 4) * (mean / highest if highest > 0 else 0.0)
        drawn.append(f"{pen}{x:.1f} {y:.1f}{'h0' if pen == 'M' else ''}")
        pen = "L"
    return "".join(drawn)


def _mark(curve: LaneCurve, since_at: float | None) -> str:
    began_at, ends_at = curve.edges[0], curve.edges[-1]
    if since_at is None or not began_at < since_at < ends_at:
        return ""
    x = _WIDTH * (since_at - began_at) / (ends_at - began_at)
    return f'<path class="since" d="M{x:.1f} 0V{_HEIGHT}"/>'
