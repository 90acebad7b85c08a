"""The words of a page: summary, description, links, and plain values for programs, with numbers in human units.

Templates are Prometheus's own and run in 2.42 and in vmalert: `query` asks for cause, size, beginning and worst pod when the alert
fires. Size and confidence are those that each pod tells of its incident, and not ratios of this instant: a page is about the past minutes.
Where a query is empty, its words are left out or a plain phrase stands instead.
"""

from collections.abc import Mapping, Sequence

from sidecar.commands.export.rules.burn import POD_LABELS, without_odd_pods
from sidecar.metrics.target_labels import CLUSTER, ONE_ENGINE
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.pod.causes import CAUSES_BY_PHASE, NO_CAUSE, Cause, Unknown


RUNBOOKS = "http://llm-phase-sidecar:9901/runbooks"
"""The address of runbooks: a sidecar's admin listener has them. `sidecar export rules --runbook-base=URL` writes another."""
DASHBOARDS = "http://grafana:3000/d"
"""Dashboards in Grafana. `--grafana-base=URL` writes another address before the `/d`."""

SIZED = {
    Cause.LOAD: ("load is {}x", "more load arrives"),
    Cause.LONGER_OUTPUTS: ("answers are {}x as long", "answers are longer"),
    Cause.PREFILL_COST: ("prefill costs {}x", "prefill costs more"),
    Cause.UNCACHED: ("uncached prompt tokens are {}x", "less of the prompts is cached"),
    Cause.PROMPT_MIX: ("prompts are {}x as long", "prompts are longer"),
    Cause.DECODE_COST: ("decode costs {}x", "decode costs more"),
}
"""Causes of which `llm_incident_size_ratio` gives the size: the words with it, and without."""
SAID: Mapping[str, str] = {
    Cause.REJECTED: "requests are rejected",
    Cause.SLOTS: "all slots are taken",
    Cause.KV: "the KV cache is full",
    Cause.PREEMPTION: "running requests are preempted",
    Cause.FRONT_END: "requests wait in the front end",
    Cause.KV_TRANSFER: "the KV cache moves slowly to the decode worker",
    Cause.HOP: "something on the way collects tokens",
    Cause.CLIENT: "clients read slowly",
    Cause.DOWN: "the engine is down",
    Cause.RESTART: "the engine restarted",
    Cause.SILENCE: "the engine sends nothing, to some streams or to all",
    Cause.ERRORS: "the engine fails requests",
    Cause.SIDECAR_LATE: "the sidecar lacks CPU",
    Cause.SIDECAR_BUDGET: "a limit of the sidecar is reached",
    Unknown.YOUNG: "the root is not known: there is no baseline yet",
    Unknown.UNCLEAR: "the root is not known: the evidence is for nothing, or for several causes alike",
}
_UNKNOWN = "the root is not known"
WOULD_TELL = {
    Unknown.YOUNG: "A baseline would tell: two quiet minutes, or a file by `sidecar baseline export` from a healthy pod.",
    Unknown.UNCLEAR: "Reports of the engine on each request would tell: the status page names the flag. `/diagnosis` lists the evidence.",
}

MEANING: Mapping[str, str] = {
    Blame.QUEUE: "There is more work than room, or room is held for longer.",
    Blame.PREFILL: "Prompts take longer to compute than they did, or more of them has to be computed.",
    Blame.FIRST_TOKEN: "Time is lost before the scheduler or behind it: tokenising, templates, the API server, the network.",
    Blame.UNATTRIBUTED: "No root has 60 % of the decided misses, so no phase is named.",
    Blame.DECODE: "Tokens of the same sequences take longer than they did, or the KV cache takes longer to the decode worker.",
    Blame.STREAM: "Something on the way of the tokens held them back: a slow client, or a hop that buffers.",
    Blame.ENGINE: "The engine is down, restarts, is silent or fails requests.",
    SIDECAR: "The sidecar itself is late or at a limit, so its measurements say nothing about the engine.",
}
OBJECTIVES = (
    '{{ if eq $labels.objective "ttft" }}TTFT{{ else if eq $labels.objective "tpot" }}TPOT'
    '{{ else if eq $labels.objective "stall" }}STALL{{ else }}E2E{{ end }}'
)
_OF_CLUSTER = f"{{{{ with $labels.{CLUSTER} }}}} of cluster {{{{ . }}}}{{{{ end }}}}"
_CLUSTER_FIRST = f"{{{{ with $labels.{CLUSTER} }}}}%s{CLUSTER}={{{{ . | urlquery }}}}&{{{{ end }}}}"
"""The first parameter of a link, where there is a label for it: most fleets have one cluster. A label that only Alertmanager sees
(`external_labels`) stands in no link, because the Prometheus that the link asks has no series with it."""
_OTHERS = 'phase!="unattributed"'
_MODEL = (*ONE_ENGINE, "model")
_LANE_LABELS = (*_MODEL, "lane", "objective")
_FIRST_VALUE = "{{ . | first | value | %s }}"
_TENTHS = 'printf "%.1f"'
_HUNDREDTHS = 'printf "%.2f"'


