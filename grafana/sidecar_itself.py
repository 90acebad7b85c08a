"""The sidecar's own dashboard: what it costs, what it could attribute, and what it did not see."""

from grafana.colours import CALM, RED, WARN
from grafana.panel import AGE, RATIO, Board, Kind, Panel, Row
from grafana.query import Query, mean_of
from grafana.shapes import OK, PODS, STREAMED_OK
from sidecar.commands.export.rules.dashboard_rules import quantile, samples
from sidecar.metrics.histogram_forms import SAMPLES_NEEDED


def _now(name: str, legend: str, *, unit: str = "short", how: str = "max") -> Query:
    return Query(f"{how} by (POD) ({name})", legend, unit=unit)


_BESIDE = (
    ("llm_sidecar_overhead_seconds", "overhead"),
    ("llm_sidecar_event_loop_lag_seconds", "loop lag"),
    ("llm_engine_connect_seconds", "connect"),
    ("llm_request_upload_seconds", "upload"),
)

_COST = Row(
    "What it costs",
    (
        Panel(
            Kind.TABLE,
            "Each sidecar",
            "CPU of one core (which is the most that it can take), resident memory (bounded: a steady climb is a fault), series held, open"
            " connections and ledgers, the fullest of its budgets (docs/budgets.md), the age of its config, how many prompt buckets it"
            " estimated wrong where the engine then counted, and the time between two scrapes, which rules need to be 60 s or less.",
            PODS,
            "short",
            (
                Query(
                    "group by (POD, version, build, profile, python_version) (llm_sidecar_build_info)",
                    "known",
                    unit="none",
                ),
                Query(
                    "sum by (POD) (rate(process_cpu_seconds_total[N])) and on (POD) group by (POD) (llm_sidecar_ready)",
                    "CPU",
                    unit="percentunit",
                    colours=((0.8, WARN),),
                    decimals=0,
                ),
                Query(
                    "max by (POD) (process_resident_memory_bytes) and on (POD) group by (POD) (llm_sidecar_ready)",
                    "memory",
                    unit="bytes",
                ),
                _now("llm_sidecar_series", "series"),
                Query('max by (POD) (llm_sidecar_open_connections{side="client"})', "clients", unit="short"),
                Query('max by (POD) (llm_sidecar_open_connections{side="engine"})', "to the engine", unit="short"),
                _now("llm_sidecar_open_ledgers", "ledgers"),
                Query(
                    'max by (POD) (llm_sidecar_budget_used{budget=~".+"} / llm_sidecar_budget_limit{budget=~".+"})',
                    "fullest budget",
                    unit="percentunit",
                    colours=((0.8, WARN), (1, RED)),
                    decimals=0,
                ),
                Query(
                    "time() - min by (POD) (llm_sidecar_config_last_reload_success_timestamp_seconds)",
                    "config's age",
                    unit=AGE,
                    decimals=0,
                ),
                Query(
                    'sum by (POD) (increase(llm_sidecar_prompt_bucket_estimates_total{result="corrected"}[W]))'
                    " / sum by (POD) (increase(llm_sidecar_prompt_bucket_estimates_total[W])) >= 0",
                    "lengths wrong",
                    unit="percentunit",
                    decimals=0,
                ),
                _now("llm_sidecar_last_scrape_age_seconds", "scrape", unit="s"),
            ),
            width=24,
            hidden=("known", "namespace"),
            order=("pod", "cluster", "version", "profile", "python_version"),
            empty="",
        ),
        Panel(
            Kind.LINES,
            "Beside the phases, p99",
            "Overhead: from the return of a read to the return of the write of the same bytes. Loop lag: how late a timer fires, so how"
            " long bytes may have waited. High: the slow hop is the sidecar itself. Connect: to the engine, microseconds unless its listen"
            " queue is full. Upload: the client's time to send its request, no phase; a slow network shows here first.",
            f"overhead: 1 response read in 64, inference or not; lag: a periodic timer; connect and upload: inference requests; of all pods, from {SAMPLES_NEEDED[0.99]} of them on in five minutes, whose number stands in the tooltip",
            "s",
            (
                *(Query(f"{quantile(0.99, name, by='')} >= 0", legend) for name, legend in _BESIDE),
                *(
                    Query(f"{samples(name, by='')} >= {SAMPLES_NEEDED[0.99]}", legend, counts=True)
                    for name, legend in _BESIDE
                ),
            ),
            steps=((0.01, WARN), (0.05, RED)),
            logarithmic=True,
        ),
        Panel(
            Kind.TIMELINE,
            "As it should be",
            "Whether the last config was taken, whether /-/ready says yes, whether it is not shutting down, and whether the constant"
            " labels on its series still hold (they are fixed for the process's life: restart it).",
            PODS,
            "none",
            (
                Query("min by (pod) (llm_sidecar_config_last_reload_successful)", "{{pod}} config"),
                Query("min by (pod) (llm_sidecar_ready)", "{{pod}} ready"),
                Query("1 - max by (pod) (llm_sidecar_draining)", "{{pod}} not draining"),
                Query("1 - max by (pod, label) (llm_engine_label_mismatch)", "{{pod}} {{label}}"),
            ),
            words=((0, "no", RED), (1, "yes", CALM)),
        ),
    ),
)

