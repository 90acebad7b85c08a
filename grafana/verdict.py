"""The verdict (phase, cause, place, beginning, first fix): two tables, of lanes and of pods, and the same over time.

Knows the recorded series that the alerts read, and the pods' own incidents. Refuses to know where on a dashboard the tables stand.
"""

from collections.abc import Mapping

from grafana.colours import RED, WARN
from grafana.first_steps import ONE_POD, SEVERAL_PODS, first_steps, runbooks
from grafana.panel import AGE, PODS_UNIT, Kind, Panel
from grafana.pod_names import WHOLE_POD
from grafana.query import Query
from grafana.shapes import COUNTED, DECIDED, TIMES
from grafana.surroundings import ONLY_THIS_POD, THE_POD_OF_A_ROW, kept
from sidecar.admin.page.phase_colours import PHASE_COLOURS
from sidecar.commands.export.rules.annotations import RUNBOOKS
from sidecar.commands.export.rules.burn import ENGINE_LABELS, PAGING, POD_LABELS, WHICH_POD, WHO
from sidecar.commands.export.rules.dashboard_rules import NOW
from sidecar.metrics.target_labels import CLUSTER
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.objectives.page_limits import FEWEST_DECIDED, LEAST_CONFIDENCE
from sidecar.pod.causes import NO_CAUSE


BURNS = ((1.0, WARN), (10.0, RED))
"""Colours of a burn rate: beyond what the target allows, and beyond what pages."""
_ANY = 'phase=~".+"'
"""A matcher that says: the phase is left out on purpose."""
_AGE = "llm_incident_age_seconds"
_BOARDS: Mapping[str, tuple[str, ...]] = {
    "llm-queue": (Blame.QUEUE.value, Blame.PREFILL.value, Blame.FIRST_TOKEN.value),
    "llm-stream": (Blame.DECODE.value, Blame.STREAM.value),
    "llm-fleet": (Blame.ENGINE.value,),
    "llm-sidecar": (Blame.UNATTRIBUTED.value, SIDECAR),
}
"""Every phase leads somewhere: to the dashboard whose panels tell most about it."""
_TOLD = "phase, cause, do_first, runbook, dashboard"
_PHASES = tuple(("phase", phase, colour) for phase, colour in PHASE_COLOURS.items())
_ENGINE_AND_MODEL = f"{ENGINE_LABELS}, model"
SEVERITIES: Mapping[str, tuple[str, str]] = {"2": ("page", RED), "1": ("ticket", WARN)}
"""Severity as the number that a query answers, so that of several lanes the worst counts: its word and its colour."""
ALL_PODS = 100_000
"""Stands for "all pods" where else the number of pods stands: above any number of them."""
LESS_THAN_THE_WORST = 3
"""A pod is hit as the worst one is if its excess of misses is at least this part of the worst one's: a pod has a page of its own
where it misses three times as much as the others (`root_rules.ODD_TIMES`)."""
_WHERE: Mapping[str, str] = {CLUSTER: "shown_cluster", "namespace": "shown_namespace", "job": "shown_job"} | {
    "model": "shown_model"
}
"""Labels that are shown where there are several values of them, with the label that a query shows them in."""
_BETWEEN = " · "

# Pods with a page of their own, which the recorded series of lanes leave out: their lanes' rows, where the lane has none.
_ODD = f"and on ({WHICH_POD}) max_over_time(pod:llm_slo:odd[N])"
_MISSES, _ALLOWED = (f"increase(llm_slo_{counter}_total[N])" for counter in ("misses", "allowed_misses"))
_ODD_BURN = f"sum by ({WHO}) ({_MISSES} {_ODD}) / sum by ({WHO}) ({_ALLOWED} {_ODD}) >= 1"
_BURNING = f"(group by ({WHO}) (lane:llm_slo_root:share{{{_ANY}}}) or on ({WHO}) group by ({WHO}) ({_ODD_BURN}))"
"""Every lane and objective that has a row."""


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


