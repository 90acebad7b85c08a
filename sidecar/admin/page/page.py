"""The status page, written for an SRE who opens the admin port at three in the morning.

The page shows in order: one sentence on what is wrong with the answers that are asked first, the last half hour of each
phase, the two latencies, the verdict per lane, where the time goes, the slowest 1 %, error budgets, requests in flight, the
engine, outcomes, the last requests that were slow or failed, and the budgets. Pure: facts come in, HTML goes out, built in
slices. The page works without JavaScript and loads nothing from elsewhere. Foreign text is escaped.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape

from sidecar.accounts.slowest import SlowestRequests
from sidecar.admin.page.anatomy import Anatomy
from sidecar.admin.page.budgets_table import budgets_section
from sidecar.admin.page.engine_now import engine_state
from sidecar.admin.page.error_budget import error_budget
from sidecar.admin.page.failure_table import recent_failures_section
from sidecar.admin.page.first_facts import Around
from sidecar.admin.page.headline import headline, in_short, worst
from sidecar.admin.page.html import prose, span
from sidecar.admin.page.in_flight_table import in_flight
from sidecar.admin.page.latency_tables import two_numbers
from sidecar.admin.page.phases import how_requests_ended, where_time_goes
from sidecar.admin.page.recent_failures import RecentFailure
from sidecar.admin.page.script import SCRIPT
from sidecar.admin.page.slowest_table import slowest_section
from sidecar.admin.page.sparklines import half_hour
from sidecar.admin.page.style import STYLE
from sidecar.admin.page.verdicts import verdicts
from sidecar.budgets.budgets import Budget
from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.measured import EngineDown
from sidecar.diagnosis.order import worst_first
from sidecar.diagnosis.wording import listed
from sidecar.history.phase_points import LaneCurve
from sidecar.history.slices import Sliced
from sidecar.observe.in_flight import Inside, LaneInFlight


REFRESH_SECONDS = 5
MODELS_NAMED = 2
"""Models in the head, where there is room for two long names; more are counted."""
_COMMON = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"default-src 'none'; style-src 'unsafe-inline'; {_COMMON}",
    "Referrer-Policy": "no-referrer",
}
"""Headers of pages without a script."""


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


STATUS_HEADERS = PAGE_HEADERS | {
    "Content-Security-Policy": f"default-src 'none'; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)};"
    f" connect-src 'self'; {_COMMON}",
}
"""Headers of the status page: its own style and script are allowed, and no other."""


@dataclass(frozen=True, slots=True)
class Facts:
    version: str
    engine: str
    """The engine's URL, and its kind if known; never a credential."""
    uptime_seconds: float
    config: str
    """Source of the config, in words."""
    source: str = ""
    """The way by which the engine's own times arrive, in words."""
    away: str | None = None
    """The failure of the engine's last health check in words; None where it passed."""
    hints: tuple[str, ...] = ()
    """Ways to make the engine report more: each names the exact flag."""
    notes: tuple[str, ...] = ()
    """Warnings for the operator: a refused reload, no report from the engine, ..."""
    usual: str = ""
    """The source of the usual values, in words."""
    placement: str = ""
    """Pod, namespace and node, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Everything that the page shows, as of `at` (monotonic seconds)."""

    at: float
    facts: Facts
    anatomy: Anatomy
    ready: tuple[bool, str]
    """Whether traffic may come, and the reason."""
    healthy: tuple[bool, str]
    around: Around
    diagnoses: Sequence[Diagnosis] = ()
    engine_down: EngineDown | None = None
    """The engine, if it fails its health checks."""
    lanes: Sequence[str] = ()
    """All lanes that can appear on the page, `other` included."""
    models: Sequence[str] = ()
    """The models that the engine serves."""
    curves: Sequence[LaneCurve] = ()
    by_lane: Mapping[str, LaneInFlight] | None = field(default_factory=dict)
    """None: not known."""
    oldest: Sequence[Inside] = ()
    engine: Mapping[str, str] = field(default_factory=dict)
    """As `engine_now` reads it."""
    budgets: Sequence[Budget] = ()
    recent_failures: Sequence[RecentFailure] = ()
    """Latest first."""
    slowest: SlowestRequests | None = None