_SEEN = Row(
    "What it could attribute, and what it lost",
    (
        Panel(
            Kind.STACK,
            "Splits by source",
            "engine: reported for this very request. derived and estimated: weaker. none: the time is unattributed, and no phase can be"
            " paged.",
            OK,
            RATIO,
            (
                Query(
                    "sum by (source) (rate(llm_phase_attribution_total[R]))"
                    " / on () group_left () sum(rate(llm_phase_attribution_total[R])) > 0",
                    "{{source}}",
                ),
            ),
        ),
        Panel(
            Kind.BARS,
            "Splits by reason",
            "How each split was obtained, or why there is none. The status page names the engine's flag that would tell.",
            OK,
            "reqps",
            (
                Query(
                    "sum by (source, reason) (rate(llm_phase_attribution_total[R])) > 0",
                    "{{source}}: {{reason}}",
                ),
            ),
            empty="none",
        ),
        Panel(
            Kind.BARS,
            "Lost, refused or failed",
            "What was not measured (dropped; traffic was not touched), requests that the sidecar answered itself or cut short (failed),"
            " label values counted under a fallback (overflow), what found no room in a budget, and what was sent once more.",
            "observations, label values and requests of any kind",
            "cps",
            (
                Query("sum by (reason) (rate(llm_sidecar_dropped_total[R])) > 0", "dropped: {{reason}}"),
                Query("sum by (reason) (rate(llm_sidecar_failures_total[R])) > 0", "failed: {{reason}}", unit="reqps"),
                Query("sum by (label) (rate(llm_sidecar_label_overflow_total[R])) > 0", "overflow: {{label}}"),
                Query("sum by (budget) (rate(llm_sidecar_budget_exceeded_total[R])) > 0", "no room: {{budget}}"),
                Query("sum(rate(llm_sidecar_resent_total[R])) > 0", "sent once more", unit="reqps"),
            ),
            empty="none",
        ),
        Panel(
            Kind.BARS,
            "Read, asked and passed through",
            "Readings of the engine's metrics, scrapes of the sidecar, logins and foreign host names at its pages, loads of the web config, spans, and whether"
            " usage was asked for; requests that are no inference. Anything but ok in the first four is worth a look.",
            "the sidecar's own work, and requests of any kind",
            "cps",
            (
                Query("sum by (result) (rate(llm_engine_scrapes_total[R])) > 0", "reading: {{result}}"),
                Query("sum by (result) (rate(llm_sidecar_scrapes_total[R])) > 0", "scrape: {{result}}"),
                Query(
                    "sum by (result) (rate(llm_sidecar_admin_logins_total[R])) > 0", "login: {{result}}", unit="reqps"
                ),
                Query(
                    "sum(rate(llm_sidecar_admin_hosts_refused_total[R])) > 0", "login: refused host name", unit="reqps"
                ),
                Query("sum by (result) (rate(llm_sidecar_web_config_loads_total[R])) > 0", "web config: {{result}}"),
                Query("sum by (result) (rate(llm_sidecar_spans_total[R])) > 0", "span: {{result}}"),
                Query("sum(rate(llm_sidecar_exported_spans_total[R])) > 0", "own span: made"),
                Query("sum by (result) (rate(llm_sidecar_exported_spans_ended_total[R])) > 0", "own span: {{result}}"),
                Query(
                    "sum by (result) (rate(llm_sidecar_usage_injection_total[R])) > 0",
                    "usage: {{result}}",
                    unit="reqps",
                ),
                Query(
                    "sum by (result) (rate(llm_sidecar_verify_probes_total[R])) > 0",
                    "probe: {{result}}",
                    unit="reqps",
                ),
                Query(
                    "sum by (outcome) (rate(llm_passthrough_requests_total[R])) > 0",
                    "passed: {{outcome}}",
                    unit="reqps",
                ),
                Query(
                    "sum by (kind) (rate(llm_uncounted_inference_total[R])) > 0", "not counted: {{kind}}", unit="reqps"
                ),
                Query(
                    "sum by (api, proof) (rate(llm_answer_proofs_total[R])) > 0",
                    "end {{proof}}: {{api}}",
                    unit="reqps",
                ),
                Query(
                    "sum by (objective, reason) (rate(llm_slo_unjudged_requests_total[R])) > 0",
                    "not judged, {{objective}}: {{reason}}",
                    unit="reqps",
                ),
                Query(
                    "sum by (result) (rate(llm_lanes_by_length_total[R])) > 0",
                    "lane by length: {{result}}",
                    unit="reqps",
                ),
            ),
        ),
    ),
)

