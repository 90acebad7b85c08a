"""All pods by lane, the odd one first: is it one machine, or everybody?"""

from grafana.panel import GREEN, ORANGE, RED, YELLOW, Board, Kind, Panel, Row
from grafana.query import ENGINE_OF, Query, gauge, quantiles
from grafana.shapes import COUNTED, ENGINE, FIRST_TOKENS, GAPS, TIMES, kv_usage, preemptions, waiting
from grafana.surroundings import kept


_WHERE = "namespace, model, lane, pod"
_MISSED = f'sum by ({_WHERE}) (increase(llm_slo_misses_total{{objective="ttft"}}[W]))'
_ASKED = f'sum by ({_WHERE}) (increase(llm_slo_requests_total{{objective="ttft"}}[W]))'
_P95 = f"histogram_quantile(0.95, sum by ({_WHERE}, le) (increase(llm_time_to_first_token_seconds_bucket[W])))"
_TPOT = f"histogram_quantile(0.95, sum by ({_WHERE}, le) (increase(llm_time_per_output_token_seconds_bucket[W])))"

_OUTLIERS = Row(
    "Outliers first, over the time shown",
    (
        Panel(
            Kind.TABLE,
            "Pods by lane",
            "Each pod against the middle one of its lane: 1 is like the others. One line far above 1: that machine. All near 1 and all"
            " missing: the load, or the model.",
            f"misses and requests: {COUNTED}; TTFT: {FIRST_TOKENS}",
            "s",
            (
                Query(
                    f"{_P95} / on (WHO) group_left () quantile by (WHO) (0.5, {_P95})",
                    "TTFT of the lane's median",
                    unit=TIMES,
                    colours=((1.5, YELLOW), (3, RED)),
                ),
                Query(_P95, "TTFT p95"),
                Query(_TPOT, "TPOT p95"),
                Query(
                    f"{_MISSED} / {_ASKED} >= 0",
                    "missed TTFT",
                    unit="percentunit",
                    colours=((0.05, ORANGE), (0.5, RED)),
                ),
                Query(f"{_ASKED} > 0", "TTFT requests", unit="short"),
            ),
            width=24,
            height=10,
            links=(
                ("pod", "This pod's anatomy", kept("llm-anatomy", "namespace", "pod")),
                ("lane", "Lanes and lengths", kept("llm-lanes", "namespace", "model", "lane")),
            ),
            sorted_by="TTFT of the lane's median",
        ),
        Panel(
            Kind.LINES,
            "$lane: time to first token p95 by pod",
            "One line for each pod. One that leaves the others: the machine, or what the balancer sends there.",
            FIRST_TOKENS,
            "s",
            quantiles(
                "llm_time_to_first_token_seconds",
                by=_WHERE,
                legend="{{pod}} {{lane}} ({{model}} {{namespace}})",
                of=(0.95,),
                exemplars=True,
            ),
            width=8,
            per_lane=True,
        ),
    ),
)

_HEALTH = Row(
    "The engines",
    (
        Panel(
            Kind.TIMELINE,
            "Engine up",
            "By the sidecar's own checks; an engine that is silent counts as busy until it has missed three and sent nothing for 15 s.",
            "pods whose sidecar is scraped",
            "none",
            (gauge("llm_engine_up", how="min"),),
            empty="not checked yet",
            words=((0, "down", RED), (1, "up", GREEN)),
        ),
        Panel(
            Kind.TABLE,
            "What runs where",
            "What each engine says that it is, with the two labels that every series carries; source and provisional say where the pod's"
            " usual values come from.",
            "pods whose engine has told its version",
            "none",
            (
                Query("group by (POD, engine, version, quantization, gpu_type) (llm_engine_info)", "known"),
                Query("group by (POD, quantization, gpu_type, source, provisional) (llm_baseline_info)", "baseline"),
            ),
            empty="",
            hidden=("known", "baseline"),
        ),
        waiting(width=8),
        kv_usage(width=8),
        preemptions(width=8),
        Panel(
            Kind.BARS,
            "Restarts",
            "Restarts of the engine that the sidecar saw. Caches are cold afterwards, and requests in flight were lost.",
            "engines of the pods chosen",
            "short",
            (Query("sum by (POD) (increase(llm_engine_restarts_total[R]))", "{{pod}} {{namespace}}"),),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Silence, and what would explain it",
            "Seconds since the last output while a stream is being read, and three times the prefill work that was pending when the"
            " silence began: above it, and above 8 s, the engine stalls.",
            "pods with a streamed request in flight that is being read and none that is not streamed; else 0",
            "s",
            (
                gauge("llm_engine_silence_seconds", legend="{{pod}} {{namespace}} silent"),
                Query("3 * max by (POD) (llm_engine_silence_expected_seconds)", "{{pod}} {{namespace}} explained"),
            ),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Stalled",
            "Seconds of silence beyond 8 s and beyond what was pending, in each second.",
            "pods of which the silence is known, as in the panel beside",
            "percentunit",
            (Query("sum by (POD) (rate(llm_engine_stalled_seconds_total[R]))", "{{pod}} {{namespace}}"),),
            width=8,
            steps=((0.1, RED),),
        ),
    ),
)

_ODD = Row(
    "Is it one machine",
    (
        Panel(
            Kind.LINES,
            "Cost of one step of a fixed shape, by pod",
            "Estimated seconds of one decode step of the same shape on each pod, as dear as steps are now. One pod above the others with"
            " the same hardware: that machine.",
            GAPS,
            "s",
            (gauge("llm_engine_step_cost_seconds"),),
            empty="not learned yet",
        ),
        Panel(
            Kind.TIMELINE,
            "Pods with a page of their own",
            "This pod burns, and misses three times as much as the other pods together. Lane pages then leave its misses out.",
            COUNTED,
            "none",
            (Query("max by (POD, job, model) (pod:llm_slo:odd)", f"{{{{pod}}}} {ENGINE_OF}"),),
            empty="none",
            words=((1, "odd", RED),),
        ),
    ),
)

_TRUST = Row(
    "Is everything seen",
    (
        Panel(
            Kind.LINES,
            "Traffic that the sidecar sees",
            "Below 0.9 some clients bypass the sidecar, or use an API that it does not measure.",
            f"{ENGINE.removesuffix(', by its own metrics')}, in the last ten minutes of its metrics; from 100 on, and 4 for each in flight",
            "percentunit",
            (gauge("llm_engine_traffic_seen_ratio"),),
            empty="too few requests",
        ),
        Panel(
            Kind.LINES,
            "Our sums over the engine's own",
            "1 is agreement. Away from it while all traffic is seen: do not trust the split before this is explained.",
            "requests that the engine reported on, in the last ten minutes of its metrics",
            "percentunit",
            (
                gauge(
                    "llm_engine_report_agreement_ratio",
                    by="POD, phase",
                    legend="{{pod}} {{namespace}} {{phase}}",
                    how="min",
                ),
            ),
            empty="too few requests",
        ),
    ),
)

BOARD = Board(
    "llm-fleet",
    "LLM fleet: all pods",
    "Every pod by lane, outliers first; the engines' state; and whether the sidecars see everything.",
    (_OUTLIERS, _ODD, _HEALTH, _TRUST),
    runbooks=("LLMPodBurn", "LLMEngineBurn", "LLMEngineDown", "LLMNothingComesBack"),
)
