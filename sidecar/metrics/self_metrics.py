"""The metrics about the sidecar itself: its cost, its refusals, and the things that it could not measure.

Declared like all others, and listed with them in `catalogue.py`; without the constant labels, which are about the
engine.
"""

from sidecar.ledger.request_labels import UNKNOWN
from sidecar.metrics.declaration import Counter, Gauge, Histogram, Info, Label, Metric
from sidecar.metrics.vocabulary import (
    DROP_REASONS,
    LOOP_LAG_SECONDS,
    OVERFLOWING,
    SPAN_RESULTS,
    USAGE_RESULTS,
)
from sidecar.metrics.vocabulary import OVERHEAD_SECONDS as OVERHEAD_BUCKETS
from sidecar.proxy.errors import Failure


SIDECAR_BUILD_INFO = Info(
    "llm_sidecar_build_info",
    "The sidecar's own version, and the Python that runs it.",
    (
        Label("version", told_by="the sidecar", fallback=UNKNOWN, most=1),
        Label("python_version", told_by="the interpreter", fallback=UNKNOWN, most=1),
    ),
    typical=0.25,
)
EVENT_LOOP_LAG_SECONDS = Histogram(
    "llm_sidecar_event_loop_lag_seconds",
    "Seconds by which a periodic timer of the event loop fired late: how long bytes may have waited here.",
    buckets=LOOP_LAG_SECONDS,
)
OVERHEAD_SECONDS = Histogram(
    "llm_sidecar_overhead_seconds",
    "Seconds from the return of the read to the return of the write of the same response bytes, of 1 read in 64.",
    buckets=OVERHEAD_BUCKETS,
)
CONFIG_LAST_RELOAD_SUCCESSFUL = Gauge(
    "llm_sidecar_config_last_reload_successful",
    "1 if the last load of the config succeeded, 0 if it was refused and the config before it is in force.",
)
CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS = Gauge(
    "llm_sidecar_config_last_reload_success_timestamp_seconds",
    "Unix time, in seconds, of the last load of the config that succeeded.",
)
READY = Gauge("llm_sidecar_ready", "1 while /-/ready answers 200, else 0.")
DRAINING = Gauge("llm_sidecar_draining", "1 once shutting down has begun, else 0.")
DROPPED_TOTAL = Counter(
    "llm_sidecar_dropped_total",
    "Things that were not measured or not written down, by reason. Traffic was not touched.",
    (Label("reason", DROP_REASONS),),
)
FAILURES_TOTAL = Counter(
    "llm_sidecar_failures_total",
    "Requests, inference or not, that the sidecar answered itself or cut short, by the word in x-sidecar-error.",
    (Label("reason", tuple(failure.reason for failure in Failure)),),
)
LABEL_OVERFLOW_TOTAL = Counter(
    "llm_sidecar_label_overflow_total",
    "Label values outside their closed set, counted under the fallback instead; series: the limit of series was reached.",
    (Label("label", OVERFLOWING),),
)
USAGE_INJECTION_TOTAL = Counter(
    "llm_sidecar_usage_injection_total",
    "Inference requests by whether include_usage was spliced into them, or why not.",
    (Label("result", USAGE_RESULTS),),
)
PROMPT_BUCKET_ESTIMATES_TOTAL = Counter(
    "llm_sidecar_prompt_bucket_estimates_total",
    "Prompts whose bucket could be estimated from the body's bytes and was then counted by the engine, by whether the"
    " estimate had named another bucket. The estimate itself is used only where the engine does not count.",
    (Label("result", ("confirmed", "corrected")),),
)
SPANS_TOTAL = Counter(
    "llm_sidecar_spans_total",
    "Spans that came as OTLP: taken as the engine's word, unknown (nobody's word), rejected (malformed or too large); and"
    " of the first two, forwarded to the collector.",
    (Label("result", SPAN_RESULTS),),
)
OPEN_CONNECTIONS = Gauge(
    "llm_sidecar_open_connections",
    "Connections open now, to clients and to the engine (idle ones included).",
    (Label("side", ("client", "engine")),),
)
OPEN_LEDGERS = Gauge(
    "llm_sidecar_open_ledgers", "Requests that ended and whose phases still wait for the engine's report."
)
SERIES = Gauge("llm_sidecar_series", "Series that this process holds, process_ and python_ ones left out.")
SCRAPES_TOTAL = Counter(
    "llm_sidecar_scrapes_total",
    "Scrapes of this page that were begun before this one, by how they ended.",
    (Label("result", ("ok", "abandoned", "refused")),),
)

OWN: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""In the order of this file."""