def status_page(status: Status, *, refresh: bool = True) -> Sliced[str]:
    """The whole page. `refresh`: it updates itself: parts of it with JavaScript, else by loading again."""
    ordered = worst_first(status.diagnoses)
    parts = [headline(ordered, status.anatomy, status.ready, status.around, status.engine_down), _notes(status)]
    yield
    parts.append((yield from _half_hour(status, ordered)))
    parts += [two_numbers(status.anatomy), verdicts(ordered, is_down=status.engine_down is not None)]
    yield
    parts.append((yield from where_time_goes(status.anatomy)))
    yield
    parts += [
        "" if status.slowest is None else slowest_section(status.slowest),
        error_budget(status.anatomy, status.lanes, status.facts.uptime_seconds),
        in_flight(status.by_lane, status.oldest),
        engine_state(status.engine, status.facts.engine, status.facts.source, status.facts.hints),
        how_requests_ended(status.anatomy),
    ]
    yield
    parts.append((yield from recent_failures_section(status.recent_failures, status.at, models=len(status.models) > 1)))
    parts.append(budgets_section(status.budgets))
    yield
    again = f'<noscript><meta http-equiv="refresh" content="{REFRESH_SECONDS}"></noscript>' if refresh else ""
    script = f"<script>{SCRIPT}</script>" if refresh else ""
    where = f' <span class="quiet">{escape(status.facts.placement)}</span>' if status.facts.placement else ""
    toggle = '<a href="/?refresh=off">stop refreshing</a>' if refresh else '<a href="/">refresh automatically</a>'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(in_short(ordered, status.engine_down))}llm-phase-sidecar</title>'
        f'{again}<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}</style></head><body>'
        f'<header><p class="name">llm-phase-sidecar{where}</p>{_running(status)}<nav aria-label="Pages"><a href="/metrics">/metrics</a>'
        f'<a href="/diagnosis">/diagnosis</a><a href="/incident.json">/incident.json</a>'
        f'<a href="/workload.jsonl">/workload.jsonl</a>'
        f'<a href="/runbooks/">/runbooks/</a>{toggle}</nav></header>'
        f'<main>{_state(status)}<p id="stale" role="status"></p>{"".join(parts)}</main>'
        f'<footer id="facts" data-live>{_facts(status.facts)}</footer>{script}</body></html>'
    )


def _running(status: Status) -> str:
    """The head's second line: models, engine with its version, and the sidecar's own version."""
    more = [f"{len(status.models) - MODELS_NAMED} more"] if len(status.models) > MODELS_NAMED else []
    models = listed([*status.models[:MODELS_NAMED], *more], "and")
    named = f"{'model' if len(status.models) == 1 else 'models'} {models} · " if models else ""
    return f'<p class="quiet">{escape(f"{named}engine {status.facts.engine} · sidecar {status.facts.version}")}</p>'


def _half_hour(status: Status, ordered: Sequence[Diagnosis]) -> Sliced[str]:
    of = worst(ordered)
    if of is None:
        return (yield from half_hour(status.curves, None, None))
    since_at_unix = status.around.missed_since_at_unix if of.since_at is None else of.since_at
    since_at = None if since_at_unix is None else status.at - (status.around.at_unix - since_at_unix)
    return (yield from half_hour(status.curves, (of.measured.model or "", of.measured.lane or ""), since_at))


def _notes(status: Status) -> str:
    """Warnings stand below the headline: above it they would push its lines off a phone's first screen."""
    return f'<div id="notes" data-live>{"".join(f"<p>⚠ {prose(note)}</p>" for note in status.facts.notes)}</div>'


def _state(status: Status) -> str:
    ready = _said("ready", "not ready", status.ready)
    return f'<div id="state" data-live><p>{ready} · {_said("healthy", "not healthy", status.healthy)}</p></div>'


def _said(yes: str, no: str, verdict: tuple[bool, str]) -> str:
    good, why = verdict
    reason = f' <span class="quiet">({escape(why)})</span>' if why and not good else ""
    return f'<span class="state {"good" if good else "bad"}">{"✓ " + yes if good else "✗ " + no}</span>{reason}'


def _facts(facts: Facts) -> str:
    up = span(facts.uptime_seconds)
    usual = f" · {escape(facts.usual)}" if facts.usual else ""
    return f"<p>up {up} · config {escape(facts.config)}{usual} · version {escape(facts.version)}</p>"
