"""The sidecar's own dashboard: what it costs, what it could attribute, and what it did not see."""

from grafana.panel import GREEN, ORANGE, RED, YELLOW, Board, Kind, Panel, Row
from grafana.query import Query, gauge, quantiles
from grafana.shapes import OK, STREAMED_OK


_PODS = "pods whose sidecar is scraped"
_EVERY = "all requests, inference or not"
_ESTIMATED = "streamed inference requests with outcome ok and a first token, also those on which the engine reports"


def _counted(
    title: str, about: str, population: str, counter: str, label: str, *, unit: str = "reqps", width: int = 8
) -> Panel:
    """A counter by one label, without the children that stand at 0."""
    legend = f"{{{{{label}}}}}"
    return Panel(
        Kind.LINES,
        title,
        about,
        population,
        unit,
        (Query(f"sum by ({label}) (rate({counter}[R])) > 0", legend),),
        width=width,
        empty="none",
    )


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
            _PODS,
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
            _PODS,
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
            f"{_PODS}; process_ and python_ series left out",
            "short",
            (gauge("llm_sidecar_series"),),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Connections and open ledgers",
            "Connections to clients and to the engine, and ended requests whose phases still wait for the engine's report.",
            _PODS,
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
        _counted(
            "Dropped observations",
            "What was not measured or not written down. Traffic was not touched.",
            "observations of any request",
            "llm_sidecar_dropped_total",
            "reason",
            unit="cps",
        ),
        _counted(
            "Failures, by the word in x-sidecar-error",
            "Requests that the sidecar answered itself or cut short.",
            _EVERY,
            "llm_sidecar_failures_total",
            "reason",
        ),
        _counted(
            "Labels outside their set",
            "Values that are counted under a fallback instead; series means that the limit of series was reached.",
            "label values of any observation",
            "llm_sidecar_label_overflow_total",
            "label",
            unit="cps",
        ),
        _counted(
            "Passed through",
            "Requests that are no inference, which have no lane: health, models, tokenize.",
            "requests that are no inference",
            "llm_passthrough_requests_total",
            "outcome",
        ),
        _counted(
            "include_usage, by what was done",
            "Whether usage was asked for on the client's behalf, or why not. Without usage there are no token counts.",
            "inference requests",
            "llm_sidecar_usage_injection_total",
            "result",
        ),
        _counted(
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
            _PODS,
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
        _counted(
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
        _counted(
            "Logins at the admin port",
            "Many that are wrong or busy: a scraper has an old password, or passwords are tried.",
            "requests to pages that need a password",
            "llm_sidecar_admin_logins_total",
            "result",
        ),
        _counted(
            "Loads of the web config",
            "Anything but ok: the file could not be taken, and the one before stays in force.",
            "loads of --web.config.file",
            "llm_sidecar_web_config_loads_total",
            "result",
            unit="cps",
        ),
    ),
)

_READINGS = Row(
    "Readings and state",
    (
        _counted(
            "Readings of the engine's metrics",
            "Anything but ok: waiting, running and KV usage are old or missing.",
            "the sidecar's own readings",
            "llm_engine_scrapes_total",
            "result",
            unit="cps",
        ),
        _counted(
            "Scrapes of the sidecar",
            "How the scrapes ended that Prometheus began.",
            "scrapes that were begun before the one shown",
            "llm_sidecar_scrapes_total",
            "result",
            unit="cps",
        ),
        Panel(
            Kind.LINES,
            "Prompt buckets that were estimated wrong",
            "Where the engine counts, its count decides; the estimate is checked against it here and used only elsewhere.",
            "prompts whose bucket could be estimated and was then counted by the engine",
            "percentunit",
            (
                Query(
                    'sum by (POD) (rate(llm_sidecar_prompt_bucket_estimates_total{result="corrected"}[R]))'
                    " / sum by (POD) (rate(llm_sidecar_prompt_bucket_estimates_total[R]))",
                    "{{pod}} {{namespace}}",
                ),
            ),
            width=8,
        ),
        Panel(
            Kind.TIMELINE,
            "Config, readiness, draining",
            "Whether the last config was taken, whether /-/ready says yes, and whether it is shutting down.",
            _PODS,
            "none",
            (
                gauge(
                    "llm_sidecar_config_last_reload_successful", legend="{{pod}} {{namespace}} config taken", how="min"
                ),
                gauge("llm_sidecar_ready", legend="{{pod}} {{namespace}} ready", how="min"),
                Query("1 - max by (POD) (llm_sidecar_draining)", "{{pod}} {{namespace}} not draining"),
            ),
            width=16,
            words=((0, "no", RED), (1, "yes", GREEN)),
        ),
        Panel(
            Kind.STAT,
            "Config age",
            "Since the last load of the config that succeeded.",
            _PODS,
            "s",
            (
                Query(
                    "time() - min by (POD) (llm_sidecar_config_last_reload_success_timestamp_seconds)",
                    "{{pod}} {{namespace}}",
                ),
            ),
            width=8,
        ),
        Panel(
            Kind.TABLE,
            "Versions",
            "The sidecar's own version, and the Python that runs it.",
            _PODS,
            "none",
            (Query("group by (POD, version, python_version) (llm_sidecar_build_info)", "known"),),
            width=12,
            empty="",
            hidden=("known",),
        ),
        Panel(
            Kind.TABLE,
            "Usual values",
            "Where each pod's usual values come from: its own process, an earlier one (state), a file, or none yet.",
            _PODS,
            "none",
            (Query("group by (POD, source, provisional, quantization, gpu_type) (llm_baseline_info)", "known"),),
            width=12,
            empty="",
            hidden=("known",),
        ),
        Panel(
            Kind.TIMELINE,
            "Constant labels that no longer hold",
            "The engine now says another value than the one on every series, which is fixed for the process's life: restart the sidecar.",
            f"{_PODS}, where the config does not state the label",
            "none",
            (gauge("llm_engine_label_mismatch", by="POD, label", legend="{{pod}} {{namespace}} {{label}}"),),
            words=((0, "same", GREEN), (1, "differs", ORANGE)),
            empty="stated by the config",
        ),
    ),
)