def _query(metric: str, labels: tuple[str, ...], *more: str) -> str:
    """A series with these labels of the alert, as text of a printf; `more`: further matchers."""
    # %q: the value in quotes, escaped as PromQL reads it. A name may have any sign in it.
    matchers = [*(f"{label}=%q" for label in labels), *(one.replace('"', '\\"') for one in more)]
    return f"{metric}{{{','.join(matchers)}}}"


def _value_of(label: str) -> str:
    # A label that the alert does not have is an empty text in Prometheus, and nil in vmalert, where %q then writes no PromQL.
    return f'(or $labels.{label} "")'


def _names(*groups: tuple[str, ...]) -> str:
    return " ".join(_value_of(label) for labels in groups for label in labels)


def _asked(text: str, names: str, then: str, otherwise: str = "") -> str:
    tail = f"{{{{ else }}}}{otherwise}" if otherwise else ""
    return f'{{{{ with printf "{text}" {names} | query }}}}{then}{tail}{{{{ end }}}}'


def most_on(
    metric: str, matchers: str, window: str, labels: tuple[str, ...], *, bare: bool = False, linked: bool = False
) -> str:
    """The pod that has most of a counter's growth, with its share; `bare`: the name alone, or `none`, of pods that a lane counts; `linked`:
    as a parameter of a link, or nothing.
    """
    growth = f"increase({_query(metric, labels, *([matchers] if matchers else []))}[{window}])"
    ranked = f"topk(1, sum by (pod) ({growth}) > 0)"
    if bare or linked:
        ranked = f"topk(1, sum by (pod) ({without_odd_pods(growth)}) > 0)"
        encoded = " | urlquery" if linked else ""
        return _asked(ranked, _names(labels), f'{{{{ . | first | label "pod"{encoded} }}}}', "" if linked else "none")
    then = ', worst pod {{ . | first | label "pod" }} (' + _FIRST_VALUE % "humanizePercentage" + " of it)"
    return _asked(f"{ranked} / scalar(sum({growth}))", _names(labels, labels), then)


def told_apart(metric: str, labels: tuple[str, ...], then: str, otherwise: str) -> str:
    """`then` if this gauge of the alert's own pod was 1 within the last minute, else `otherwise`."""
    return _asked(f"max_over_time({_query(metric, labels)}[1m]) == 1", _names(labels), then, otherwise)


# --- the cause ---------------------------------------------------------------------------------------------------------


def _of_these(selected: str, labels: tuple[str, ...]) -> str:
    """The series of the alert's own pod; of a lane's alert those of the pods that its lanes count."""
    return selected if "pod" in labels else f"{selected} unless on ({POD_LABELS}) max_over_time(pod:llm_slo:odd[5m])"


def _largest(size: str, labels: tuple[str, ...]) -> str:
    """The size on the pod that shows most. An incident that is over by now was open in the minutes that the page is about."""
    return f"max({_of_these(_told(size), labels)})"


def _told(series: str) -> str:
    """The values that the incidents of the last minutes told last."""
    return f"last_over_time({series}[5m])"


def _confidence(phase: str, labels: tuple[str, ...], form: str) -> str:
    """The confidence in the root on the pod that is least sure of it; where no pod tells any, the share of the lane's or the pod's misses."""
    own = tuple(label for label in (labels if phase else (*labels, "phase")) if label != "model")
    told = _told(_query("llm_incident_confidence_ratio", own, *([f'phase="{phase}"'] if phase else [])))
    return _asked(f"min({_of_these(told, labels)})", _names(own), _FIRST_VALUE % form, f"{{{{ $value | {form} }}}}")


