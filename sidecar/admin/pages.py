"""The landing page: what an SRE sees who opens the admin port at three in the morning.

State first, then where requests' time goes, then TTFT and inter-token latency apart, then who is inside and how the
rest ended. A string is built and nothing else is touched: facts come in, HTML goes out. It works without JavaScript,
loads nothing, and says "no traffic yet" where it has nothing to say. Everything that is not ours is escaped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from sidecar.admin.anatomy import SAMPLES_FOR, Anatomy, LaneAnatomy, LaneEnds, Quantiles
from sidecar.admin.picture import PHASE_ORDER, bar_title, picture, seconds
from sidecar.admin.style import STYLE
from sidecar.metrics.in_flight import LaneInFlight


REFRESH_SECONDS = 5
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the house says about itself for the page."""

    version: str
    engine: str
    """The engine's URL, and its kind where known; never a credential."""
    uptime_seconds: float
    config: str
    """Where the config came from, in words."""
    source: str = ""
    """By which way the engine's own times come, in words."""
    hints: tuple[str, ...] = ()
    """What would make the engine tell more: each names the exact flag."""
    notes: tuple[str, ...] = ()
    """What an operator should know now: a refused reload, no report from the engine, ..."""


def landing(
    facts: Facts,
    anatomy: Anatomy,
    in_flight: Mapping[str, LaneInFlight],
    ready: tuple[bool, str],
    healthy: tuple[bool, str],
    *,
    refresh: bool = True,
) -> str:
    """The whole page. `in_flight`: lane to who is inside now. `ready`, `healthy`: the verdict and its reason."""
    again = f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">' if refresh else ""
    toggle = '<a href="/?refresh=off">hold still</a>' if refresh else '<a href="/">refresh by itself</a>'
    notes = "".join(f"<p>⚠ {escape(note)}</p>" for note in facts.notes)
    source = (
        f'<p class="quiet">time before the first token is split: {escape(facts.source)}</p>' if facts.source else ""
    )
    hints = "".join(f'<p class="plain">To know more: {escape(hint)}.</p>' for hint in facts.hints)
    body = _traffic(anatomy) if anatomy.bars or anatomy.ends else _no_traffic(anatomy)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>llm-phase-sidecar</title>{again}'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}</style></head><body>'
        f'<header><h1>llm-phase-sidecar</h1><nav><a href="/metrics">/metrics</a><a href="/runbooks/">/runbooks/</a>{toggle}</nav></header>'
        f"<p>{_state('ready', 'not ready', ready)} · {_state('healthy', 'not healthy', healthy)}</p>"
        f'<p class="quiet">engine {escape(facts.engine)} · up {_uptime(facts.uptime_seconds)} · config {escape(facts.config)}'
        f" · version {escape(facts.version)}</p>{source}{hints}{notes}"
        f"{_inside(in_flight)}{body}</body></html>"
    )


def _state(yes: str, no: str, verdict: tuple[bool, str]) -> str:
    good, why = verdict
    reason = f' <span class="quiet">({escape(why)})</span>' if why and not good else ""
    return f'<span class="state {"good" if good else "bad"}">{"✓ " + yes if good else "✗ " + no}</span>{reason}'


def _no_traffic(anatomy: Anatomy) -> str:
    window = _window(anatomy.window_seconds)
    said = (
        f"No inference request ended in the last {window}."
        if anatomy.ever
        else "No traffic yet: no inference request has ended."
    )
    return (
        f'<h2>Where the time goes</h2><p class="plain">{said} So there is nothing to say about phases or latency.</p>'
    )


def _traffic(anatomy: Anatomy) -> str:
    window = _window(anatomy.window_seconds)
    if anatomy.bars:
        drawn = (
            f'<p class="legend">{_legend(anatomy.bars)}</p>{picture(anatomy.bars)}'
            f'<div class="scroll">{_phase_table(anatomy.bars)}</div>'
            '<p class="quiet">Means, because means add up; requests that ended well. Measured by: e the engine, for each'
            f" request; w the wire, here; d a difference; ~ an estimate.{_lower_bounds(anatomy.bars)}</p>"
        )
    else:
        drawn = '<p class="plain">No request ended well, so there is nothing to split. See how they ended, below.</p>'
    return (
        f'<h2>Where the time goes <span class="quiet">last {window}</span></h2>{drawn}'
        f'<h2>Time to first token <span class="quiet">last {window}, streamed requests</span></h2>'
        f'<div class="scroll">{_quantile_table(anatomy.ends, ttft=True)}</div>'
        f'<h2>Between tokens <span class="quiet">last {window}, each gap</span></h2>'
        f'<div class="scroll">{_quantile_table(anatomy.ends, ttft=False)}</div>'
        f'<h2>How requests ended <span class="quiet">last {window}</span></h2>'
        f'<div class="scroll">{_outcome_table(anatomy.ends)}</div>'
    )