def _with_ways(expr: str, *last: str) -> str:
    """The expression with labels that lead on: the fix to begin with, the runbook, the dashboard. It must have phase and cause.

    `last`: a label beside them on which the fix depends.
    """
    expr = _with_board(expr)
    for phase, name in runbooks().items():
        expr = f'label_replace({expr}, "runbook", "{name}", "phase", "{phase}")'
    keys = ", ".join(f'"{label}"' for label in ("phase", "cause", *last))
    return f'label_join({expr}, "do_first", "/", {keys})'


def _with_board(expr: str) -> str:
    """The expression with the dashboard of its phase."""
    for uid, phases in _BOARDS.items():
        expr = f'label_replace({expr}, "dashboard", "{uid}", "phase", "{"|".join(phases)}")'
    return expr


def _runbook(*labels: str) -> str:
    return f"{RUNBOOKS}/${{__data.fields.runbook}}?" + "&".join(f"{one}=${{__data.fields.{one}}}" for one in labels)


def _of_pods(what: str) -> str:
    """A recorded sum of each pod, the mean of its last minutes (`NOW`): a pod that is down adds nothing for two of them."""
    return f'sum by ({WHICH_POD}) (avg_over_time(pod:llm_slo:increase2m{{objective=~".+",of="{what}"}}[N]))'


_EXCESS = f"({_of_pods('misses')} - {_of_pods('allowed_misses')} > 0)"
_HIT = f"({_EXCESS} >= on ({_ENGINE_AND_MODEL}) group_left () max by ({_ENGINE_AND_MODEL}) ({_EXCESS}) / {LESS_THAN_THE_WORST})"
"""The pods that miss more than is allowed, and at least a third as much above it as the worst one."""
_PODS_HIT = f"count by ({_ENGINE_AND_MODEL}) ({_HIT})"
_ONE_POD = f"{_PODS_HIT} == 1"
_SERVING = f"count by ({_ENGINE_AND_MODEL}) ({_of_pods('requests')} > 0)"


def _reached(expr: str) -> str:
    """The expression with the label `reach`: whether one pod alone is hit, or several, or that is not known."""
    one = f'label_replace(group by ({_ENGINE_AND_MODEL}) ({_ONE_POD}), "reach", "{ONE_POD}", "", "")'
    return (
        f"({expr} * on ({_ENGINE_AND_MODEL}) group_left (reach) {one}"
        f' or on ({_ENGINE_AND_MODEL}) label_replace({expr}, "reach", "{SEVERAL_PODS}", "", ""))'
    )


def _because() -> str:
    """The leading root with the cause that leads within it, and whether one pod alone is hit."""
    root = f"{_ENGINE_AND_MODEL}, phase"
    causes = f"sum by ({root}, cause) (increase(llm_slo_root_cause_misses_total[N])) > 0"
    first = _reached(f"group by ({root}, cause) (topk by ({root}) (1, {causes}))")
    known = f"{_leading()} * on ({root}) group_left (cause, reach) {first}"
    unknown = (
        f'label_replace(label_replace({_leading()}, "cause", "{NO_CAUSE}", "", ""), "reach", "{SEVERAL_PODS}", "", "")'
    )
    return _with_ways(f"({known} or on ({WHO}) {unknown})", "reach")


def _scope() -> str:
    """How many pods are hit, or `ALL_PODS`; of one that serves alone: one."""
    every = f"{ALL_PODS} * group by ({_ENGINE_AND_MODEL}) ({_PODS_HIT} == {_SERVING})"
    hit = f"({_ONE_POD} or on ({_ENGINE_AND_MODEL}) {every} or on ({_ENGINE_AND_MODEL}) {_PODS_HIT})"
    return f"{_BURNING} * on ({_ENGINE_AND_MODEL}) group_left () {hit}"


