"""The section of phases: per lane, and within it per prompt length, additive means as a bar with quantiles beside it.

Draws the anatomy of `anatomy.py` in slices, one lane each. A phase that is unknown is left out, and not shown as zero.
The source that measured a phase stands beside its number.
"""

from html import escape

from sidecar.admin.page.anatomy import SAMPLES_FOR, Anatomy, LaneAnatomy, LaneEnds
from sidecar.admin.page.html import percent, plain, quiet, section, span, table
from sidecar.admin.page.latency_tables import quantile_cells
from sidecar.admin.page.picture import PHASE_ORDER, bar_title, legend, longest, mean_bar, seconds
from sidecar.diagnosis.wording import phase_name
from sidecar.history.slices import Sliced


_LETTERS = {"engine": "e", "wire": "w", "derived": "d", "estimated": "~"}


def where_time_goes(anatomy: Anatomy) -> Sliced[str]:
    window = f"last {span(anatomy.window_seconds)}"
    if not anatomy.bars:
        return section("anatomy", "Where the time goes", window, plain(_nothing(anatomy, window)), folds=True)
    scale = longest(anatomy.bars)
    lanes = []
    for bar in anatomy.bars:
        yield
        lanes.append(_lane(bar, scale))
    seen = [phase for phase in PHASE_ORDER if any(phase in bar.phases for bar in anatomy.bars)]
    body = (
        f'<p class="legend">{legend(seen)}</p>{"".join(lanes)}'
        '<p class="quiet">Requests with outcome ok. Bars are means, because means add up and quantiles do not. Sources: e the engine'
        f" reported it for each request; w the sidecar measured it; d a difference; ~ an estimate.{_lower_bounds(anatomy.bars)}</p>"
    )
    return section("anatomy", "Where the time goes", window, body, folds=True)


def _nothing(anatomy: Anatomy, window: str) -> str:
    if anatomy.ends:
        return "No request ended with outcome ok, so there is no time to split. See below how they ended."
    if anatomy.ever:
        return f"No inference request ended in the {window}, so phases and latency are unknown."
    return "No traffic yet: no inference request has ended, so phases and latency are unknown."


def _lane(bar: LaneAnatomy, scale: float) -> str:
    title = bar_title(bar)
    drawn = f'<div class="bars">{mean_bar(bar, scale)}'
    folded = ""
    if len(bar.buckets) == 1:
        drawn += f'<p class="thin quiet">all requests: {escape(bar_title(bar.buckets[0]))}</p>'
    if len(bar.buckets) > 1:
        drawn += "".join(mean_bar(one, scale) for one in bar.buckets)
        tables = "".join(f"<h4>{escape(bar_title(one))}</h4>{_components(one)}" for one in bar.buckets)
        name = escape(f"by-length-{title}".replace(" ", "-").replace(",", ""))
        folded = f'<details id="{name}"><summary>the same numbers per prompt length</summary>{tables}</details>'
    return f'<div class="of-lane"><h3>{escape(title)}</h3>{drawn}</div><div class="beside">{_components(bar)}{folded}</div></div>'


def _components(bar: LaneAnatomy) -> str:
    rows = [
        [
            f'<i class="p-{phase}"></i>{phase_name(phase)} <small>{_told_by(bar, phase)}</small>',
            seconds(bar.phases[phase]),
            *quantile_cells(bar.spread.get(phase)),
        ]
        for phase in PHASE_ORDER
        if phase in bar.phases
    ]
    rows.append(["whole", seconds(bar.mean_seconds), *["" for _ in SAMPLES_FOR]])
    unknown = [phase_name(phase) for phase in ("queue", "prefill") if phase not in bar.phases]
    note = f'<p class="quiet">Unknown: {" and ".join(unknown)}.</p>' if unknown else ""
    caption = f"Phases of {bar.lane}, {bar_title(bar)}" if bar.prompt_bucket else f"Phases of {bar_title(bar)}"
    return table(caption, ["phase", "mean", *(f"p{q * 100:.0f}" for q in SAMPLES_FOR)], rows) + note


def _told_by(bar: LaneAnatomy, phase: str) -> str:
    return " ".join(
        f"{_LETTERS.get(source, '?')}{'' if share > 0.995 else f' {percent(share)}'}"
        for source, share in sorted(bar.sources.get(phase, {}).items())
    )


def _lower_bounds(bars: tuple[LaneAnatomy, ...]) -> str:
    mixed = any("unattributed" in bar.phases and "queue" in bar.phases for bar in bars)
    return " If part of the time is unattributed, queue, prefill and first token are lower bounds." if mixed else ""


def how_requests_ended(anatomy: Anatomy) -> str:
    """The section of outcomes per lane, and of how many requests have their TTFT split."""
    rows = [_ended(lane) for lane in anatomy.ends]
    heads = ["lane", "ended", "ok", "not ok", "TTFT split known"]
    body = (
        table("How requests ended by lane", heads, rows, "wordy")
        if rows
        else plain("No inference request ended in this time.")
    )
    return section("ended", "How requests ended", f"last {span(anatomy.window_seconds)}", body, folds=True)


def _ended(lane: LaneEnds) -> list[str]:
    good = lane.outcomes.get("ok", 0)
    rest = [f"{outcome.replace('_', ' ')} {n:,}" for outcome, n in sorted(lane.outcomes.items()) if outcome != "ok"]
    total = sum(lane.attribution.values())
    attributed = sum(n for (source, _), n in lane.attribution.items() if source != "none")
    why = ", ".join(
        f"{reason.replace('_', ' ')} {n:,}"
        for (source, reason), n in sorted(lane.attribution.items())
        if source == "none"
    )
    split = f"{percent(attributed / total)} of {total:,}" if total else quiet("none with outcome ok")
    return [
        escape(lane.lane),
        f"{sum(lane.outcomes.values()):,}",
        f"{good:,}",
        escape("; ".join(rest)) or "none",
        split + (f" ({escape(why)})" if why else ""),
    ]
