"""Alerts about what stands still, fills up or drifts: the engine pod by pod, the traffic lane by lane, and the sidecar itself.

Pod alerts carry `namespace`, `job` and `pod`, so that Alertmanager can mute by them; lane alerts carry no pod. The phase of an
alert is that of its cause in the closed table (`sidecar/slo/causes.py`). Gauges are read through
`min_over_time` or `max_over_time`: one failed scrape must neither raise nor clear an alert.
"""

from sidecar.export.rules.annotations import links, most_on, told_apart
from sidecar.export.rules.burn import PAGING, POD_LABELS
from sidecar.export.rules.root_rules import ODD, pod_roots
from sidecar.export.rules.rule import Alert
from sidecar.export.rules.severity import NO_SEVERITY
from sidecar.slo.attribution import SIDECAR
from sidecar.slo.causes import PHASE_OF, Cause


Bases = tuple[str, str]
_WHO = ("namespace", "job", "model", "lane")
_ONE_POD, _VARIABLES = ("namespace", "job", "pod"), ("namespace", "pod", "lane")
_MUTING_KEPT = "5m"
"""The page of a pod that these mute goes on for its window of 2 minutes and for the 3 minutes that it is kept."""


def _alert(
    name: str,
    cause: Cause,
    expr: str,
    summary: str,
    description: str,
    *,
    bases: Bases,
    hold: str = "",
    kept: str = "",
    severity: str = "ticket",
    labels: tuple[str, ...] = _ONE_POD,
    dashboard: str = "llm-fleet",
) -> Alert:
    """`labels`: those that the alert carries, for its links."""
    further = links(name, bases, labels, shown=[one for one in _VARIABLES if one in labels], dashboard=dashboard)
    annotations = {"summary": summary, "description": description, **further}
    return Alert(
        name,
        expr,
        description.split(". ", maxsplit=1)[0] + ".",
        {"severity": severity, "phase": str(PHASE_OF[cause])},
        annotations,
        hold,
        kept,
    )