def _the_pod() -> str:
    """The pod that alone is hit; nothing where several are."""
    one = f"group by ({WHICH_POD}) ({_HIT} and on ({_ENGINE_AND_MODEL}) {_ONE_POD})"
    return f"{_BURNING} * on ({_ENGINE_AND_MODEL}) group_left (pod) {one}"


def _waited_in() -> str:
    """The phase in which most of the misses waited, which may be another than the one that broke."""
    waited = 'label_replace(increase(llm_slo_blamed_misses_total{phase!="unattributed"}[N]), "waited_in", "$1", "phase", "(.+)")'
    most = f"topk by ({WHO}) (1, sum by ({WHO}, waited_in) ({waited}) > 0) and on ({WHO}) {_BURNING}"
    return f'{most} or on ({WHO}) label_replace({_BURNING}, "waited_in", "not known yet", "", "")'


def _age() -> str:
    """Seconds since the first pod's incident of that phase began; of any phase, where no pod says that one."""
    of_any = f'{_AGE}{{{_ANY},cause=~".+"}}'
    matcher = f"{{{_ANY}}}"
    by_phase = (
        f"sum by ({WHO}) (group by ({WHO}, phase) ({_leading(matcher)})"
        f" * on ({ENGINE_LABELS}, phase) group_left () max by ({ENGINE_LABELS}, phase) ({of_any}))"
    )
    by_any = (
        f"sum by ({WHO}) (group by ({WHO}) ({_share(matcher)})"
        f" * on ({ENGINE_LABELS}) group_left () max by ({ENGINE_LABELS}) ({of_any}))"
    )
    return f"{by_phase} or {by_any}"


def _severity() -> str:
    """2 while a page's condition holds, of the lane or of pods that are left out of it; 1 while a ticket's does."""
    paging = f'2 * max by ({WHO}) (lane:llm_slo_burn:tier{{tier=~"{PAGING}"}})'
    odd = f"2 * group by ({WHO}) ({_ODD_BURN})"
    slow = f'max by ({WHO}) (lane:llm_slo_burn:tier{{tier="slow"}})'
    return f"{paging} or on ({WHO}) {odd} or on ({WHO}) {slow}"


def _where(rows: str, who: str, labels: tuple[str, ...] = tuple(_WHERE)) -> str:
    """Cluster, namespace, job and model in one label, each as far as the pods that serve have several of it.

    `rows`: an expression whose answers have the labels `who`.
    """
    serve = 'pod:llm_slo:increase2m{objective=~".+",of="requests"} > 0'
    for label in labels:
        each = f"group by ({label}) ({serve})"
        several = (
            f'label_replace({each} and on () count({each}) > 1, "{_WHERE[label]}", "{_BETWEEN}$1", "{label}", "(.+)")'
        )
        rows = f"{rows} * on ({label}) group_left ({_WHERE[label]}) ({several} or on ({label}) {each})"
    every = ", ".join(f'"{_WHERE[label]}"' for label in labels)
    joined = f'label_join({rows}, "where", "", {every})'
    return f'group by ({who}, where) (label_replace({joined}, "where", "$1", "where", "{_BETWEEN}(.+)"))'


