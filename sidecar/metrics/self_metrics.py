"""The metrics about the sidecar itself: its cost, its refusals, and the things that it could not measure.

Declared like all others, and listed with them in `catalogue.py`; without the constant labels, which are about the
engine.
"""

from sidecar import BUILDS
from sidecar.budgets.budgets import Kind
from sidecar.ledger.request_labels import UNKNOWN
from sidecar.metrics.declaration import Counter, Gauge, Histogram, Info, Label, Metric
from sidecar.metrics.vocabulary import (
    DROP_REASONS,
    LATE_READ_SECONDS,
    LATE_TIMER_SECONDS,
    LOOP_LAG_EDGES,
    OVERFLOWING,
    OVERHEAD_EDGES,
    SPAN_RESULTS,
    USAGE_RESULTS,
    VERY_LATE_TIMER_SECONDS,
)
from sidecar.proxy.errors import Failure


SIDECAR_BUILD_INFO = Info(
    "llm_sidecar_build_info",
    "Always 1. The labels name the version of the sidecar, of the Python that runs it, and its build.",
    (
        Label("version", told_by="the sidecar", fallback=UNKNOWN, most=1),
        Label("python_version", told_by="the interpreter", fallback=UNKNOWN, most=1),
        Label("build", BUILDS),
    ),
    used=1,
)
EVENT_LOOP_LAG_SECONDS = Histogram(
    "llm_sidecar_event_loop_lag_seconds",
    "Seconds by which a periodic timer of the event loop fired late: bytes may have waited as long in the sidecar.",
    buckets=LOOP_LAG_EDGES,
)
EVENT_LOOP_CHECKS_TOTAL = Counter(
    "llm_sidecar_event_loop_checks_total",
    "Timers of llm_sidecar_event_loop_lag_seconds, by their lag: late (above"
    f" {LATE_TIMER_SECONDS * 1e3:g} ms), very_late (above {VERY_LATE_TIMER_SECONDS * 1e3:g} ms), or in_time. A counter for rules.",
    (Label("result", ("in_time", "late", "very_late")),),
)
OVERHEAD_SECONDS = Histogram(
    "llm_sidecar_overhead_seconds",
    "Seconds from the return of the read to the return of the write of the same response bytes, of 1 read in 64.",
    buckets=OVERHEAD_EDGES,
)
TIMED_READS_TOTAL = Counter(
    "llm_sidecar_timed_reads_total",
    "Reads of llm_sidecar_overhead_seconds, which are 1 in 64, by the time until their bytes were written: late (above"
    f" {LATE_READ_SECONDS * 1e3:g} ms) or in_time. A counter for rules.",
    (Label("result", ("in_time", "late")),),
)
CONFIG_LAST_RELOAD_SUCCESSFUL = Gauge(
    "llm_sidecar_config_last_reload_successful",
    "1 if the last load of the config succeeded, and that of the file in web.config_file; 0 if one was refused, so that its"
    " previous content stays in force.",
)
CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS = Gauge(
    "llm_sidecar_config_last_reload_success_timestamp_seconds",
    "Unix time, in seconds, of the last successful load of the config.",
)
READY = Gauge("llm_sidecar_ready", "1 while /-/ready answers 200, else 0.")
DRAINING = Gauge("llm_sidecar_draining", "1 once the shutdown has begun, else 0.")
DROPPED_TOTAL = Counter(
    "llm_sidecar_dropped_total",
    "Events, reports, spans and log lines that were not measured or not written, by reason. Traffic was not affected.",
    (Label("reason", DROP_REASONS),),
)
FAILURES_TOTAL = Counter(
    "llm_sidecar_failures_total",
    "Requests, inference or not, that the sidecar answered in the engine's place or cut short, by the reason in x-sidecar-error.",
    (Label("reason", tuple(failure.reason for failure in Failure)),),
)
RESENT_TOTAL = Counter(
    "llm_sidecar_resent_total",
    "Requests, inference or not, that were sent once more on a new connection, with proof: the engine had closed the idle connection"
    " before they came, and its kernel acknowledged no byte of them.",
)
LABEL_OVERFLOW_TOTAL = Counter(
    "llm_sidecar_label_overflow_total",
    "Observations with a label value outside its closed set, by label; they are counted under the label's fallback. series: the"
    " limit of series was reached.",
    (Label("label", OVERFLOWING),),
)
USAGE_INJECTION_TOTAL = Counter(
    "llm_sidecar_usage_injection_total",
    "Inference requests by result of asking for usage: asked (include_usage was added to the body), or the reason why not.",
    (Label("result", USAGE_RESULTS),),
)
PROMPT_BUCKET_ESTIMATES_TOTAL = Counter(
    "llm_sidecar_prompt_bucket_estimates_total",
    "Prompts whose bucket was estimated from the body's bytes and whose tokens the engine then counted, by whether the count"
    " confirmed the estimated bucket or corrected it. The estimate is used only where the engine does not count.",
    (Label("result", ("confirmed", "corrected")),),
)
SPANS_TOTAL = Counter(
    "llm_sidecar_spans_total",
    "Spans received as OTLP: taken (a report on a request), unknown (of a kind that reports on no request) or rejected (malformed or too large)."
    " forwarded counts those of the first two that were passed on to the collector.",
    (Label("result", SPAN_RESULTS),),
)
OPEN_CONNECTIONS = Gauge(
    "llm_sidecar_open_connections",
    "Connections that are open now, idle ones included, by side: to clients or to the engine.",
    (Label("side", ("client", "engine")),),
)
BUDGET_LIMIT = Gauge(
    "llm_sidecar_budget_limit",
    "The most that this process holds at once, by budget: bytes, or a number of files, connections, requests, ledgers or tunnels."
    " docs/budgets.md says what is counted and what happens beyond.",
    (Label("budget", tuple(kind.label for kind in Kind)),),
)
BUDGET_USED = Gauge(
    "llm_sidecar_budget_used",
    "What this process holds now, by budget, in the unit of llm_sidecar_budget_limit.",
    BUDGET_LIMIT.labels,
)
BUDGET_EXCEEDED_TOTAL = Counter(
    "llm_sidecar_budget_exceeded_total",
    "Bodies, connections, requests and other things that found no room, by budget. Some made another one end, some were refused, some"
    " passed unread.",
    BUDGET_LIMIT.labels,
)
OPEN_LEDGERS = Gauge(
    "llm_sidecar_open_ledgers", "Requests that ended and whose phases still wait for the engine's report."
)
SERIES = Gauge("llm_sidecar_series", "Series that this process holds, process_ and python_ ones left out.")
SCRAPES_TOTAL = Counter(
    "llm_sidecar_scrapes_total",
    "Scrapes of this page that began before the present one, by result.",
    (Label("result", ("ok", "abandoned", "refused")),),
)
SCRAPE_AGE_SECONDS = Gauge(
    "llm_sidecar_last_scrape_age_seconds",
    "Seconds since this page was last scraped whole, before the present scrape; those of `sidecar doctor` are left out. Absent before"
    " the first.",
)
LOGINS_TOTAL = Counter(
    "llm_sidecar_admin_logins_total",
    "Requests to the admin listener that needed a password, by result: ok, missing (no user and password were sent), wrong, or"
    " busy (too many waited for a check, and this one was refused unread).",
    (Label("result", ("ok", "missing", "wrong", "busy")),),
)
HOSTS_REFUSED_TOTAL = Counter(
    "llm_sidecar_admin_hosts_refused_total",
    "Requests to the admin listener that were answered 421, because they named a host that is not this process's own and not in"
    " web.allowed_hosts.",
)
WEB_CONFIG_LOADS_TOTAL = Counter(
    "llm_sidecar_web_config_loads_total",
    "Loads of the file that web.config_file names, by result. After refused, the content of before stays in force.",
    (Label("result", ("ok", "refused")),),
)

OWN: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""In the order of this file."""