def engine_alerts(bases: Bases) -> tuple[Alert, ...]:
    """The engine's state, pod by pod."""
    return (
        _alert(
            "LLMNothingComesBack",
            Cause.SILENCE,
            f"""
              sum by ({POD_LABELS}) (increase(llm_engine_stalled_seconds_total[2m])) >= 20
            or
              max by ({POD_LABELS}) (min_over_time(llm_oldest_request_seconds{{state="waiting"}}[2m])) > 60
              and on ({POD_LABELS}) sum by ({POD_LABELS}) (min_over_time(llm_requests_overdue[2m])) > 0
              unless on ({POD_LABELS}) sum by ({POD_LABELS}) (increase(llm_inter_token_seconds_count[2m])) > 0
              unless on ({POD_LABELS}) sum by ({POD_LABELS}) (increase(llm_requests_total{{outcome="ok"}}[2m])) > 0
            """,
            "{{ $labels.pod }}: requests wait and nothing comes back",
            "Streamed requests are in flight and the engine has sent no token for longer than its pending prefills explain."
            " It hangs, or what stands between it and the sidecar does.",
            bases=bases,
            kept=_MUTING_KEPT,
            severity="page",
        ),
        _alert(
            "LLMEngineDown",
            Cause.DOWN,
            f"""
            max by ({POD_LABELS}) (
              max_over_time(llm_engine_up[1m]) == 0
              unless on ({POD_LABELS}, instance) (
                max_over_time(llm_engine_up[2h]) == 0 and on ({POD_LABELS}, instance) time() - process_start_time_seconds < 1800
              )
            )
            """,
            "{{ $labels.pod }}: the engine "
            + told_apart(
                "llm_engine_stalled",
                ("namespace", "job", "pod"),
                "has stopped in the middle of its work (/health may still say 200)",
                "does not answer",
            ),
            "The sidecar is up, and its engine refuses connections, says itself that it cannot work, or has stopped in the middle of"
            " its work: it is silent for longer than its pending work explains. One that has not come up yet since its pod began"
            " has half an hour to load its model.",
            bases=bases,
            kept=_MUTING_KEPT,
            severity="page",
        ),
        _alert(
            "LLMEngineRestarted",
            Cause.RESTART,
            f"sum by ({POD_LABELS}) (increase(llm_engine_restarts_total[10m])) > 0",
            '{{ $labels.pod }}: the engine restarted {{ $value | printf "%.0f" }} time(s) in ten minutes',
            "The engine's counters or its start time fell back. Every request in flight was lost, and its caches are cold.",
            bases=bases,
        ),
        _alert(
            "LLMEnginePreempting",
            Cause.PREEMPTION,
            f"""
            sum by ({POD_LABELS}) (rate(llm_engine_preemptions_total[5m])) / sum by ({POD_LABELS}) (rate(llm_requests_received_total[5m])) >= 0.05
            and on ({POD_LABELS}) sum by ({POD_LABELS}) (increase(llm_engine_preemptions_total[5m])) >= 3
            """,
            "{{ $labels.pod }}: {{ $value | humanizePercentage }} of the requests are preempted",
            "The engine admits more than its KV cache holds, throws running requests out and computes them again."
            " Their second wait hides in prefill or decode.",
            bases=bases,
            hold="1m",
        ),
        _alert(
            "LLMEngineKvCacheFull",
            Cause.KV,
            f"""
            min by ({POD_LABELS}) (min_over_time(llm_engine_kv_cache_usage_ratio[2m])) >= 0.95
            and on ({POD_LABELS}) min by ({POD_LABELS}) (min_over_time(llm_engine_requests_waiting[2m])) > 0
            """,
            "{{ $labels.pod }}: KV cache {{ $value | humanizePercentage }} full while requests wait",
            "Requests wait for KV blocks and not for compute. Admitting more of them would preempt.",
            bases=bases,
            hold="1m",
        ),
        _alert(
            "LLMPrefixCacheCollapsed",
            Cause.UNCACHED,
            f"""
            (
              sum by ({POD_LABELS}) (rate(llm_engine_prefix_cache_hits_total[15m])) / (sum by ({POD_LABELS}) (rate(llm_engine_prefix_cache_queries_total[15m])) > 0)
            ) < 0.5 * (
              sum by ({POD_LABELS}) (rate(llm_engine_prefix_cache_hits_total[30m] offset 3h))
                / (sum by ({POD_LABELS}) (rate(llm_engine_prefix_cache_queries_total[30m] offset 3h)) > 0) >= 0.2
            )
            """,
            "{{ $labels.pod }}: only {{ $value | humanizePercentage }} of the prompt tokens are cached, less than half of before",
            "The prefix cache hits less than half as often as three hours before. Every prompt costs more prefill,"
            " and that turns up as the queue of all requests.",
            bases=bases,
            hold="5m",
        ),
        _alert(
            "LLMEventsInBursts",
            Cause.HOP,
            f"""
            1 - sum by ({POD_LABELS}, lane) (rate(llm_stream_events_per_read_bucket{{le="5.0"}}[10m]))
              / (sum by ({POD_LABELS}, lane) (rate(llm_stream_events_per_read_count[10m])) > 0.1) > 0.1
            """,
            "{{ $labels.pod }}, {{ $labels.lane }}: {{ $value | humanizePercentage }} of the reads bring more than five events at once",
            "Something between the engine and the sidecar collects tokens and lets them go together. Time to first token and"
            " smoothness suffer, the engine does not.",
            bases=bases,
            hold="5m",
            labels=(*_ONE_POD, "lane"),
            dashboard="llm-stream",
        ),
    )


def traffic_alerts(bases: Bases) -> tuple[Alert, ...]:
    """Alerts about clients, lane by lane."""
    who = ", ".join(_WHO)
    return (
        _alert(
            "LLMPromptsGrowing",
            Cause.PROMPT_MIX,
            f"""
            (
              sum by ({who}) (increase(llm_prompt_tokens_sum[30m])) / (sum by ({who}) (increase(llm_prompt_tokens_count[30m])) >= 100)
            ) > 1.3 * (
              sum by ({who}) (increase(llm_prompt_tokens_sum[30m] offset 1w)) / (sum by ({who}) (increase(llm_prompt_tokens_count[30m] offset 1w)) >= 100)
            )
            """,
            '{{ $labels.lane }}: prompts are {{ $value | printf "%.0f" }} tokens long, 30 % or more above a week ago'
            + most_on("llm_prompt_tokens_sum", "", "30m", _WHO),
            "The mean prompt has grown by 30 % or more against the same half hour a week ago. It is the silent cause of most queues:"
            " the limits of the engine were set for shorter prompts.",
            bases=bases,
            hold="2h",
            labels=_WHO,
            dashboard="llm-lanes",
        ),
        _alert(
            "LLMClientsGiveUp",
            Cause.LOAD,
            f"""
            (
              sum by ({who}) (rate(llm_client_cancels_total{{stage="waiting"}}[15m])) / (sum by ({who}) (rate(llm_requests_received_total[15m])) > 0) >= 0.05
            )
            and on ({who}) sum by ({who}) (increase(llm_client_cancels_total{{stage="waiting"}}[15m])) >= 10
            unless on ({who}) (
              sum by ({who}) (rate(llm_client_cancels_total{{stage="waiting"}}[15m]))
                < 3 * sum by ({who}) (rate(llm_client_cancels_total{{stage="waiting"}}[30m] offset 3h))
            )
            unless on ({who}) max_over_time(lane:llm_slo_burn:tier{{tier=~"{PAGING}"}}[10m])
            unless on (namespace, job, model) max_over_time({ODD.name}[10m])
            """,
            "{{ $labels.lane }}: {{ $value | humanizePercentage }} of the clients leave before their first token"
            + most_on("llm_client_cancels_total", 'stage="waiting"', "15m", _WHO),
            "Clients give up while they wait, three times as often as before. In the last ten minutes this lane did not burn fast"
            " enough to page, and no pod of its model stood out. Clients that leave before the threshold are no misses, so the"
            " objective may look better than the users' day.",
            bases=bases,
            hold="5m",
            labels=_WHO,
            dashboard="llm-queue",
        ),
        _alert(
            "LLMRequestsRejected",
            Cause.LOAD,
            f"""
            (
              sum by ({who}) (rate(llm_requests_total{{outcome="rejected"}}[5m])) / (sum by ({who}) (rate(llm_requests_total[5m])) > 0) >= 0.05
            )
            and on ({who}) sum by ({who}) (increase(llm_requests_total{{outcome="rejected"}}[5m])) >= 10
            """,
            "{{ $labels.lane }}: {{ $value | humanizePercentage }} of the requests are turned away (429, 503)"
            + most_on("llm_requests_total", 'outcome="rejected"', "5m", _WHO),
            "The engine, or the sidecar's own limit on requests in flight, rejects work. What is rejected counts as a TTFT miss"
            " of the queue.",
            bases=bases,
            hold="2m",
            labels=_WHO,
            dashboard="llm-queue",
        ),
    )


