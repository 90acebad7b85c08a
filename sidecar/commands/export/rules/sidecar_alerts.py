"""Alerts about a sidecar that is scraped: what it no longer sees, and what it costs.

Knows its own metrics and the rules of `state_alerts.py` for an alert of a pod. Refuses to know the engine.
"""

from functools import partial

from sidecar.commands.export.rules.annotations import PERCENT, links, most_on
from sidecar.commands.export.rules.burn import ENGINE_LABELS, PAGING, POD_LABELS
from sidecar.commands.export.rules.root_rules import pod_roots
from sidecar.commands.export.rules.rule import Alert
from sidecar.commands.export.rules.severity import NO_SEVERITY
from sidecar.commands.export.rules.state_alerts import MUTING_KEPT, Bases, state_alert
from sidecar.metrics.target_labels import ONE_ENGINE
from sidecar.metrics.vocabulary import NO_HOLES
from sidecar.objectives.attribution import SIDECAR
from sidecar.pod.causes import Cause


def sidecar_alerts(bases: Bases) -> tuple[Alert, ...]:
    """The sidecar that is scraped: what it no longer sees, and what it costs."""
    lane = (*ONE_ENGINE, "lane")
    of_lane = ", ".join(lane)
    sidecars_own = pod_roots(f'phase="{SIDECAR}"')
    no_holes = "|".join(NO_HOLES)
    own = partial(state_alert, cause=Cause.SIDECAR_LATE, bases=bases, dashboard="llm-sidecar")
    return (
        own(
            "LLMSidecarStarved",
            f"""
            (
                sum by ({POD_LABELS}) ({sidecars_own})
                  / sum by ({POD_LABELS}) ({pod_roots()}) >= 0.5
              or
                sum by ({POD_LABELS}) (rate(llm_sidecar_event_loop_checks_total{{result="very_late"}}[2m]))
                  / sum by ({POD_LABELS}) (rate(llm_sidecar_event_loop_checks_total[2m])) > 0.01
            )
            and on ({POD_LABELS}) sum by ({POD_LABELS}) ({pod_roots()}) >= 10
            and on ({ENGINE_LABELS}) (lane:llm_slo_burn:tier{{tier=~"{PAGING}"}} or pod:llm_slo:odd) == 1
            """,
            "{{ $labels.pod }}: the sidecar lacks CPU, and this pod's requests miss",
            "Half of this pod's decided misses are the sidecar's own, or more than one timer in a hundred of its event loop fires more"
            " than 250 ms late, while its lanes or this pod burn. The page of this pod alone is held back. A lane's page counts all pods and may stand beside this one: begin here, as what a late sidecar measures names no phase.",
            kept=MUTING_KEPT,
            severity="page",
        ),
        own(
            "LLMSidecarBypassed",
            f"max by ({POD_LABELS}) (max_over_time(llm_engine_traffic_seen_ratio[10m])) < 0.9",
            f"{{{{ $labels.pod }}}}: only {{{{ $value | {PERCENT} }}}} of the engine's requests pass the sidecar",
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
            f"{{{{ $labels.pod }}}}: the sidecar's sums are {{{{ $value | {PERCENT} }}}} away from the engine's own",
            "The phases that the engine reported request by request do not add up to its own totals, although all traffic is seen."
            " Do not trust the split before this is explained.",
            hold="15m",
        ),
        own(
            "LLMSidecarSlow",
            f"""
              sum by ({POD_LABELS}) (rate(llm_sidecar_timed_reads_total{{result="late"}}[10m]))
                / sum by ({POD_LABELS}) (rate(llm_sidecar_timed_reads_total[10m])) > 0.01
            or
              sum by ({POD_LABELS}) (rate(llm_sidecar_event_loop_checks_total{{result!="in_time"}}[10m]))
                / sum by ({POD_LABELS}) (rate(llm_sidecar_event_loop_checks_total[10m])) > 0.01
            """,
            f"{{{{ $labels.pod }}}}: the sidecar delays tokens, it is late in {{{{ $value | {PERCENT} }}}} of its measurements",
            "It delays more than one chunk in a hundred by more than 5 ms, or more than one timer in a hundred of its event loop fires more than"
            " 50 ms late."
            " It is starved of CPU, or throttled.",
            hold="10m",
        ),
        own(
            "LLMSidecarDropsObservations",
            f"""
            sum by ({POD_LABELS}) (increase(llm_sidecar_dropped_total{{reason!~"{no_holes}"}}[15m]))
              / (sum by ({POD_LABELS}) (increase(llm_requests_total[15m])) > 0) > 0.01
            and on ({POD_LABELS}) sum by ({POD_LABELS}) (increase(llm_sidecar_dropped_total{{reason!~"{no_holes}"}}[15m])) >= 10
            """,
            f"{{{{ $labels.pod }}}}: {{{{ $value | {PERCENT} }}}} of the requests are not measured whole",
            "Observations were dropped, for the reasons that llm_sidecar_dropped_total names. Traffic is not concerned.",
            hold="5m",
        ),
        own(
            "LLMAttributionLow",
            f"""
            sum by ({of_lane}) (rate(llm_phase_attribution_total{{source="none"}}[30m]))
              / (sum by ({of_lane}) (rate(llm_phase_attribution_total[30m])) > 0) > 0.5
            and on ({of_lane}) sum by ({of_lane}) (increase(llm_phase_attribution_total[30m])) >= 50
            """,
            f"{{{{ $labels.lane }}}}: no split is known of the TTFT of {{{{ $value | {PERCENT} }}}} of the requests"
            + most_on("llm_phase_attribution_total", 'source="none"', "30m", lane),
            "The engine does not report, and the estimator is not ready. Misses of this lane can only page as unattributed;"
            " the status page names the engine's flag that would tell.",
            hold="30m",
            labels=lane,
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
