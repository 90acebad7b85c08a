"""All pods by lane, the odd one first: is it one machine, or all?"""

from collections.abc import Iterator

from grafana.colours import CALM, RED, WARN
from grafana.panel import Board, Kind, Panel, Row
from grafana.query import Query, grown, pod_mean, state
from grafana.shapes import COUNTED, ENGINE, FIRST_TOKENS, GAPS, MISSED, OK, TIMES, TPOTS
from grafana.surroundings import ONLY_THIS_POD, kept


_WHERE = "cluster, namespace, model, lane, pod"
_MISSED, _ASKED = (
    grown(f"llm_slo_{counter}_total", by=_WHERE, matchers='objective="ttft"') for counter in ("misses", "requests")
)
_TTFT, _TPOT = (
    pod_mean("llm_time_to_first_token_seconds", by=_WHERE),
    pod_mean("llm_time_per_output_token_seconds", by=_WHERE),
)

_OUTLIERS = Row(
    "Outliers first, over the time shown",
    (
        Panel(
            Kind.TABLE,
            "Pods by lane",
            "Each pod against the middle one of its lane: 1 is like the others. One line far above 1: that machine. All near 1 and all"
            " missing: the load, or the model. Coloured from a third of the requests on, as an outage pages. Of pods there are means alone; quantiles are by lane, on the other dashboards.",
            f"misses and requests: {COUNTED}; TTFT: {FIRST_TOKENS}; TPOT: {TPOTS}",
            "s",
            (
                Query(
                    f"({_TTFT}) / on (WHO) group_left () quantile by (WHO) (0.5, {_TTFT})",
                    "TTFT of the median",
                    unit=TIMES,
                    colours=((1.5, WARN), (3, RED)),
                    decimals=1,
                ),
                Query(_TTFT, "TTFT mean"),
                Query(_TPOT, "TPOT mean"),
                Query(
                    f"{_MISSED} / {_ASKED} >= 0",
                    "missed TTFT",
                    unit="percentunit",
                    colours=MISSED,
                    decimals=0,
                ),
                Query(f"{_ASKED} > 0", "requests", unit="short"),
            ),
            width=24,
            order=("pod", "lane", "model", "cluster", "namespace"),
            links=(ONLY_THIS_POD, ("lane", "Lanes and lengths", kept("llm-lanes", "namespace", "model", "lane"))),
            sorted_by="TTFT of the median",
        ),
    ),
)


def _now(name: str, legend: str, *, unit: str = "short", how: str = "max", **colours: object) -> Query:
    return Query(f"{how} by (POD) ({name})", legend, unit=unit, **colours)  # type: ignore[arg-type]


def _grown(counter: str, legend: str) -> Query:
    return Query(f"sum by (POD) (increase({counter}[W])) > 0", legend, unit="short")


def _costs() -> Iterator[Query]:
    for part in ("prefill", "decode"):
        for name, words in (("", ""), ("_low", " at least"), ("_high", " at most")):
            yield Query(
                f'max by (POD) (llm_engine_cost_ratio{name}{{part="{part}"}})', f"{part}{words}", unit=TIMES, decimals=2
            )


