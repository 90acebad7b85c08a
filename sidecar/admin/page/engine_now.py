"""The engine's own state on the status page, read from the series that Prometheus scrapes, so that both show the same.

Knows which series there are. A value that the engine does not report is left out of the table and listed below it; the
hints name the flags that would make the engine report more.
"""

from collections.abc import Callable, Iterable, Mapping
from html import escape

from sidecar.admin.page.html import items, percent, plain, section, table
from sidecar.admin.page.picture import seconds
from sidecar.diagnosis.wording import digits, phase_name
from sidecar.engines.usage_asking import STOPS
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Counter, Gauge
from sidecar.metrics.registry import Metrics


WORTH_SAYING_SECONDS = 1.0
"""Shorter silences are not shown: every engine is silent between two tokens."""


def engine_now(metrics: Metrics) -> dict[str, str]:
    """Row to its value as HTML, empty where it is unknown: gauges as of now, counters since this process began."""

    def value(metric: Gauge | Counter) -> float | None:
        family = metrics.gauge(metric) if isinstance(metric, Gauge) else metrics.counter(metric)
        child = family.children.get(())
        return None if child is None else child.value

    up, stalled = value(c.ENGINE_UP), value(c.ENGINE_STALLED)
    silence_seconds = value(c.ENGINE_SILENCE_SECONDS) or 0.0
    hits, queries = value(c.ENGINE_PREFIX_CACHE_HITS_TOTAL), value(c.ENGINE_PREFIX_CACHE_QUERIES_TOTAL)
    cached = hits / queries if hits is not None and queries else None
    agreement = metrics.gauge(c.ENGINE_REPORT_AGREEMENT_RATIO).children.values()
    told = {
        "answers": "" if up is None else "yes" if up else f'<span class="bad">{"stalled" if stalled else "no"}</span>',
        "waiting in its queue": _or_empty(digits, value(c.ENGINE_REQUESTS_WAITING)),
        "running": _or_empty(digits, value(c.ENGINE_REQUESTS_RUNNING)),
        "KV cache in use": _or_empty(percent, value(c.ENGINE_KV_CACHE_USAGE_RATIO)),
        "prefix cache hits": _or_empty(percent, cached),
        "preemptions": _or_empty(digits, value(c.ENGINE_PREEMPTIONS_TOTAL)),
        "restarts seen": _or_empty(digits, value(c.ENGINE_RESTARTS_TOTAL)),
    }
    if silence_seconds >= WORTH_SAYING_SECONDS:
        expected = value(c.ENGINE_SILENCE_EXPECTED_SECONDS)
        more = "" if not expected else f" <small>{seconds(expected)} of work was pending</small>"
        told["silent for"] = seconds(silence_seconds) + more
    told["traffic through the sidecar"] = _or_empty(percent, value(c.ENGINE_TRAFFIC_SEEN_RATIO))
    stopped = [STOPS[child.labels[0]] for child in metrics.gauge(c.USAGE_STOPPED).children.values() if child.value]
    if stopped:
        told["asked for usage"] = f'<span class="bad">no</span> <small>{escape("; ".join(stopped))}</small>'
    uncounted = sum(child.value or 0.0 for child in metrics.counter(c.UNCOUNTED_INFERENCE_TOTAL).children.values())
    if uncounted:
        told["passed uncounted, though it looks like inference"] = (
            f'<span class="bad">{digits(uncounted)}</span> <small>the log names the paths; engine.paths says which count</small>'
        )
    told["reported seconds over its own sums"] = ", ".join(
        f"{escape(phase_name(*child.labels))} {percent(child.value)}" for child in agreement if child.value is not None
    )
    return told


def _or_empty(written: Callable[[float], str], value: float | None) -> str:
    return "" if value is None else written(value)


def engine_state(told: Mapping[str, str], name: str, source: str, hints: Iterable[str]) -> str:
    """The section. `name`: the engine's URL and kind; `source`: how its times arrive; `hints`: sentences with flags."""
    rows = [[what, value] for what, value in told.items() if value]
    state = table("The engine's own state", ["what", "now"], rows) if rows else plain("The engine reports no state.")
    untold = [what for what, value in told.items() if not value]
    missing = f'<p class="quiet">Not reported by the engine: {", ".join(untold)}.</p>' if untold and rows else ""
    split = f'<p class="quiet">Split of the time before the first token: {escape(source)}</p>' if source else ""
    more = items(f"To know more: {escape(hint)}." for hint in hints)
    body = f"<p>{escape(name)}</p>{split}{f'<div class=plain>{more}</div>' if more else ''}{state}{missing}"
    return section("engine", "Engine", "as it reports itself", body, folds=True)
