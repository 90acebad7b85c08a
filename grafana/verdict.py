"""The verdict (phase, cause, place, beginning, first fix): two tables, of lanes and of pods, and the same over time.

Knows the recorded series that the alerts read, and the pods' own incidents. Refuses to know where on a dashboard the tables stand.
"""

from collections.abc import Mapping

from grafana.colours import FINE, RED, WARN
from grafana.first_steps import first_steps, runbooks
from grafana.panel import Kind, Panel
from grafana.query import Query
from grafana.shapes import COUNTED, DECIDED, TIMES
from grafana.surroundings import ONLY_THIS_POD, kept
from sidecar.admin.page.phase_colours import PHASE_COLOURS
from sidecar.commands.export.rules.annotations import RUNBOOKS
from sidecar.commands.export.rules.burn import ENGINE_LABELS, PAGING, POD_LABELS, WHICH_POD, WHO
from sidecar.commands.export.rules.dashboard_rules import NOW
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.objectives.page_limits import FEWEST_DECIDED, LEAST_CONFIDENCE
from sidecar.pod.causes import NO_CAUSE


INSTANT = "dateTimeAsIsoNoDateIfToday"
"""Grafana's unit of an instant, which it takes in milliseconds."""
BURNS = ((1.0, WARN), (10.0, RED))
"""Colours of a burn rate: beyond what the target allows, and beyond what pages."""
_ANY = 'phase=~".+"'
"""A matcher that says: the phase is left out on purpose."""
_BEGAN = "llm_incident_began_timestamp_seconds"
_BOARDS: Mapping[str, tuple[str, ...]] = {
    "llm-queue": (Blame.QUEUE.value, Blame.PREFILL.value, Blame.FIRST_TOKEN.value),
    "llm-stream": (Blame.DECODE.value, Blame.STREAM.value),
    "llm-fleet": (Blame.ENGINE.value,),
    "llm-sidecar": (Blame.UNATTRIBUTED.value, SIDECAR),
}
"""Every phase leads somewhere: to the dashboard whose panels tell most about it."""
_TOLD = "phase, cause, do_first, runbook, dashboard"
_PHASES = tuple(("phase", phase, colour) for phase, colour in PHASE_COLOURS.items())

# Pods with a page of their own, which the recorded series of lanes leave out: their lanes' rows, where the lane has none.
_ODD = f"and on ({WHICH_POD}) max_over_time(pod:llm_slo:odd[N])"
_MISSES, _ALLOWED = (f"increase(llm_slo_{counter}_total[N])" for counter in ("misses", "allowed_misses"))
_ODD_BURN = f"sum by ({WHO}) ({_MISSES} {_ODD}) / sum by ({WHO}) ({_ALLOWED} {_ODD}) >= 1"


def _odd_roots(matcher: str = "") -> str:
    return f"increase(llm_slo_root_misses_total{matcher}[N]) {_ODD}"


def _share(matcher: str = "") -> str:
    """The share of each root in each lane and objective that burns, of the other pods or else of the odd ones. `matcher`: `{...}`."""
    decided = f"sum by ({WHO}) ({_odd_roots()}) >= {FEWEST_DECIDED:g}"
    odd = f"sum by ({WHO}, phase) ({_odd_roots(matcher)}) / on ({WHO}) group_left () ({decided}) and on ({WHO}) {_ODD_BURN}"
    return f"(sum by ({WHO}, phase) (lane:llm_slo_root:share{matcher or '{}'}) or on ({WHO}) ({odd}))"


def _leading(matcher: str = "") -> str:
    """The root that leads in each lane and objective."""
    return f"topk by ({WHO}) (1, {_share(matcher)})"


def _with_ways(expr: str) -> str:
    """The expression with labels that lead on: the fix to begin with, the runbook, the dashboard. It must have phase and cause."""
    for uid, phases in _BOARDS.items():
        expr = f'label_replace({expr}, "dashboard", "{uid}", "phase", "{"|".join(phases)}")'
    for phase, name in runbooks().items():
        expr = f'label_replace({expr}, "runbook", "{name}", "phase", "{phase}")'
    return f'label_join({expr}, "do_first", "/", "phase", "cause")'