def _cause(phase: str, labels: tuple[str, ...], then: str, otherwise: str) -> str:
    """`then` has the leading cause of a phase as $cause. `phase`: a matcher's value, or empty for the alert's own label."""
    own = labels if phase else (*labels, "phase")
    more = [f'phase="{phase}"'] if phase else []
    roots = f"increase({_query('llm_slo_root_cause_misses_total', own, *more)}[5m])"
    leading = f"topk(1, sum by (cause) ({_of_these(roots, labels)}) > 0)"
    return _asked(leading, _names(own), '{{ $cause := . | first | label "cause" }}' + then, otherwise)


def _size(phase: str, labels: tuple[str, ...]) -> str:
    """`2.2`, of the leading cause if it has a size; else `unknown`."""
    where = tuple(label for label in labels if label != "model")
    largest = _largest(_query("llm_incident_size_ratio", (*where, "cause")), labels)
    return _cause(
        phase, labels, _asked(largest, f"{_names(where)} $cause", _FIRST_VALUE % _TENTHS, "unknown"), "unknown"
    )


def _said(phases: tuple[str, ...], labels: tuple[str, ...]) -> str:
    """The words for $cause; of sized ones with `llm_incident_size_ratio` of the worst pod."""
    causes = [cause for phase in phases for cause in CAUSES_BY_PHASE.get(phase, ())]
    text = ""
    if any(cause in SIZED for cause in causes):
        where = tuple(label for label in labels if label != "model")
        size = _query("llm_incident_size_ratio", (*where, "cause"))
        names = f"{_names(where)} $cause"
        text = f'{{{{ $size := printf "{_largest(size, labels)}" {names} | query }}}}'
    branches: list[tuple[str, str]] = []
    for cause in causes:
        words = SAID.get(cause, "")
        if cause in SIZED:
            with_size, without = SIZED[cause]
            words = (
                f"{{{{ with $size }}}}{with_size.format(_FIRST_VALUE % _TENTHS)}{{{{ else }}}}{without}{{{{ end }}}}"
            )
        if cause is Cause.REJECTED:
            words = _rejected(labels, words)
        branches.append((cause, words))
    branches += [(reason, SAID[reason]) for reason in Unknown] if Blame.UNATTRIBUTED in phases else []
    return text + _chosen(branches)


def _rejected(labels: tuple[str, ...], otherwise: str) -> str:
    outcome = 'outcome="rejected"'
    rejected = f"increase({_query('llm_requests_total', labels, outcome)}[5m])"
    then = _FIRST_VALUE % 'printf "%.0f"' + " requests were rejected in 5m"
    return _asked(f"sum({_of_these(rejected, labels)}) >= 1", _names(labels), then, otherwise)


def _chosen(branches: Sequence[tuple[str, str]]) -> str:
    text = "".join(
        f'{{{{ {"else " if at else ""}if eq $cause "{cause}" }}}}{words}' for at, (cause, words) in enumerate(branches)
    )
    return f"{text}{{{{ end }}}}"


def _since(phase: str, labels: tuple[str, ...]) -> str:
    """` since 10:15 UTC` or alike, or nothing."""
    began, names = _began(phase, labels)
    since = ", incident open since " if phase == Blame.UNATTRIBUTED else " since "
    hour, minute = (
        _asked(f"{part}({began})", names, before + _FIRST_VALUE % 'printf "%02.0f"' + after)
        for part, before, after in (("hour", since, ":"), ("minute", "", " UTC"))
    )
    return hour + minute


def _since_at(phase: str, labels: tuple[str, ...]) -> str:
    """The Unix time, or `unknown`."""
    began, names = _began(phase, labels)
    return _asked(began, names, _FIRST_VALUE % 'printf "%.0f"', "unknown")


def _began(phase: str, labels: tuple[str, ...]) -> tuple[str, str]:
    """The query for the beginning of the incident, with the names for its printf."""
    # The pods may have incidents with several roots, where none leads.
    any_phase = phase == Blame.UNATTRIBUTED
    own = tuple(label for label in (labels if phase else (*labels, "phase")) if label != "model")
    matchers = [f'phase="{phase}"'] if phase and not any_phase else []
    began = _query("llm_incident_began_timestamp_seconds", own, *matchers)
    return f"min({_of_these(began, labels)})", _names(own)


# --- burn alerts ---------------------------------------------------------------------------------------------------------


