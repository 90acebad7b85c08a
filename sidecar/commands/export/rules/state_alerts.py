"""Alerts about what stands still, fills up or drifts: the engine pod by pod, and the traffic lane by lane.

Pod alerts carry `namespace`, `job` and `pod`, so that Alertmanager can mute by them; lane alerts carry no pod. The phase of an
alert is that of its cause in the closed table (`sidecar/pod/causes.py`). Gauges are read through
`min_over_time` or `max_over_time`: one failed scrape must neither raise nor clear an alert.
"""

from functools import partial

from sidecar.commands.export.rules.annotations import PERCENT, links, most_on, told_apart
from sidecar.commands.export.rules.burn import ENGINE_LABELS, INSTANCE_LABELS, PAGING, POD_LABELS, PROCESS_AGE
from sidecar.commands.export.rules.root_rules import ODD
from sidecar.commands.export.rules.rule import Alert
from sidecar.metrics.target_labels import ONE_ENGINE, ONE_POD
from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import PHASE_OF, Cause


Bases = tuple[str, str]
_WHO = (*ONE_ENGINE, "model", "lane")
_VARIABLES = ("namespace", "pod", "lane")
MUTING_KEPT = "5m"
"""The page of a pod that these mute goes on for its window of 2 minutes and for the 3 minutes that it is kept."""
_DOWN_ALONE = "2m"
"""An engine that is down pages after this time if no other page tells it. A lane of five requests a minute burns by then: a page that
came before it would be told again when the lane's joins its group."""