def _runbook(*labels: str) -> str:
    return f"{RUNBOOKS}/${{__data.fields.runbook}}?" + "&".join(f"{one}=${{__data.fields.{one}}}" for one in labels)


def _because() -> str:
    """The leading root with the cause that leads within it."""
    root = f"{ENGINE_LABELS}, model, phase"
    causes = f"sum by ({root}, cause) (increase(llm_slo_root_cause_misses_total[N])) > 0"
    known = f"{_leading()} * on ({root}) group_left (cause) group by ({root}, cause) (topk by ({root}) (1, {causes}))"
    return _with_ways(f'({known} or on ({WHO}) label_replace({_leading()}, "cause", "{NO_CAUSE}", "", ""))')


def _worst_pod() -> str:
    """The pod with most of the misses, among those that the row is about."""
    among = f"sum by ({WHO}, pod) ({_MISSES} unless on ({WHICH_POD}) max_over_time(pod:llm_slo:odd[N])) > 0"
    odd = f"sum by ({WHO}, pod) ({_MISSES} {_ODD}) > 0"
    of_lane = f"topk by ({WHO}) (1, {among}) and on ({WHO}) lane:llm_slo_root:share"
    return f"sum by ({WHO}, pod) ({of_lane} or on ({WHO}) (topk by ({WHO}) (1, {odd}) and on ({WHO}) {_ODD_BURN}))"


def _since() -> str:
    """When the first pod's incident of that phase began; of any phase, where no pod says that one."""
    of_any = f'{_BEGAN}{{{_ANY},cause=~".+"}}'
    matcher = f"{{{_ANY}}}"
    by_phase = (
        f"1000 * sum by ({WHO}) (group by ({WHO}, phase) ({_leading(matcher)})"
        f" * on ({ENGINE_LABELS}, phase) group_left () min by ({ENGINE_LABELS}, phase) ({of_any}))"
    )
    by_any = (
        f"1000 * sum by ({WHO}) (group by ({WHO}) ({_share(matcher)})"
        f" * on ({ENGINE_LABELS}) group_left () min by ({ENGINE_LABELS}) ({of_any}))"
    )
    return f"{by_phase} or {by_any}"


def _severity() -> str:
    paging = f'max by ({WHO}) (lane:llm_slo_burn:tier{{tier=~"{PAGING}"}})'
    slow = f'max by ({WHO}) (lane:llm_slo_burn:tier{{tier="slow"}}) unless on ({WHO}) {paging}'
    return (
        f'label_replace({paging}, "severity", "page", "", "") or label_replace({slow}, "severity", "ticket", "", "")'
        f' or on ({WHO}) label_replace(group by ({WHO}) ({_ODD_BURN}), "severity", "pod", "", "")'
    )


