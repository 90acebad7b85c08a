"""Panels that several dashboards share, and the populations that they are about, each said once.

Knows the phases' histograms. Refuses to know where on a dashboard they stand.
"""

from grafana.colours import RED, STACKED, WARN
from grafana.panel import Kind, Panel
from grafana.query import LANE, PODS_NAME, Query, lane_quantile, promised, rate_of, samples_behind
from sidecar.commands.export.rules.dashboard_rules import NOW, SPLIT
from sidecar.metrics.histogram_forms import SAMPLES_NEEDED
from sidecar.objectives.attribution import E2E_SHARES
from sidecar.pod.costs.cost_names import Part


OK = "inference requests with outcome ok"
STREAMED_OK = "streamed inference requests with outcome ok"
FIRST_TOKENS = "streamed inference requests that got a token, whatever their outcome"
GAPS = "gaps between two output events of one choice, of every streamed inference request, as they happen"
TPOTS = "streamed inference requests with outcome ok, one choice and at least two tokens by the engine's usage"
COUNTED = (
    "inference requests that count for the objective, decided at the first token or the deadline; client errors never count,"
    " cancels only after the deadline"
)
MISSES = "requests that missed an objective, when their ledger is closed, which may be long after the miss"
DECIDED = (
    "requests that missed an objective, at most 15 s after the miss; of the shortest window that still burns, without pods that"
    " have a page of their own"
)
ARRIVALS = "inference requests whose body arrived whole, at their arrival"
ENDED = "inference requests that ended, whatever their outcome"
ENGINE = "all requests of the engine, also those that did not come through the sidecar, by its own metrics"
PODS = "pods whose sidecar is scraped"
INSIDE = "inference requests inside the sidecar now"
KNOWN_SPLIT = f"{STREAMED_OK} whose split is known"

MISSED = ((0.33, WARN), (0.5, RED))
"""Colours of a share of missed requests, whatever the target: from a third and from a half on a lane pages at once (`burn.TIERS`). What is
less may be within the target, or chance."""
TIMES = "none"
"""The unit of a multiple: 2.5 times. A share has percentunit."""


POINT_AT_IT = "The number of samples stands in the tooltip."


def tail(objective: str, histogram: str, title: str, about: str, population: str, *, height: int = 8) -> Panel:
    """p95 by lane on a logarithmic axis, with what each lane is promised."""
    return Panel(
        Kind.LINES,
        f"{title} p95 by lane, and thresholds",
        f"{about} Over the last {NOW} at each point, where that is {SAMPLES_NEEDED[0.95]} samples or more; of several models, jobs or namespaces, the slowest. Dashed, in the lane's colour: its"
        f" {objective.upper()} threshold, the most relaxed of its prompt lengths. {POINT_AT_IT}",
        population,
        "s",
        (lane_quantile(histogram), promised(objective, histogram), samples_behind(histogram)),
        height=height,
        logarithmic=True,
        empty=f"fewer than {SAMPLES_NEEDED[0.95]} in {NOW}",
    )


def phase_tail(phase: str, about: str, *, streaming: str = "true") -> Panel:
    """p95 of one phase, by lane."""
    selected = f'phase="{phase}",streaming="{streaming}"'
    return Panel(
        Kind.LINES,
        f"{name_of(phase)} p95 by lane",
        f"{about} Over the last {NOW} at each point. Of several models, jobs or namespaces, the slowest. Quantiles of phases do not add up: for shares look at the means. {POINT_AT_IT}",
        f"{KNOWN_SPLIT}; measured, or estimated where the attribution says so",
        "s",
        (
            lane_quantile("llm_request_phase_seconds", matchers=selected, by=SPLIT),
            samples_behind("llm_request_phase_seconds", matchers=selected, by=SPLIT),
        ),
        logarithmic=True,
        empty=f"fewer than {SAMPLES_NEEDED[0.95]} in {NOW}",
    )


def name_of(phase: str) -> str:
    """As a heading has it."""
    return phase.replace("_", " ").capitalize()