_ROOM = Row(
    "Each engine",
    (
        Panel(
            Kind.TABLE,
            "Room and work, by pod",
            "Waiting, running and KV cache now; preempted, restarts and tokens over the time shown. One pod with the whole queue: that"
            " replica, or the balancing. Silent: seconds since the last output; it stalls above three times what pending prompts explain.",
            f"{ENGINE}; tokens: {OK}",
            "short",
            (
                _now("llm_engine_requests_waiting", "waiting", colours=((1, WARN),)),
                _now("llm_engine_requests_running", "running"),
                _now(
                    "llm_engine_kv_cache_usage_ratio",
                    "KV cache",
                    unit="percentunit",
                    colours=((0.9, WARN), (0.95, RED)),
                    decimals=0,
                ),
                _grown("llm_engine_preemptions_total", "preempted"),
                _grown("llm_engine_restarts_total", "restarts"),
                Query(f"{grown('llm_output_tokens_sum', by='POD')} > 0", "tokens", unit="short", decimals=1),
                Query(
                    "sum by (POD) (increase(llm_engine_prefix_cache_hits_total[W]))"
                    " / sum by (POD) (increase(llm_engine_prefix_cache_queries_total[W])) >= 0",
                    "prefix hits",
                    unit="percentunit",
                    decimals=0,
                ),
                _now("llm_engine_silence_seconds", "silent", unit="s"),
                Query("3 * max by (POD) (llm_engine_silence_expected_seconds)", "expected silence", unit="s"),
                Query(
                    "sum by (POD) (increase(llm_engine_stalled_seconds_total[W])) > 0",
                    "stalled",
                    unit="s",
                    colours=((1, RED),),
                ),
            ),
            width=24,
            order=("pod", "cluster", "namespace"),
            links=(ONLY_THIS_POD,),
            sorted_by="waiting",
        ),
        Panel(
            Kind.TABLE,
            "What work costs, and whether all is seen, by pod",
            "The cost of the same prefill and decode work over its usual cost, with its interval of 95 %. Of expected: seconds of prefill for each that was"
            " expected of the same prompts alone, over the time shown; seconds of one decode step of a fixed shape. Traffic seen: below 0.9 some clients bypass the sidecar. Sums agree: our sums over the engine's own; away from 1, do not"
            " trust the split.",
            f"{GAPS}; traffic seen and sums agree: {ENGINE}, in the last ten minutes of its metrics",
            TIMES,
            (
                *_costs(),
                Query(
                    "sum by (POD) (increase(llm_prefill_own_seconds_total[W]))"
                    " / sum by (POD) (increase(llm_prefill_expected_seconds_total[W])) >= 0",
                    "of expected",
                    decimals=2,
                ),
                Query("max by (POD) (llm_engine_step_cost_seconds)", "one step", unit="s"),
                _now("llm_engine_traffic_seen_ratio", "traffic seen", unit="percentunit", decimals=0),
                Query(
                    'min by (POD) (llm_engine_report_agreement_ratio{phase=~".+"})',
                    "sums agree",
                    unit="percentunit",
                    decimals=0,
                ),
            ),
            width=24,
            order=("pod", "cluster", "namespace"),
            links=(ONLY_THIS_POD,),
            sorted_by="decode",
            empty="",
        ),
    ),
)

_STATE = Row(
    "State",
    (
        Panel(
            Kind.TIMELINE,
            "Engine up",
            "By the sidecar's own checks; an engine that is silent counts as busy until it has missed three and sent nothing for 15 s.",
            "pods whose sidecar is scraped",
            "none",
            (state("llm_engine_up", how="min"),),
            width=12,
            empty="not checked yet",
            words=((0, "down", RED), (1, "up", CALM)),
        ),
        Panel(
            Kind.TIMELINE,
            "Pods with a page of their own",
            "This pod burns, and misses three times as much as the other pods together. Lane pages then leave its misses out.",
            COUNTED,
            "none",
            (Query('max by (pod, model) (pod:llm_slo:odd{job=~".+"})', "{{pod}} {{model}}"),),
            width=12,
            empty="none",
            words=((1, "far worse than the others", RED),),
        ),
        Panel(
            Kind.TABLE,
            "What runs where",
            "What each engine says that it is, with the two labels that every series carries; where the pod's usual values come from;"
            " and whether they are only preliminary, because they were learned while an objective burned.",
            "pods whose engine has told its version",
            "none",
            (
                Query("group by (POD, engine, version, quantization, gpu_type) (llm_engine_info)", "known"),
                Query("group by (POD, quantization, gpu_type, source, provisional) (llm_baseline_info)", "baseline"),
            ),
            width=24,
            empty="",
            headings={"source": "usual values from", "provisional": "preliminary"},
            order=("pod", "cluster", "engine", "version"),
            hidden=("known", "baseline", "namespace"),
        ),
    ),
)

BOARD = Board(
    "llm-fleet",
    "LLM fleet: all pods",
    "Every pod by lane, outliers first; the engines' room, work and state; and whether the sidecars see everything.",
    (_OUTLIERS, _ROOM, _STATE),
    runbooks=("LLMPodBurn", "LLMEngineBurn", "LLMEngineDown", "LLMNothingComesBack"),
)