def verdict_table(*, height: int) -> Panel:
    """One line for each lane and objective that burns: which phase broke, why, where, since when, how bad, and what to do first."""
    burn = f"max by ({WHO}) (lane:llm_slo_burn:ratio_rate5m) and on ({WHO}) lane:llm_slo_root:share or on ({WHO}) {_ODD_BURN}"
    return Panel(
        Kind.TABLE,
        "Verdict: what broke, where, since when, and what to do first",
        "The series that the alerts read. phase is what broke: the root of most decided misses, and confidence is of how many; below"
        f" {LEAST_CONFIDENCE:.0%} the page is unattributed. cause leads within the phase, pod has most of the misses, both over the last"
        f" {NOW}. since is when the first pod's incident of that phase began. do_first is the best fix of that root, before anything is"
        " known about the engine: the runbook has the others. severity is there while an alert's condition holds; pod: the pods"
        " that are left in the lane do not burn, or none is left. A pod with a page of its own is left out of its lane.",
        DECIDED,
        TIMES,
        (
            Query(f"sum by ({WHO}, {_TOLD}) ({_because()})", "confidence", unit="percentunit", decimals=0),
            Query(_worst_pod(), "its_misses", unit="short"),
            Query(_since(), "since", unit=INSTANT),
            Query(burn, "burn", colours=BURNS, decimals=1),
            Query(_severity(), "alerting", unit="none"),
        ),
        width=24,
        height=height,
        empty="nothing burns",
        tall=True,
        hidden=("namespace", "job", "model", "dashboard", "alerting", "its_misses"),
        order=(
            *("phase", "cause", "do_first", "lane", "objective", "pod", "cluster", "since", "burn", "confidence"),
            *("severity", "runbook"),
        ),
        text_colours=(*_PHASES, ("severity", "page", RED), ("severity", "ticket", WARN), ("severity", "pod", FINE)),
        texts={"do_first": first_steps()},
        links=(
            ("phase", "The phase's dashboard", kept("${__data.fields.dashboard}", "namespace", "model", "lane")),
            ("lane", "Lanes and lengths", kept("llm-lanes", "namespace", "model", "lane")),
            ONLY_THIS_POD,
            ("runbook", "The runbook", _runbook("cluster", "namespace", "job", "model", "lane", "pod")),
        ),
        sorted_by="burn",
    )


def pods_table(*, width: int, height: int) -> Panel:
    """Each pod and objective, worst first, with the pod's own incident: the broken one speaks for itself."""
    whose = f"{POD_LABELS}, objective"
    missed, judged, allowed = (
        f"sum by ({whose}) (increase(llm_slo_{counter}_total[N]))"
        for counter in ("misses", "requests", "allowed_misses")
    )
    told = "phase, cause, dashboard"
    # For an instant a pod may have two: the root has changed, and the series of before is not stale yet.
    present = f"topk by ({POD_LABELS}) (1, min by ({POD_LABELS}, phase, cause) ({_BEGAN}))"
    began = f"min by ({POD_LABELS}, {told}) ({_with_ways(present)})"
    return Panel(
        Kind.TABLE,
        "Pods, worst first",
        "phase, cause and since are the pod's own incident, which it decides from its own misses; empty while it has none. One pod far"
        f" above the others: that machine. All alike: the load, or the model. Of the last {NOW}.",
        COUNTED,
        TIMES,
        (
            Query(f"{missed} / {allowed} >= 0", "burn", colours=BURNS, decimals=1),
            Query(
                f"1000 * (group by ({whose}) ({missed} > 0) * on ({POD_LABELS}) group_left ({told}) {began})",
                "since",
                unit=INSTANT,
            ),
            Query(f"{missed} / {judged} >= 0", "missed", unit="percentunit", decimals=0),
        ),
        width=width,
        height=height,
        hidden=("namespace", "job", "dashboard"),
        order=("pod", "cluster", "objective", "burn", "missed", "phase", "cause", "since"),
        text_colours=_PHASES,
        links=(
            ONLY_THIS_POD,
            ("phase", "The phase's dashboard", kept("${__data.fields.dashboard}", "namespace", "pod")),
        ),
        sorted_by="burn",
    )


def verdict_timeline() -> Panel:
    """The verdict over time, one bar for each lane and objective."""
    numbered = " or ".join(
        f'{number} * group by ({WHO}) (lane:llm_slo_root:share{{job=~".+",phase="{phase}"}} >= {LEAST_CONFIDENCE:g})'
        for number, phase in enumerate(PHASE_COLOURS, 1)
    )
    return Panel(
        Kind.TIMELINE,
        "Verdict over time",
        f"Which phase broke when: the root of {LEAST_CONFIDENCE:.0%} of the decided misses or more; empty where none has so many, or a lane does not burn.",
        DECIDED,
        "none",
        (Query(f"max by (lane, objective) ({numbered})", "{{lane}} {{objective}}"),),
        empty="no misses",
        words=tuple((number, phase, colour) for number, (phase, colour) in enumerate(PHASE_COLOURS.items(), 1)),
    )
