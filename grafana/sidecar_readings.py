"""Two rows of the sidecar's own dashboard: its readings of the engine and of its files, and its estimator."""

from grafana.panel import GREEN, ORANGE, RED, YELLOW, Kind, Panel, Row
from grafana.query import Query, gauge, quantiles
from grafana.shapes import PODS, STREAMED_OK, counted


_ESTIMATED = "streamed inference requests with outcome ok and a first token, also those on which the engine reports"

READINGS = Row(
    "Readings and state",
    (
        counted(
            "Readings of the engine's metrics",
            "Anything but ok: waiting, running and KV usage are old or missing.",
            "the sidecar's own readings",
            "llm_engine_scrapes_total",
            "result",
            unit="cps",
        ),
        counted(
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
            PODS,
            "none",
            (
                gauge(
                    "llm_sidecar_config_last_reload_successful", legend="{{pod}} {{namespace}} config taken", how="min"
                ),
                gauge("llm_sidecar_ready", legend="{{pod}} {{namespace}} ready", how="min"),
                Query("1 - max by (POD) (llm_sidecar_draining)", "{{pod}} {{namespace}} not draining"),
            ),
            width=12,
            words=((0, "no", RED), (1, "yes", GREEN)),
        ),
        Panel(
            Kind.STAT,
            "Config age",
            "Since the last load of the config that succeeded.",
            PODS,
            "s",
            (
                Query(
                    "time() - min by (POD) (llm_sidecar_config_last_reload_success_timestamp_seconds)",
                    "{{pod}} {{namespace}}",
                ),
            ),
            width=6,
        ),
        Panel(
            Kind.STAT,
            "Time between scrapes",
            "From the scrape before to the one shown: the interval that Prometheus really keeps. Rules need 60 s or less.",
            PODS,
            "s",
            (Query("max by (POD) (llm_sidecar_last_scrape_age_seconds)", "{{pod}} {{namespace}}"),),
            width=6,
        ),
        Panel(
            Kind.TABLE,
            "Versions",
            "The sidecar's own version, and the Python that runs it.",
            PODS,
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
            PODS,
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
            f"{PODS}, where the config does not state the label",
            "none",
            (gauge("llm_engine_label_mismatch", by="POD, label", legend="{{pod}} {{namespace}} {{label}}"),),
            words=((0, "same", GREEN), (1, "differs", ORANGE)),
            empty="stated by the config",
        ),
    ),
)

ESTIMATOR = Row(
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
        counted(
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