def waited_in(objective: str) -> Panel:
    """The phases in which the missed requests waited."""
    return Panel(
        Kind.BARS,
        f"Where the {objective.upper()} misses waited",
        "Votes of the missed requests. Where they waited is not what broke: behind a slow prefill, other requests wait in the queue;"
        " the verdict weighs the evidence too.",
        MISSES,
        "short",
        (
            Query(
                f'sum by (phase) (increase(llm_slo_blamed_misses_total{{objective="{objective}"}}[R])) > 0', "{{phase}}"
            ),
        ),
        empty="no misses",
        by_phase=True,
    )


def evidence() -> Panel:
    """The ratios of each pod to its usual values."""
    return Panel(
        Kind.LINES,
        "What has grown: now over what is usual, by cause",
        "Load, prompt lengths, uncached prompt tokens, answer lengths, and the cost of the same prefill and decode work, each over its"
        " usual value, which a pod learns while no objective burns; of the pod that shows most. The sidecar weighs them when it"
        " decides a root.",
        "all requests of a pod in the last minute or two, whatever their lane",
        TIMES,
        (Query("max by (cause) (llm_evidence_ratio) > 0", "{{cause}}"),),
        steps=((1.2, WARN),),
        empty="no baseline yet",
        decimals=2,
        logarithmic=True,
    )


def engine_cost(part: Part) -> Panel:
    """The cost of the engine's work now over its usual cost."""
    work = "a step of the same sequences and contexts" if part is Part.DECODE else "the same uncached prompt tokens"
    return Panel(
        Kind.LINES,
        f"Cost of {part}: now over what is usual, by pod",
        f"What {work} costs now over what it cost while no objective burned; an estimate, whose interval is on Fleet. One pod only:"
        " its GPU. All at once: a change of model, engine or traffic.",
        GAPS,
        TIMES,
        (Query(f'max by (pod) (llm_engine_cost_ratio{{part="{part}"}}) > 0', PODS_NAME),),
        steps=((1.2, WARN),),
        decimals=2,
        empty="unknown: the sidecar's dashboard says why",
        logarithmic=True,
    )


def burn(*, height: int) -> Panel:
    """How fast budgets are spent, by lane, on all pods: also on those whose misses the lane's page leaves out."""
    misses, allowed = (
        f'sum by (lane, objective) (increase(llm_slo_{counter}_total{{objective=~".+"}}[N]))'
        for counter in ("misses", "allowed_misses")
    )
    return Panel(
        Kind.LINES,
        "Error budget burn by lane",
        "Error budget spent over error budget earned, of the lane's worst objective; 1 is what the target allows, from 10 on it pages."
        f" Over the last {NOW} at each point, of all pods.",
        COUNTED,
        TIMES,
        (Query(f"max by (lane) ({misses} / {allowed}) > 0", LANE),),
        height=height,
        steps=((1, WARN), (10, RED)),
        decimals=1,
        logarithmic=True,
        empty="nothing is missed",
    )


def phase_stack(title: str, about: str, *, streaming: str = "true", width: int = 8, per_lane: bool = False) -> Panel:
    """Mean seconds by phase, stacked: they add up to the mean request, which is drawn over them."""
    chosen = f'streaming="{streaming}"'
    total, requests = (
        rate_of(f"llm_request_seconds_{part}", matchers=chosen, by="streaming") for part in ("sum", "count")
    )
    return Panel(
        Kind.STACK,
        title,
        f"{about} Each phase's seconds over all requests, so the stack's height is the mean of the whole request, drawn as a line."
        f" Over the last {NOW} at each point.",
        f"{'streamed' if streaming == 'true' else 'not streamed'} {OK}",
        "s",
        (
            # One query for each, because Grafana stacks in their order, and one answer would be in the alphabet's.
            *(
                Query(
                    f"{rate_of('llm_request_phase_seconds_sum', matchers=_phase_of(phase, chosen), by=SPLIT)} / {requests} > 0",
                    phase,
                )
                for phase in STACKED
                if streaming == "true" or phase in E2E_SHARES
            ),
            Query(f"{total} / {requests} >= 0", "whole request"),
        ),
        width=width,
        total="whole request",
        by_phase=True,
        per_lane=per_lane,
    )


def _phase_of(phase: str, others: str) -> str:
    return f'phase="{phase}",{others}'
