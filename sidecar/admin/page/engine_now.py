"""The engine's own state on the status page, read from the series that Prometheus scrapes, so that both show the same.

Knows which series there are. A value that the engine does not report is left out of the table and listed below it; the
hints name the flags that would make the engine report more.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape

from sidecar.admin.page.html import items, percent, plain, section, table
from sidecar.admin.page.picture import phase_name, seconds
from sidecar.diagnosis.wording import digits
from sidecar.metrics import catalogue as c
from sidecar.metrics import slo_metrics as p
from sidecar.metrics.declaration import Counter, Gauge
from sidecar.metrics.registry import Metrics


WORTH_SAYING_SECONDS = 1.0
"""Shorter silences are not shown: every engine is silent between two tokens."""


@dataclass(frozen=True, slots=True)
class EngineNow:
    """Gauges as of now, counters since this process began. None: unknown."""

    up: float | None = None
    waiting: float | None = None
    running: float | None = None
    kv_usage: float | None = None
    """Share of the KV cache in use, 0 to 1."""
    cached: float | None = None
    """Prefix-cache hits over queries, 0 to 1."""
    preemptions: float | None = None
    restarts: float | None = None
    silence_seconds: float | None = None
    silence_expected_seconds: float | None = None
    traffic_seen: float | None = None
    """Share of the engine's requests that came through this sidecar, 0 to 1."""
    agreement: dict[str, float] = field(default_factory=dict)
    """Phase to the seconds that reports add up to, over the seconds that the engine's own counter shows."""


def engine_now(metrics: Metrics) -> EngineNow:
    """Read the state from the registry, as last refreshed for a scrape or a snapshot."""
    queries = _counted(metrics, c.ENGINE_PREFIX_CACHE_QUERIES_TOTAL)
    hits = _counted(metrics, c.ENGINE_PREFIX_CACHE_HITS_TOTAL)
    agreed = metrics.gauge(c.ENGINE_REPORT_AGREEMENT_RATIO).children
    return EngineNow(
        up=_gauge(metrics, c.ENGINE_UP),
        waiting=_gauge(metrics, c.ENGINE_REQUESTS_WAITING),
        running=_gauge(metrics, c.ENGINE_REQUESTS_RUNNING),
        kv_usage=_gauge(metrics, c.ENGINE_KV_CACHE_USAGE_RATIO),
        cached=hits / queries if hits is not None and queries else None,
        preemptions=_counted(metrics, c.ENGINE_PREEMPTIONS_TOTAL),
        restarts=_counted(metrics, c.ENGINE_RESTARTS_TOTAL),
        silence_seconds=_gauge(metrics, p.ENGINE_SILENCE_SECONDS),
        silence_expected_seconds=_gauge(metrics, p.ENGINE_SILENCE_EXPECTED_SECONDS),
        traffic_seen=_gauge(metrics, c.ENGINE_TRAFFIC_SEEN_RATIO),
        agreement={labels[0]: child.value for labels, child in agreed.items() if child.value is not None},
    )


def _gauge(metrics: Metrics, metric: Gauge) -> float | None:
    child = metrics.gauge(metric).children.get(())
    return None if child is None else child.value


def _counted(metrics: Metrics, metric: Counter) -> float | None:
    child = metrics.counter(metric).children.get(())
    return None if child is None else child.value


def engine_state(engine: EngineNow, name: str, source: str, hints: Iterable[str]) -> str:
    """The section. `name`: the engine's URL and kind; `source`: how its times arrive; `hints`: sentences with flags."""
    rows = [[what, value] for what, value in _told(engine) if value]
    state = table("The engine's own state", ["what", "now"], rows) if rows else plain("The engine reports no state.")
    untold = [what for what, value in _told(engine) if not value]
    missing = f'<p class="quiet">Not reported by the engine: {", ".join(untold)}.</p>' if untold and rows else ""
    split = f'<p class="quiet">Split of the time before the first token: {escape(source)}</p>' if source else ""
    told = items(f"To know more: {escape(hint)}." for hint in hints)
    body = f"<p>{escape(name)}</p>{split}{f'<div class=plain>{told}</div>' if told else ''}{state}{missing}"
    return section("engine", "Engine", "as it reports itself", body)


def _told(engine: EngineNow) -> Iterable[tuple[str, str]]:
    yield "answers", "" if engine.up is None else "yes" if engine.up else '<span class="bad">no</span>'
    yield "waiting in its queue", "" if engine.waiting is None else digits(engine.waiting)
    yield "running", "" if engine.running is None else digits(engine.running)
    yield "KV cache in use", "" if engine.kv_usage is None else percent(engine.kv_usage)
    yield "prefix cache hits", "" if engine.cached is None else percent(engine.cached)
    yield "preemptions", "" if engine.preemptions is None else digits(engine.preemptions)
    yield "restarts seen", "" if engine.restarts is None else digits(engine.restarts)
    if engine.silence_seconds is not None and engine.silence_seconds >= WORTH_SAYING_SECONDS:
        yield "silent for", _silence(engine)
    yield "traffic through the sidecar", "" if engine.traffic_seen is None else percent(engine.traffic_seen)
    yield "reported seconds over its own sums", _agreed(engine)


def _silence(engine: EngineNow) -> str:
    assert engine.silence_seconds is not None
    expected = engine.silence_expected_seconds
    more = "" if not expected else f" <small>{seconds(expected)} of work was pending</small>"
    return seconds(engine.silence_seconds) + more


def _agreed(engine: EngineNow) -> str:
    return ", ".join(f"{escape(phase_name(phase))} {percent(ratio)}" for phase, ratio in engine.agreement.items())