def state_alert(
    name: str,
    expr: str,
    summary: str,
    description: str,
    *,
    cause: Cause,
    bases: Bases,
    hold: str = "",
    kept: str = "",
    severity: str = "ticket",
    labels: tuple[str, ...] = ONE_POD,
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
    down = "LLMEngineDown"
    other_pages = f'phase="{Blame.ENGINE}",severity="page",alertstate="firing",alertname!="{down}"'
    of_pod = partial(state_alert, bases=bases)
    return (
        of_pod(
            "LLMNothingComesBack",
            f"""
              sum by ({POD_LABELS}) (increase(llm_engine_stalled_seconds_total[2m])) >= 20
            or
              max by ({POD_LABELS}) (min_over_time(llm_oldest_request_seconds{{state="waiting"}}[2m])) > 60
              and on ({POD_LABELS}) sum by ({POD_LABELS}) (min_over_time(llm_requests_overdue[2m])) > 0
              unless on ({POD_LABELS}) sum by ({POD_LABELS}) (increase(llm_stream_reads_total[2m])) > 0
              unless on ({POD_LABELS}) sum by ({POD_LABELS}) (increase(llm_requests_total{{outcome="ok"}}[2m])) > 0
            """,
            "{{ $labels.pod }}: requests wait and nothing comes back",
            "Streamed requests are in flight and the engine has sent no token for longer than its pending prefills explain."
            " It hangs, or what stands between it and the sidecar does.",
            cause=Cause.SILENCE,
            kept=MUTING_KEPT,
            severity="page",
        ),
        # An engine that is down now pages at once where another page tells of it: so that both are one message.
        of_pod(
            down,
            f"""
            max by ({POD_LABELS}) (
              (
                max_over_time(llm_engine_up[{_DOWN_ALONE}]) == 0
                or
                llm_engine_up == 0 and on ({ENGINE_LABELS}) ALERTS{{{other_pages},lane!=""}}
                or
                llm_engine_up == 0 and on ({POD_LABELS}) ALERTS{{{other_pages},pod!=""}}
              )
              unless on ({INSTANCE_LABELS}) (
                max_over_time(llm_engine_up[2h]) == 0 and on ({INSTANCE_LABELS}) {PROCESS_AGE} < 1800
              )
            )
            """,
            "{{ $labels.pod }}: the engine "
            + told_apart(
                "llm_engine_stalled",
                ONE_POD,
                "has stopped in the middle of its work (/health may still say 200)",
                "does not answer",
            ),
            "The sidecar is up, and its engine refuses connections, says itself that it cannot work, or has stopped in the middle of"
            " its work: it is silent for longer than its pending work explains. One that has not come up yet since its pod began"
            " has half an hour to load its model.",
            cause=Cause.DOWN,
            kept=MUTING_KEPT,
            severity="page",
        ),
        of_pod(
            "LLMEngineRestarted",
            f"sum by ({POD_LABELS}) (increase(llm_engine_restarts_total[10m])) > 0",
            '{{ $labels.pod }}: the engine restarted {{ if lt $value 1.5 }}once{{ else }}{{ $value | printf "%.0f" }} times{{ end }} in ten minutes',
            "The engine's counters or its start time fell back. Every request in flight was lost, and its caches are cold.",
            cause=Cause.RESTART,
        ),
        of_pod(
            "LLMEnginePreempting",
            f"""
            sum by ({POD_LABELS}) (rate(llm_engine_preemptions_total[5m])) / sum by ({POD_LABELS}) (rate(llm_requests_received_total[5m])) >= 0.05
            and on ({POD_LABELS}) sum by ({POD_LABELS}) (increase(llm_engine_preemptions_total[5m])) >= 3
            """,
            f"{{{{ $labels.pod }}}}: {{{{ $value | {PERCENT} }}}} of the requests are preempted",
            "The engine admits more than its KV cache holds, throws running requests out and computes them again."
            " Their second wait hides in prefill or decode.",
            cause=Cause.PREEMPTION,
            hold="1m",
        ),
        of_pod(
            "LLMEngineKvCacheFull",
            f"""
            min by ({POD_LABELS}) (min_over_time(llm_engine_kv_cache_usage_ratio[2m])) >= 0.95
            and on ({POD_LABELS}) min by ({POD_LABELS}) (min_over_time(llm_engine_requests_waiting[2m])) > 0
            """,
            f"{{{{ $labels.pod }}}}: KV cache {{{{ $value | {PERCENT} }}}} full while requests wait",
            "Requests wait for KV blocks and not for compute. Admitting more of them would preempt.",
            cause=Cause.KV,
            hold="1m",
        ),
        of_pod(
            "LLMPrefixCacheCollapsed",
            f"""
            (
              sum by ({POD_LABELS}) (rate(llm_engine_prefix_cache_hits_total[15m])) / (sum by ({POD_LABELS}) (rate(llm_engine_prefix_cache_queries_total[15m])) > 0)
            ) < 0.5 * (
              sum by ({POD_LABELS}) (rate(llm_engine_prefix_cache_hits_total[30m] offset 3h))
                / (sum by ({POD_LABELS}) (rate(llm_engine_prefix_cache_queries_total[30m] offset 3h)) > 0) >= 0.2
            )
            """,
            f"{{{{ $labels.pod }}}}: only {{{{ $value | {PERCENT} }}}} of the prompt tokens are cached, less than half of before",
            "The prefix cache hits less than half as often as three hours before. Every prompt costs more prefill,"
            " and that turns up as the queue of all requests.",
            cause=Cause.UNCACHED,
            hold="5m",
        ),
        of_pod(
            "LLMEventsInBursts",
            f"""
            sum by ({POD_LABELS}, lane) (rate(llm_stream_reads_total{{result="many"}}[10m]))
              / (sum by ({POD_LABELS}, lane) (rate(llm_stream_reads_total[10m])) > 0.1) > 0.1
            """,
            f"{{{{ $labels.pod }}}}, {{{{ $labels.lane }}}}: {{{{ $value | {PERCENT} }}}} of the reads bring more than five events at once",
            "Something between the engine and the sidecar collects tokens and lets them go together. Time to first token and"
            " smoothness suffer, the engine does not.",
            cause=Cause.HOP,
            hold="5m",
            labels=(*ONE_POD, "lane"),
            dashboard="llm-stream",
        ),
    )


def traffic_alerts(bases: Bases) -> tuple[Alert, ...]:
    """Alerts about clients, lane by lane."""
    who = ", ".join(_WHO)
    of_lane = partial(state_alert, bases=bases, labels=_WHO)
    return (
        of_lane(
            "LLMPromptsGrowing",
            f"""
            (
              sum by ({who}) (increase(llm_stated_prompt_tokens_total[30m])) / (sum by ({who}) (increase(llm_stated_prompts_total[30m])) >= 100)
            ) > 1.3 * (
              sum by ({who}) (increase(llm_stated_prompt_tokens_total[30m] offset 1w))
                / (sum by ({who}) (increase(llm_stated_prompts_total[30m] offset 1w)) >= 100)
            )
            """,
            '{{ $labels.lane }}: prompts are {{ $value | printf "%.0f" }} tokens long, 30 % or more above a week ago'
            + most_on("llm_stated_prompt_tokens_total", "", "30m", _WHO),
            "The mean prompt has grown by 30 % or more against the same half hour a week ago. It is the silent cause of most queues:"
            " the limits of the engine were set for shorter prompts.",
            cause=Cause.PROMPT_MIX,
            hold="2h",
            dashboard="llm-lanes",
        ),
        of_lane(
            "LLMClientsGiveUp",
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
            unless on ({ENGINE_LABELS}, model) max_over_time({ODD.name}[10m])
            """,
            f"{{{{ $labels.lane }}}}: {{{{ $value | {PERCENT} }}}} of the clients leave before their first token"
            + most_on("llm_client_cancels_total", 'stage="waiting"', "15m", _WHO),
            "Clients give up while they wait, three times as often as before. In the last ten minutes this lane did not burn fast"
            " enough to page, and no pod of its model stood out. Clients that leave before the threshold are no misses, so the"
            " objective may look better than the users' day.",
            cause=Cause.LOAD,
            hold="5m",
            dashboard="llm-queue",
        ),
        of_lane(
            "LLMRequestsRejected",
            f"""
            (
              sum by ({who}) (rate(llm_requests_total{{outcome="rejected"}}[5m])) / (sum by ({who}) (rate(llm_requests_total{{outcome!="accepted"}}[5m])) > 0) >= 0.05
            )
            and on ({who}) sum by ({who}) (increase(llm_requests_total{{outcome="rejected"}}[5m])) >= 10
            """,
            f"{{{{ $labels.lane }}}}: {{{{ $value | {PERCENT} }}}} of the requests are turned away (429, 503, 529)"
            + most_on("llm_requests_total", 'outcome="rejected"', "5m", _WHO),
            "The engine, or the sidecar's own limit on requests in flight, rejects work. What is rejected counts as a TTFT miss"
            " of the queue.",
            cause=Cause.REJECTED,
            hold="2m",
            dashboard="llm-queue",
        ),
    )