def verdict_table(*, height: int) -> Panel:
    """One line for each root: which phase broke, why, which lanes it hits, since when, how bad, and what to do first."""
    burn = f"max by ({WHO}) (lane:llm_slo_burn:ratio_rate5m) and on ({WHO}) lane:llm_slo_root:share or on ({WHO}) {_ODD_BURN}"
    return Panel(
        Kind.TABLE,
        "Verdict: what broke, where, for how long, and what to do first",
        "The series that the alerts read; a row is one root, with its lanes, the worst first. phase is what broke: the root of most decided"
        f" misses, and confidence is of how many, of the worst lane; below {LEAST_CONFIDENCE:.0%} the page is unattributed. cause leads within"
        f" the phase. waited_in is where most of the missed requests waited over the last {NOW}: behind a slow prefill, requests wait in"
        f" the queue. scope is how many pods miss at least a third as much above what is allowed as the worst one, over the last {NOW}; the pod"
        " is named if it is one alone. age counts from the first pod's incident of that phase. do_first is the best fix of that root,"
        " before anything is known about the engine; the runbook, to which cause leads, has the others. severity is there while an alert's"
        " condition holds; a pod with a page of its own is left out of its lane's. Cluster, namespace, job and model stand in where,"
        " as far as there are several.",
        DECIDED,
        TIMES,
        (
            Query(f"sum by ({WHO}, {_TOLD}) ({_because()})", "confidence", unit="percentunit", decimals=0),
            Query(_the_pod(), "hit_alone", unit="none"),
            Query(_age(), "age", unit=AGE, decimals=1, folded="max"),
            Query(burn, "burn", colours=BURNS, decimals=1),
            Query(_severity(), "severity", unit="none", folded="max"),
            Query(_scope(), "scope", unit=PODS_UNIT, folded="max"),
            Query(_waited_in(), "its_misses", unit="short"),
            Query(_where(_BURNING, WHO), "told_where", unit="none"),
        ),
        width=24,
        height=height,
        empty="nothing burns",
        tall=True,
        rows_by=(CLUSTER, "namespace", "job", "model", *_TOLD.split(", ")),
        listed={"lane": "lanes", "objective": "objectives", "waited_in": "waited_in"},
        of_the_worst=("lane", "where"),
        hidden=(
            *(CLUSTER, "namespace", "job", "model", "lane", "runbook", "dashboard"),
            *("its_misses", "hit_alone", "told_where"),
        ),
        order=(
            *("phase", "cause", "waited_in", "do_first", "lanes", "objectives", "scope", "pod", "where", "age", "burn"),
            *("confidence", "severity"),
        ),
        text_colours=(*_PHASES, *(("severity", number, colour) for number, (_, colour) in SEVERITIES.items())),
        texts={
            "do_first": first_steps(),
            "severity": {number: word for number, (word, _) in SEVERITIES.items()},
            "scope": {"1": "one pod", str(ALL_PODS): "all pods"},
        },
        links=(
            ("phase", "The phase's dashboard", kept("${__data.fields.dashboard}", "namespace", "model")),
            ("burn", "Lanes and lengths", kept("llm-lanes", "namespace", "model")),
            THE_POD_OF_A_ROW,
            (
                "cause",
                "The runbook",
                f"{_runbook(CLUSTER, 'namespace', 'job', 'model', 'lane')}&pod=${{__data.fields.{WHOLE_POD}}}",
            ),
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
    present = f"bottomk by ({POD_LABELS}) (1, max by ({POD_LABELS}, phase, cause) ({_AGE}))"
    age = f"max by ({POD_LABELS}, {told}) ({_with_board(present)})"
    return Panel(
        Kind.TABLE,
        "Pods, worst first",
        "phase, cause and age are the pod's own incident, which it decides from its own misses; empty while it has none. One pod far"
        f" above the others: that machine. All alike: the load, or the model. Of the last {NOW}.",
        COUNTED,
        TIMES,
        (
            Query(f"{missed} / {allowed} >= 0", "burn", colours=BURNS, decimals=1),
            Query(
                f"group by ({whose}) ({missed} > 0) * on ({POD_LABELS}) group_left ({told}) {age}",
                "age",
                unit=AGE,
                decimals=0,
            ),
            Query(f"{missed} / {judged} >= 0", "missed", unit="percentunit", decimals=0),
            Query(
                _where(f"group by ({whose}) ({missed} >= 0)", whose, (CLUSTER, "namespace", "job")),
                "told_where",
                unit="none",
            ),
        ),
        width=width,
        height=height,
        hidden=(CLUSTER, "namespace", "job", "dashboard", "told_where"),
        order=("pod", "where", "objective", "burn", "missed", "phase", "cause", "age"),
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