_ESTIMATES = Row(
    "Estimates, for requests without a report",
    (
        Panel(
            Kind.TABLE,
            "The estimator, by model",
            "Whether it would split a TTFT (1), from how many requests, how often it could answer, and on requests that the engine reported"
            " on: how often it would have named the longer of queue and prefill, how far its prefill was off, and how often its interval of"
            " 80 % held the true one.",
            f"{STREAMED_OK} and a first token",
            "short",
            (
                Query("min by (POD, model) (llm_estimator_ready)", "ready", unit="none", decimals=0),
                Query("sum by (POD, model) (llm_estimator_samples)", "samples", decimals=0),
                Query(
                    'sum by (POD, model) (increase(llm_estimator_answers_total{result="answered"}[W]))'
                    " / sum by (POD, model) (increase(llm_estimator_answers_total[W])) >= 0",
                    "answered",
                    unit="percentunit",
                    decimals=0,
                ),
                Query(
                    'sum by (POD, model) (increase(llm_estimator_verdicts_total{result="right"}[W]))'
                    " / sum by (POD, model) (increase(llm_estimator_verdicts_total[W])) >= 0",
                    "right",
                    unit="percentunit",
                    decimals=0,
                ),
                Query(
                    mean_of("llm_estimator_error_seconds", by="POD, model", matchers='{side=~".+"}'),
                    "mean error",
                    unit="s",
                ),
                Query(
                    'sum by (POD, model) (increase(llm_estimator_intervals_total{result="inside"}[W]))'
                    " / sum by (POD, model) (increase(llm_estimator_intervals_total[W])) >= 0",
                    "held",
                    unit="percentunit",
                    decimals=0,
                ),
            ),
            width=24,
            height=6,
            order=("pod", "cluster", "model"),
            hidden=("namespace",),
            sorted_by="answered",
            empty="switched off",
        ),
        Panel(
            Kind.TIMELINE,
            "Why the cost of the engine's work is unknown",
            "young: too few steps or prompts to know the usual cost. residuals: alike steps take different times. coverage: streams do"
            " not speak at each step. few: too little traffic now.",
            "pods without a ratio of costs",
            "none",
            (Query("max by (pod, part, reason) (llm_engine_cost_unknown) > 0", "{{part}}: {{reason}} {{pod}}"),),
            width=24,
            empty="known",
            words=((1, "unknown", CALM),),
        ),
    ),
)

BOARD = Board(
    "llm-sidecar",
    "LLM sidecar: its own health",
    "What the sidecar costs, what it could attribute and from which source, what it lost, and whether its estimates hold.",
    (_COST, _SEEN, _ESTIMATES),
    runbooks=("LLMSidecarSlow", "LLMAttributionLow", "LLMSidecarDropsObservations", "LLMLabelOverflow"),
)