def sidecar_alerts(bases: Bases) -> tuple[Alert, ...]:
    """The sidecar itself: what it no longer sees, and what it costs."""
    sidecars = "group by (namespace, pod, instance, job) (last_over_time(llm_sidecar_build_info[1d]))"
    unreachable = f"""(
              up == 0 and on (namespace, pod, instance, job) {sidecars}
              unless on (namespace, pod) (
                (count by (namespace, pod) (up) > 1) unless on (namespace, pod) (sum by (namespace, pod) (up) > 0)
              )
            )"""
    sidecars_own = pod_roots(f'phase="{SIDECAR}"')

    def own(
        name: str,
        expr: str,
        summary: str,
        description: str,
        *,
        hold: str,
        kept: str = "",
        severity: str = "ticket",
        labels: tuple[str, ...] = _ONE_POD,
    ) -> Alert:
        return _alert(
            name,
            Cause.SIDECAR_LATE,
            expr,
            summary,
            description,
            bases=bases,
            hold=hold,
            kept=kept,
            severity=severity,
            labels=labels,
            dashboard="llm-sidecar",
        )

    return (
        own(
            "LLMSidecarAbsent",
            f"""
            (
                group by (namespace, job) ({sidecars})
                unless on (namespace, job) llm_sidecar_build_info
              or on ()
                absent(llm_sidecar_build_info)
            )
            unless on (namespace, job) {unreachable}
            """,
            "{{ with $labels.job }}{{ . }}: no{{ else }}No{{ end }} sidecar is scraped at all",
            "Prometheus has no metrics of any sidecar of this job and namespace, of which it had some within a day: discovery, a rename"
            " or the whole deployment. Without them nothing else pages. Without a job it is about all sidecars. One that was removed"
            " on purpose ends after a day: silence it for as long.",
            hold="5m",
            severity="page",
            labels=(),
        ),
        own(
            "LLMSidecarStarved",
            f"""
            (
                sum by ({POD_LABELS}) ({sidecars_own})
                  / sum by ({POD_LABELS}) ({pod_roots()}) >= 0.5
              or
                histogram_quantile(0.99, sum by ({POD_LABELS}, le) (rate(llm_sidecar_event_loop_lag_seconds_bucket[2m]))) > 0.25
            )
            and on ({POD_LABELS}) sum by ({POD_LABELS}) ({pod_roots()}) >= 10
            and on (namespace, job) (lane:llm_slo_burn:tier{{tier=~"{PAGING}"}} or pod:llm_slo:odd) == 1
            """,
            "{{ $labels.pod }}: the sidecar lacks CPU, and this pod's requests miss",
            "Half of this pod's decided misses are the sidecar's own, or its event loop is late by more than 250 ms, while its lanes"
            " or this pod burn. The page of this pod alone is held back. A lane's page counts all pods and may stand beside this one: begin here, as what a late sidecar measures names no phase.",
            hold="",
            kept=_MUTING_KEPT,
            severity="page",
        ),
        own(
            "LLMSidecarDown",
            f"max by ({POD_LABELS}) {unreachable}",
            "{{ $labels.pod }}: the sidecar cannot be scraped",
            "A sidecar that was scraped within a day no longer answers, and nothing says that its whole pod is gone: where the"
            " engine is a target of its own, it must be up. Its traffic fails, or is not measured.",
            hold="1m",
            severity="page",
        ),
        own(
            "LLMSidecarBypassed",
            f"max by ({POD_LABELS}) (max_over_time(llm_engine_traffic_seen_ratio[10m])) < 0.9",
            "{{ $labels.pod }}: only {{ $value | humanizePercentage }} of the engine's requests pass the sidecar",
            "The engine counts more finished requests than the sidecar sees. Some client uses the engine's own port, or an API that is"
            " not measured.",
            hold="10m",
        ),
        own(
            "LLMSidecarDisagrees",
            f"""
            max by ({POD_LABELS}) (abs(1 - llm_engine_report_agreement_ratio)) > 0.1
            unless on ({POD_LABELS}) max by ({POD_LABELS}) (max_over_time(llm_engine_traffic_seen_ratio[10m])) < 0.9
            """,
            "{{ $labels.pod }}: the sidecar's sums are {{ $value | humanizePercentage }} away from the engine's own",
            "The phases that the engine reported request by request do not add up to its own totals, although all traffic is seen."
            " Do not trust the split before this is explained.",
            hold="15m",
        ),
        own(
            "LLMSidecarSlow",
            f"""
              histogram_quantile(0.99, sum by ({POD_LABELS}, le) (rate(llm_sidecar_overhead_seconds_bucket[10m]))) > 0.005
            or
              histogram_quantile(0.99, sum by ({POD_LABELS}, le) (rate(llm_sidecar_event_loop_lag_seconds_bucket[10m]))) > 0.05
            """,
            "{{ $labels.pod }}: the sidecar delays tokens, p99 {{ $value | humanizeDuration }}",
            "Either its own overhead on a chunk is above 5 ms at the 99th percentile, or its event loop is late by more than 50 ms."
            " It is starved of CPU, or throttled.",
            hold="10m",
        ),
        own(
            "LLMSidecarDropsObservations",
            f"""
            sum by ({POD_LABELS}) (increase(llm_sidecar_dropped_total{{reason!="log_limited"}}[15m]))
              / (sum by ({POD_LABELS}) (increase(llm_requests_total[15m])) > 0) > 0.01
            and on ({POD_LABELS}) sum by ({POD_LABELS}) (increase(llm_sidecar_dropped_total{{reason!="log_limited"}}[15m])) >= 10
            """,
            "{{ $labels.pod }}: {{ $value | humanizePercentage }} of the requests are not measured whole",
            "Observations were dropped, for the reasons that llm_sidecar_dropped_total names. Traffic is not concerned.",
            hold="5m",
        ),
        own(
            "LLMAttributionLow",
            """
            sum by (namespace, job, lane) (rate(llm_phase_attribution_total{source="none"}[30m]))
              / (sum by (namespace, job, lane) (rate(llm_phase_attribution_total[30m])) > 0) > 0.5
            and on (namespace, job, lane) sum by (namespace, job, lane) (increase(llm_phase_attribution_total[30m])) >= 50
            """,
            "{{ $labels.lane }}: no split is known of the TTFT of {{ $value | humanizePercentage }} of the requests"
            + most_on("llm_phase_attribution_total", 'source="none"', "30m", ("namespace", "job", "lane")),
            "The engine does not report, and the estimator is not ready. Misses of this lane can only page as unattributed;"
            " the status page names the engine's flag that would tell.",
            hold="30m",
            labels=("namespace", "job", "lane"),
        ),
        own(
            "LLMLabelOverflow",
            f"sum by ({POD_LABELS}) (increase(llm_sidecar_label_overflow_total[15m])) >= 10",
            '{{ $labels.pod }}: {{ $value | printf "%.0f" }} observations were counted under `other`',
            "Requests name models or lanes that the config does not know, or the limit of series is reached. They are counted, but"
            " not where they belong.",
            hold="5m",
        ),
        own(
            "LLMConfigReloadFailed",
            f"max by ({POD_LABELS}) (max_over_time(llm_sidecar_config_last_reload_successful[5m])) == 0",
            "{{ $labels.pod }}: the last config reload was refused",
            "The old config stays in force. `sidecar check` says everything that is wrong with the new one.",
            hold="5m",
        ),
        Alert(
            "Watchdog",
            "vector(1)",
            "Always fires: if it is no longer heard, Prometheus, Alertmanager or the way between them is lost.",
            {"severity": NO_SEVERITY, "phase": SIDECAR},
            {
                "summary": "Alerting works",
                "description": "This alert always fires. Send it to a dead man's switch.",
                **links("Watchdog", bases, (), dashboard="llm-sidecar"),
            },
        ),
    )
