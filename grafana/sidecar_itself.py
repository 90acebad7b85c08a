"""The sidecar's own dashboard: what it costs, what it could attribute, and what it did not see."""

from grafana.panel import ORANGE, RED, YELLOW, Board, Kind, Panel, Row
from grafana.query import Query, gauge, quantiles
from grafana.shapes import OK, PODS, counted
from grafana.sidecar_readings import ESTIMATOR, READINGS


_EVERY = "all requests, inference or not"


_COST = Row(
    "What it costs",
    (
        Panel(
            Kind.LINES,
            "Overhead p50, p99",
            "From the return of the read to the return of the write of the same response bytes.",
            "1 response read in 64, inference or not",
            "s",
            quantiles("llm_sidecar_overhead_seconds", by="POD", legend="{{pod}} {{namespace}}", of=(0.5, 0.99)),
            width=8,
            steps=((0.001, YELLOW), (0.005, RED)),
        ),
        Panel(
            Kind.LINES,
            "Event loop lag p50, p99",
            "How long bytes may have waited in the sidecar. High without traffic: it is throttled.",
            "a periodic timer of each pod's sidecar",
            "s",
            quantiles("llm_sidecar_event_loop_lag_seconds", by="POD", legend="{{pod}} {{namespace}}", of=(0.5, 0.99)),
            width=8,
            steps=((0.01, YELLOW), (0.05, RED)),
        ),
        Panel(
            Kind.LINES,
            "CPU",
            "Cores in use; one is the most that it can take.",
            PODS,
            "percentunit",
            (
                Query(
                    "sum by (POD) (rate(process_cpu_seconds_total[R])) and on (POD) group by (POD) (llm_sidecar_ready)",
                    "{{pod}} {{namespace}}",
                ),
            ),
            width=8,
            steps=((0.8, ORANGE),),
        ),
        Panel(
            Kind.LINES,
            "Memory",
            "Resident memory. It is bounded: a steady climb is a fault.",
            PODS,
            "bytes",
            (
                Query(
                    "max by (POD) (process_resident_memory_bytes) and on (POD) group by (POD) (llm_sidecar_ready)",
                    "{{pod}} {{namespace}}",
                ),
            ),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Series held",
            "What the page holds, against metrics.series_limit (25,000 by default). A child beyond the limit is counted under its fallback.",
            f"{PODS}; process_ and python_ series left out",
            "short",
            (gauge("llm_sidecar_series"),),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Connections and open ledgers",
            "Connections to clients and to the engine, and ended requests whose phases still wait for the engine's report.",
            PODS,
            "short",
            (
                Query("sum by (POD, side) (llm_sidecar_open_connections)", "{{pod}} {{namespace}} {{side}}"),
                gauge("llm_sidecar_open_ledgers", legend="{{pod}} {{namespace}} ledgers"),
            ),
            width=8,
        ),
    ),
)

_ATTRIBUTION = Row(
    "Attribution: who could say where the time went",
    (
        Panel(
            Kind.STACK,
            "Splits by source",
            "engine: reported for this very request. derived and estimated: weaker. none: the time is unattributed, and no phase can be paged.",
            OK,
            "percentunit",
            (
                Query(
                    "sum by (source) (rate(llm_phase_attribution_total[R])) / on () group_left () sum(rate(llm_phase_attribution_total[R]))",
                    "{{source}}",
                ),
            ),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Splits by reason",
            "How each split was obtained, or why not. The status page names the engine's flag that would tell.",
            OK,
            "reqps",
            (Query("sum by (source, reason) (rate(llm_phase_attribution_total[R])) > 0", "{{source}}: {{reason}}"),),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Requests without a split, by lane",
            "Above a half for half an hour it is a ticket: misses of this lane can only page as unattributed.",
            OK,
            "percentunit",
            (
                Query(
                    'sum by (namespace, lane) (rate(llm_phase_attribution_total{source="none"}[R]))'
                    " / sum by (namespace, lane) (rate(llm_phase_attribution_total[R]))",
                    "{{lane}} ({{namespace}})",
                ),
            ),
            width=8,
            steps=((0.5, ORANGE),),
        ),
    ),
)

_LOST = Row(
    "What it did not see, or could not do",
    (
        counted(
            "Dropped observations",
            "What was not measured or not written down. Traffic was not touched.",
            "observations of any request",
            "llm_sidecar_dropped_total",
            "reason",
            unit="cps",
        ),
        counted(
            "Failures, by the word in x-sidecar-error",
            "Requests that the sidecar answered itself or cut short.",
            _EVERY,
            "llm_sidecar_failures_total",
            "reason",
        ),
        counted(
            "Labels outside their set",
            "Values that are counted under a fallback instead; series means that the limit of series was reached.",
            "label values of any observation",
            "llm_sidecar_label_overflow_total",
            "label",
            unit="cps",
        ),
        counted(
            "Passed through",
            "Requests that are no inference, which have no lane: health, models, tokenize.",
            "requests that are no inference",
            "llm_passthrough_requests_total",
            "outcome",
        ),
        counted(
            "include_usage, by what was done",
            "Whether usage was asked for on the client's behalf, or why not. Without usage there are no token counts.",
            "inference requests",
            "llm_sidecar_usage_injection_total",
            "result",
        ),
        counted(
            "Spans",
            "The engine's spans: taken as its word, nobody's, rejected, forwarded.",
            "spans that came as OTLP",
            "llm_sidecar_spans_total",
            "result",
            unit="cps",
        ),
    ),
)

_BUDGETS = Row(
    "Budgets, and who asks for the pages",
    (
        Panel(
            Kind.LINES,
            "Budgets in use",
            "The share of each budget that is used. docs/budgets.md says what happens at 100 %.",
            PODS,
            "percentunit",
            (
                Query(
                    "max by (POD, budget) (llm_sidecar_budget_used / llm_sidecar_budget_limit)",
                    "{{budget}} ({{pod}} {{namespace}})",
                ),
            ),
            width=8,
            steps=((0.8, ORANGE), (1.0, RED)),
        ),
        counted(
            "Found no room, by budget",
            "What came when the budget was used up: refused, made room for, or passed on unread.",
            "connections, uploads, requests, bodies, spans and ledgers",
            "llm_sidecar_budget_exceeded_total",
            "budget",
            unit="cps",
        ),
        Panel(
            Kind.LINES,
            "Sent once more",
            "The engine had closed the idle connection before the request came: proven by its kernel, so it was sent again.",
            _EVERY,
            "reqps",
            (Query("sum by (POD) (rate(llm_sidecar_resent_total[R])) > 0", "{{pod}} {{namespace}}"),),
            width=8,
            empty="none",
        ),
        counted(
            "Logins at the admin port",
            "Many that are wrong or busy: a scraper has an old password, or passwords are tried.",
            "requests to pages that need a password",
            "llm_sidecar_admin_logins_total",
            "result",
        ),
        counted(
            "Loads of the web config",
            "Anything but ok: the file could not be taken, and the one before stays in force.",
            "loads of --web.config.file",
            "llm_sidecar_web_config_loads_total",
            "result",
            unit="cps",
        ),
    ),
)

BOARD = Board(
    "llm-sidecar",
    "LLM sidecar: its own health",
    "What the sidecar costs, what it could attribute and from which source, what it dropped, and whether its estimates hold.",
    (_COST, _ATTRIBUTION, _LOST, _BUDGETS, READINGS, ESTIMATOR),
    runbooks=("LLMSidecarSlow", "LLMAttributionLow", "LLMSidecarDropsObservations", "LLMLabelOverflow"),
)