_ESTIMATOR = Row(
    "The estimator, for requests that nobody reports on",
    (
        Panel(
            Kind.TIMELINE,
            "Ready",
            "Whether it would split the TTFT of a request on which nobody reports, at lengths that it has seen.",
            "models whose estimator is on",
            "none",
            (gauge("llm_estimator_ready", by="POD, model", legend="{{model}} {{pod}} {{namespace}}", how="min"),),
            words=((0, "not yet", YELLOW), (1, "ready", GREEN)),
            empty="switched off",
        ),
        Panel(
            Kind.LINES,
            "Requests remembered",
            "Those that waited for nobody, by class of prompt length. It freezes when none come, and learns nothing from overload.",
            "streamed inference requests that waited for nobody",
            "short",
            (gauge("llm_estimator_samples", by="POD, model", legend="{{model}} {{pod}} {{namespace}}", how="sum"),),
            empty="switched off",
        ),
        _counted(
            "Answers",
            "Whether it could say how much was prefill, or why not.",
            _ESTIMATED,
            "llm_estimator_answers_total",
            "result",
        ),
        Panel(
            Kind.LINES,
            "Error p50, p95",
            "How far the estimated prefill was from the reported one, too long (over) or too short (under).",
            f"{STREAMED_OK} that have both",
            "s",
            quantiles("llm_estimator_error_seconds", by="model, side", legend="{{side}} {{model}}", of=(0.5, 0.95)),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Right about queue or prefill",
            "How often it would have named the longer of the two.",
            f"{STREAMED_OK} that have an estimate and a report",
            "percentunit",
            (
                Query(
                    'sum by (POD, model) (rate(llm_estimator_verdicts_total{result="right"}[R]))'
                    " / sum by (POD, model) (rate(llm_estimator_verdicts_total[R]))",
                    "{{model}} {{pod}} {{namespace}}",
                ),
            ),
            width=8,
        ),
        Panel(
            Kind.TIMELINE,
            "Why the cost of the engine's work is unknown",
            "young: too few steps or prompts to know the usual cost. residuals: alike steps take different times. coverage: streams do"
            " not speak at each step. few: too little traffic now.",
            "pods without a ratio of costs",
            "none",
            (
                gauge(
                    "llm_engine_cost_unknown",
                    by="POD, part, reason",
                    legend="{{part}}: {{reason}} ({{pod}} {{namespace}})",
                ),
            ),
            width=24,
            empty="known",
            words=((0, "no", GREEN), (1, "unknown", YELLOW)),
        ),
    ),
)

BOARD = Board(
    "llm-sidecar",
    "LLM sidecar: its own health",
    "What the sidecar costs, what it could attribute and from which source, what it dropped, and whether its estimates hold.",
    (_COST, _ATTRIBUTION, _LOST, _BUDGETS, _READINGS, _ESTIMATOR),
    runbooks=("LLMSidecarSlow", "LLMAttributionLow", "LLMSidecarDropsObservations", "LLMLabelOverflow"),
)