def _of_window(text: str, phase: str, then: str, otherwise: str = "") -> str:
    """A query about this lane over the window of the verdict; `%s` in `text` stands for the window."""
    share = _query("lane:llm_slo_root:share", _LANE_LABELS, f'phase="{phase}"')
    found = _asked(share, _names(_LANE_LABELS), '{{ $window = . | first | label "window" }}')
    window = f'{{{{ $window := "5m" }}}}{found}'
    if not text:
        return window + then
    query = f"{text}{_query('', _LANE_LABELS)}"
    return window + _asked(query, f"$window {_names(_LANE_LABELS)}", then, otherwise)


_WORST = (
    "topk(1, sum by (pod) ({0}) > 0) / scalar(sum({0}))".format(
        without_odd_pods(f"increase({_query('llm_slo_misses_total', _LANE_LABELS)}[5m])")
    ),
    _names(_LANE_LABELS, _LANE_LABELS),
    ', worst pod {{ . | first | label "pod" }} (' + _FIRST_VALUE % "humanizePercentage" + " of the misses)",
)


def burn_annotations(name: str, phase: str, windows: str, bases: tuple[str, str]) -> dict[str, str]:
    """The annotations of a lane's burn alert; its value is the share of the root. `bases`: of runbooks and dashboards."""
    unattributed = phase == Blame.UNATTRIBUTED
    own = _query("lane:llm_slo_root:share", _LANE_LABELS, f'phase="{phase}"')
    burn = _query("lane:llm_slo_burn:ratio_rate5m", _LANE_LABELS)
    confidence = _confidence(phase, _MODEL, _HUNDREDTHS)
    if unattributed:
        confidence = _asked(own, _names(_LANE_LABELS), _FIRST_VALUE % 'printf "%.2f"', "unknown")
    waited = _asked(
        f"topk(1, {_query('lane:llm_slo_waited_in:ratio', _LANE_LABELS)})",
        _names(_LANE_LABELS),
        ', waited in {{ . | first | label "phase" }}',
    )
    misses = _of_window("lane:llm_slo_burn:ratio_rate%s", phase, _FIRST_VALUE % 'printf " %.1f"' + "x")
    certain = (
        "No root leads"
        + _asked(
            f"topk(1, {_query('lane:llm_slo_root:share', _LANE_LABELS, _OTHERS)} > 0)",
            _names(_LANE_LABELS),
            ': the nearest is {{ . | first | label "phase" }} with ' + _FIRST_VALUE % "humanizePercentage",
            ": no miss is decided for any",
        )
        + "."
        if unattributed
        else f"{{{{ $value | humanizePercentage }}}} of the decided misses say {phase}."
    )
    sure = "" if unattributed else f", confidence {_confidence(phase, _MODEL, 'humanizePercentage')}"
    counted = _of_window(
        "lane:llm_slo_misses:increase%s", phase, " " + _FIRST_VALUE % 'printf "%.0f"' + " misses in {{ $window }}."
    )
    tell = _cause(phase, _MODEL, " " + _chosen(tuple(WOULD_TELL.items())), "") if unattributed else ""
    return {
        "summary": f"{_headline(phase, _MODEL)}{sure}; {{{{ $labels.lane }}}} misses {OBJECTIVES}{misses}{waited}{_asked(*_WORST)}",
        "description": (
            f"{MEANING[phase]} Lane {{{{ $labels.lane }}}} of model {{{{ $labels.model }}}} in namespace"
            f" {{{{ $labels.namespace }}}}{_OF_CLUSTER} misses its {OBJECTIVES} objective ({windows}).{counted} {certain}{tell}"
        ),
        "cause": _cause(phase, _MODEL, "{{ $cause }}", NO_CAUSE),
        "size": _size(phase, _MODEL),
        "since": _since_at(phase, _MODEL),
        "confidence": confidence,
        "worst_pod": most_on("llm_slo_misses_total", "", "5m", _LANE_LABELS, bare=True),
        "window": _of_window("", phase, "{{ $window }}"),
        "rank": _asked(
            f"{burn} >= scalar(max({_query('lane:llm_slo_burn:ratio_rate5m', ONE_ENGINE)}))",
            _names(_LANE_LABELS, ONE_ENGINE),
            "first",
            "other",
        ),
        **links(
            name,
            bases,
            (*_MODEL, "lane"),
            shown=("lane", "model", "namespace"),
            worst_pod=most_on("llm_slo_misses_total", "", "5m", _LANE_LABELS, linked=True),
        ),
    }