def _legend(bars: tuple[LaneAnatomy, ...]) -> str:
    seen = [phase for phase in PHASE_ORDER if any(phase in bar.phases for bar in bars)]
    return "".join(f'<span><i class="p-{phase}"></i>{phase.replace("_", " ")}</span>' for phase in seen)


def _lower_bounds(bars: tuple[LaneAnatomy, ...]) -> str:
    mixed = any("unattributed" in bar.phases and "queue" in bar.phases for bar in bars)
    return " Where part is unattributed, queue, prefill and first token are at least what stands here." if mixed else ""


def _phase_table(bars: tuple[LaneAnatomy, ...]) -> str:
    seen = [phase for phase in PHASE_ORDER if any(phase in bar.phases for bar in bars)]
    rows = []
    for bar in bars:
        cells = [_phase_cell(bar, phase) for phase in seen]
        rows.append([escape(bar_title(bar)), *cells, seconds(bar.mean_seconds)])
    return _table(["lane", *(phase.replace("_", " ") for phase in seen), "whole"], rows)


def _phase_cell(bar: LaneAnatomy, phase: str) -> str:
    mean = bar.phases.get(phase)
    if mean is None:
        return '<span class="quiet">unknown</span>'
    letters = {"engine": "e", "wire": "w", "derived": "d", "estimated": "~"}
    sources = bar.sources.get(phase, {})
    told = " ".join(
        f"{letters.get(source, '?')}{'' if share > 0.995 else f' {share:.0%}'}"
        for source, share in sorted(sources.items())
    )
    return f"{seconds(mean)} <small>{told}</small>"


def _quantile_table(ends: tuple[LaneEnds, ...], *, ttft: bool) -> str:
    rows = []
    for lane in ends:
        quantiles = lane.ttft if ttft else lane.inter_token
        if quantiles.count:
            rows.append([escape(lane.lane), *(_quantile(quantiles, q) for q in SAMPLES_FOR), f"{quantiles.count:,}"])
    if not rows:
        return (
            f'<p class="plain">{"No streamed request got a token." if ttft else "No gap between tokens was seen."}</p>'
        )
    return _table(["lane", *(f"p{q * 100:.0f}" for q in SAMPLES_FOR), "samples"], rows)


def _quantile(quantiles: Quantiles, q: float) -> str:
    value = quantiles.at.get(q)
    if value is None:
        return '<span class="quiet">too few</span>'
    return f"&gt; {seconds(quantiles.last_edge)}" if value == float("inf") else seconds(value)


def _outcome_table(ends: tuple[LaneEnds, ...]) -> str:
    rows = []
    for lane in ends:
        ended = sum(lane.outcomes.values())
        good = lane.outcomes.get("ok", 0)
        rest = [f"{outcome.replace('_', ' ')} {n:,}" for outcome, n in sorted(lane.outcomes.items()) if outcome != "ok"]
        attributed = sum(n for (source, _), n in lane.attribution.items() if source != "none")
        total = sum(lane.attribution.values())
        why = ", ".join(
            f"{reason.replace('_', ' ')} {n:,}"
            for (source, reason), n in sorted(lane.attribution.items())
            if source == "none"
        )
        split = f"{attributed / total:.0%} of {total:,}" if total else '<span class="quiet">none ended well</span>'
        rows.append(
            [
                escape(lane.lane),
                f"{ended:,}",
                f"{good:,}",
                escape("; ".join(rest)) or "none",
                split + (f" ({escape(why)})" if why else ""),
            ]
        )
    return _table(["lane", "ended", "ok", "otherwise", "TTFT split known"], rows)


def _inside(in_flight: Mapping[str, LaneInFlight]) -> str:
    rows = []
    for lane, inside in sorted(in_flight.items()):
        oldest = "none" if inside.oldest_seconds is None else seconds(inside.oldest_seconds)
        rows.append([escape(lane), f"{inside.waiting:,}", f"{inside.streaming:,}", oldest])
    table = (
        _table(["lane", "waiting", "streaming", "oldest waiting"], rows)
        if rows
        else '<p class="plain">Nobody has come in yet.</p>'
    )
    return f'<h2>In flight <span class="quiet">now</span></h2><div class="scroll">{table}</div>'


def _table(heads: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _window(window_seconds: float) -> str:
    minutes = window_seconds / 60
    return f"{minutes:.0f} min" if minutes >= 1.95 else f"{window_seconds:.0f} s"


def _uptime(uptime_seconds: float) -> str:
    minutes = int(uptime_seconds) // 60
    if minutes < 1:
        return f"{uptime_seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h" if minutes < 2880 else f"{minutes // 1440} d"