def _headline(phase: str, labels: tuple[str, ...]) -> str:
    """The root, its size, and since when. `phase` empty: that of the alert's label."""
    phases = (phase,) if phase else (*CAUSES_BY_PHASE, Blame.UNATTRIBUTED)
    plain = _UNKNOWN if phase == Blame.UNATTRIBUTED else f"the root is {phase or '{{ $labels.phase }}'}"
    return _cause(phase, labels, _said(tuple(map(str, phases)), labels), plain) + _since(phase, labels)


QUICKLY = (
    "misses half of its requests, or ten times what the target allows",
    "Lane alerts leave its misses out.",
    "2 minutes",
)
SLOWLY = (
    "misses twice what the target allows over half an hour",
    "No lane burns in this objective yet; the misses of this pod stay in its lanes.",
    "30 minutes",
)
"""How a pod burns, what lanes make of it, and the window of its roots."""


def pod_annotations(
    name: str, bases: tuple[str, str], phase: str = "", *, burns: tuple[str, str, str] = QUICKLY
) -> dict[str, str]:
    """The annotations of an alert about one pod of many; its value is the share of the root on that pod.

    `phase`: where the rule states it; empty: that of the alert's label, which a template cannot read from a rule.
    """
    pod = (*_MODEL, "pod")
    how, lanes, window = burns
    misses = f"sum by (lane, objective) (increase({_query('llm_slo_misses_total', pod)}[5m]))"
    worst = _asked(
        f"topk(1, {misses} > 0)",
        _names(pod),
        '; most misses: {{ . | first | label "lane" }}, {{ $objective := . | first | label "objective" }}'
        + OBJECTIVES.replace("$labels.objective", "$objective"),
    )
    sure = "" if phase else f", confidence {_confidence(phase, pod, 'humanizePercentage')}"
    tell = _cause(phase, pod, " " + _chosen(tuple(WOULD_TELL.items())), "") if phase == Blame.UNATTRIBUTED else ""
    return {
        "summary": f"{{{{ $labels.pod }}}} misses more than other pods: {_headline(phase, pod)}{sure}{worst}",
        "description": (
            f"This pod {how}, and at least three times as much as the other pods of its model together, with the same lanes."
            f" {lanes} Phase: {phase or '{{ $labels.phase }}'}, by this pod's decided misses of {window}.{tell}"
        ),
        "cause": _cause(phase, pod, "{{ $cause }}", NO_CAUSE),
        "size": _size(phase, pod),
        "since": _since_at(phase, pod),
        "confidence": _confidence(phase, pod, _HUNDREDTHS),
        "worst_pod": "{{ $labels.pod }}",
        "window": window.replace(" minutes", "m"),
        **links(name, bases, pod, shown=("namespace", "pod"), dashboard="llm-fleet"),
    }


def links(
    name: str,
    bases: tuple[str, str],
    labels: tuple[str, ...],
    *,
    shown: Sequence[str] = (),
    dashboard: str = "llm-anatomy",
    worst_pod: str = "",
) -> dict[str, str]:
    """Links for further reading. `labels`: those of the alert that fill its runbook in; `shown`: those that the dashboard has
    variables for; `worst_pod`: the template of a pod's name, for an alert that is about no single pod.
    """
    filled = [
        *_parameters("", [label for label in labels if label != CLUSTER]),
        *([f"pod={worst_pod}"] if worst_pod else []),
    ]
    runbook, chosen = (_CLUSTER_FIRST % prefix if CLUSTER in labels else "" for prefix in ("", "var-"))
    return {
        "runbook_url": _address(f"{bases[0]}/{name}", filled, runbook),
        "dashboard_url": _address(f"{bases[1]}/{dashboard}", _parameters("var-", shown), chosen),
    }


def _address(base: str, parameters: list[str], first: str) -> str:
    return f"{base}?{first}{'&'.join(parameters)}" if parameters else base


def _parameters(prefix: str, labels: Sequence[str]) -> list[str]:
    # `urlquery` is a function of Go's templates themselves, so Prometheus, Mimir, Thanos and vmalert all have it.
    return [f"{prefix}{label}={{{{ {_value_of(label)} | urlquery }}}}" for label in labels]
