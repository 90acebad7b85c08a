"""The words of a page: title, text, links, and plain values for programs, with numbers in human units.

Templates are Prometheus's own and run in 2.42 and in vmalert. A text is the pieces that `page_facts.py` records for its alert, in order;
only a latency is asked here. Where a fact is absent, its words are left out or a plain phrase stands instead.

The title (`summary`) is what a lock screen shows; the text (`description`) is read next. Where to read on is in annotations of their own,
and the message puts these below the text.
"""

from collections.abc import Mapping, Sequence

from sidecar.commands.export.rules.burn import without_odd_pods
from sidecar.commands.export.rules.page_facts import LANE_FACTS, POD_FACTS
from sidecar.metrics.catalogue import SLO_MISSES_TOTAL
from sidecar.metrics.target_labels import CLUSTER, ONE_ENGINE
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.pod.causes import NO_CAUSE


RUNBOOKS = "http://llm-phase-sidecar:9901/runbooks"
"""The address of runbooks: a sidecar's admin listener has them. `sidecar export rules --runbook-base=URL` writes another."""
DASHBOARDS = "http://grafana:3000/d"
"""Dashboards in Grafana. `--grafana-base=URL` writes another address before the `/d`."""
_RUNBOOKS_PATH = "/runbooks"
"""Below a sidecar's own address: what is before it is the status page's."""
MEANING: Mapping[str, str] = {
    Blame.QUEUE: "there is more work than room, or room is held for longer",
    Blame.PREFILL: "prompts take longer to compute than they did, or more of them has to be computed",
    Blame.FIRST_TOKEN: "time is lost before the scheduler or behind it",
    Blame.UNATTRIBUTED: "no root has 60 % of the decided misses",
    Blame.DECODE: "tokens take longer than they did, or the KV cache takes longer to the decode worker",
    Blame.STREAM: "something on the way of the tokens holds them back",
    Blame.ENGINE: "the engine is down, restarts, is silent or fails requests",
    SIDECAR: "the sidecar itself is late or at a limit",
}
"""Each phase in words, for a text that finds no fact, or may ask for none."""
TITLE_CHARACTERS = 110
"""The longest title: what a lock screen shows of a message. Names are cut for it."""
TEXT_CHARACTERS = 700
"""The longest text, with names that are no longer than those of real models, pods and lanes."""

_CLUSTER_FIRST = f"{{{{ with $labels.{CLUSTER} }}}}%s{CLUSTER}={{{{ . | urlquery }}}}&{{{{ end }}}}"
"""The first parameter of a link, where there is a label for it: most fleets have one cluster. A label that only Alertmanager sees
(`external_labels`) stands in no link, because the Prometheus that the link asks has no series with it."""
_MODEL = (*ONE_ENGINE, "model")
PERCENT = 'humanizePercentage | reReplaceAll "([.][0-9]+)?%" " %"'
"""A share without decimals, cut: 94.41% is `94 %`."""
_SPAN_IN_WORDS = 'printf "%.2g" | humanizeDuration | reReplaceAll "m " " min " | reReplaceAll "([0-9])(m?s)" "$1 $2"'
"""`4.2 s`, `65 ms` or `1 min 5 s`: a bucket of a histogram is not more exact."""


# --- how facts are asked ------------------------------------------------------------------------------------------------


def _matchers(further: str = "") -> str:
    """`$m`: the alert's own labels as matchers, with a comma behind each. `further`: template text inside the walk over them.

    A cluster that is absent must be absent in what is asked, too: another one may have the same names. %q: the value in quotes, escaped
    as PromQL reads it. `or`: a label that the alert does not have is nil in vmalert, of which %q would write no PromQL.
    """
    cluster = f'{{{{$m := printf "{CLUSTER}=%q," (or $labels.{CLUSTER} "")}}}}'
    # Without spaces, because this stands in each text.
    return f'{cluster}{{{{range $k,$v := $labels}}}}{{{{$m = printf "%s%s=%q," $m $k $v}}}}{further}{{{{end}}}}'


def _without(variable: str, label: str) -> str:
    """Inside the walk: the same matchers but that of one label, in another variable."""
    return f'{{{{if ne $k "{label}"}}}}{{{{{variable} = printf "%s%s=%q," {variable} $k $v}}}}{{{{end}}}}'


def _empty(*names: str) -> str:
    return "".join(f'{{{{ ${name} := "" }}}}' for name in names)


def _asked(query: str, names: str, then: str, otherwise: str = "") -> str:
    tail = f"{{{{ else }}}}{otherwise}" if otherwise else ""
    escaped = query.replace('"', '\\"')
    return f'{{{{ with printf "{escaped}" {names} | query }}}}{then}{tail}{{{{ end }}}}'


def _fact(facts: str, fact: str, then: str, otherwise: str = "", *, phase: str = "") -> str:
    """One fact alone. `phase`: of the facts of a root, where the alert has no label of its own for it."""
    of_phase = f',phase="{phase}"' if phase else ""
    return _matchers() + _asked(f'{facts}{{%sis="{fact}"{of_phase}}}', "$m", then, otherwise)


def _label(name: str) -> str:
    return f'{{{{ . | first | label "{name}" }}}}'


def _walked(facts: str, phase: str, matchers: str, then: str, otherwise: str = "") -> str:
    """A walk over the facts of the alert, in their order. `phase`: as above."""
    then += f"{{{{ else }}}}{otherwise}" if otherwise else ""
    of_phase = f'phase=~\\"{phase}|\\",' if phase else ""
    return (
        f'{{{{ range printf "{facts}{{%s{of_phase}{matchers}}}" $m | query | sortByLabel "is" }}}}{then}{{{{ end }}}}'
    )


def _value_of(label: str) -> str:
    # A label that the alert does not have is an empty text in Prometheus, and nil in vmalert, where %q then writes no PromQL. A metric's own
    # labels are always there.
    return f"$labels.{label}" if label in ("model", "lane") else f'(or $labels.{label} "")'


def most_on(metric: str, matchers: str, window: str, labels: tuple[str, ...], *, bare: bool = False) -> str:
    """The pod that has most of a counter's growth, with its share; `bare`: the name alone, or `none`, of pods that a lane counts."""
    own = [*(f"{label}=%q" for label in labels), *([matchers] if matchers else [])]
    growth = f"increase({metric}{{{','.join(own)}}}[{window}])"
    names = " ".join(_value_of(label) for label in labels)
    if bare:
        return _asked(f"topk(1, sum by (pod) ({without_odd_pods(growth)}) > 0)", names, _label("pod"), "none")
    ranked = f"topk(1, sum by (pod) ({growth}) > 0) / scalar(sum({growth}))"
    then = f', most on {{{{ . | first | label "pod" }}}} ({{{{ . | first | value | {PERCENT} }}}})'
    return _asked(ranked, f"{names} {names}", then)


def told_apart(metric: str, labels: tuple[str, ...], then: str, otherwise: str) -> str:
    """`then` if this gauge of the alert's own pod was 1 within the last minute, else `otherwise`."""
    matchers = ",".join(f"{label}=%q" for label in labels)
    names = " ".join(_value_of(label) for label in labels)
    return _asked(f"max_over_time({metric}{{{matchers}}}[1m]) == 1", names, then, otherwise)


# --- titles ----------------------------------------------------------------------------------------------------------------


def _title(facts: str, phase: str, *, of_pod: bool = False) -> str:
    """Phase with its size or cause, since when, and where. `phase`: that of the rule, or empty: that of the alert's label."""
    read = (
        '{{ with . | label "title" }}{{ $t = printf "%s%s" $t . }}'
        f'{{{{ else }}}}{{{{ $in = printf ", %.30s" {_value_of("namespace")} }}}}{{{{ end }}}}'
    )
    # One action a label, which other names of it can take the place of (`identity_labels.py`).
    far = f'{{{{ with $labels.{CLUSTER} }}}}{{{{ $far = printf "%s, %.24s" $far . }}}}{{{{ end }}}}'
    where, name = ("pod %.40s", _value_of("pod")) if of_pod else ("lane %.20s", "$labels.lane")
    model = '(reReplaceAll ".*[/\\\\\\\\](.)" "$1" $labels.model)'
    of = f'"{phase}"' if phase else "$labels.phase"
    words = f'(printf "%s: {where} of %.30s" $t {name} {model})'
    walk = _walked(facts, phase, 'is=~\\"a_root|b_since|_several\\"', read)
    return (
        f"{_matchers()}{{{{ $t := {of} }}}}{_empty('in', 'far')}{walk}{far}"
        f'{{{{ printf "%.{TITLE_CHARACTERS}s" (printf "%s%s" {words} (and $in (printf "%s%s" $far $in))) }}}}'
    )


# --- texts -------------------------------------------------------------------------------------------------------------------


def _lane_text(phase: str) -> str:
    # A piece that has a question is told with its answer, or not at all.
    piece = (
        '{{ $says := . | label "says" }}{{ with . | label "ask" }}'
        f"{{{{ range printf . $o | query }}}}{{{{ . | value | {_SPAN_IN_WORDS} | printf $says }}}}{{{{ end }}}}"
        "{{ else }}{{ $says }}{{ end }}"
    )
    walk = _walked(LANE_FACTS.name, phase, "", piece, f": {MEANING[phase]}.")
    return f"Phase {phase}{_empty('o')}{_matchers(_without('$o', 'objective'))}{walk}"


def burn_annotations(name: str, phase: str, bases: tuple[str, str]) -> dict[str, str]:
    """The annotations of a lane's burn alert; its value is the share of the root. `bases`: of runbooks and dashboards."""
    facts = LANE_FACTS.name
    if phase == Blame.UNATTRIBUTED:
        own = f'lane:llm_slo_root:share{{%sphase="{phase}"}}'
        sure = _matchers() + _asked(own, "$m", '{{ . | first | value | printf "%.2f" }}', "unknown")
    else:
        sure = _fact(facts, "p_sure", _label("ratio"), '{{ $value | printf "%.2f" }}', phase=phase)
    return {
        "summary": _title(facts, phase),
        "description": _lane_text(phase),
        "cause": _fact(facts, "a_root", _label("cause"), NO_CAUSE, phase=phase),
        "confidence": sure,
        "worst_pod": _fact(facts, "n_pod", _label("pod"), "none"),
        "rank": _fact(facts, "_first", "first", "other"),
        **links(
            name,
            bases,
            (*_MODEL, "lane"),
            shown=("lane", "model", "namespace"),
            worst_pod=_fact(facts, "n_pod", '{{ . | first | label "pod" | urlquery }}'),
        ),
    }


QUICKLY, SLOWLY = "2m", "30m"
"""The window of the misses of a pod that burns, and of one that burns slowly."""


def pod_annotations(name: str, bases: tuple[str, str], phase: str = "", *, window: str = QUICKLY) -> dict[str, str]:
    """The annotations of an alert about one pod of many; its value is the share of the root on that pod.

    `phase`: where the rule states it; empty: that of the alert's label, which a template cannot read from a rule.
    """
    facts = POD_FACTS.name
    # The count of misses is of no phase, so a matcher of the alert's own phase would leave it out.
    own = f'phase=~\\"{phase}|\\"' if phase else 'phase=~\\"%s|\\"'
    names = "$e" if phase else "$e $labels.phase"
    piece = (
        '{{ $is := . | label "is" }}'
        f'{{{{ if ne $is "h_misses{SLOWLY if window == QUICKLY else QUICKLY}" }}}}{{{{ . | label "says" }}}}'
        f'{{{{ if eq $is "h_misses{window}" }}}}{_BESIDE_OTHERS}{{{{ end }}}}{{{{ end }}}}'
    )
    walk = f'{{{{ range printf "{facts}{{%s{own}}}" {names} | query | sortByLabel "is" }}}}{piece}{{{{ end }}}}'
    unknown = phase == Blame.UNATTRIBUTED
    sure = _fact(facts, "p_sure", _label("ratio"), '{{ $value | printf "%.2f" }}', phase=phase)
    return {
        "summary": _title(facts, phase, of_pod=True),
        "description": (
            f"Phase {phase or '{{ $labels.phase }}'} on one pod of many"
            f"{_empty('e')}{_matchers(_without('$e', 'phase'))}{walk}"
            f"{' Lane alerts leave its misses out.' if window == QUICKLY else ''}"
        ),
        "cause": _fact(facts, "a_root", _label("cause"), NO_CAUSE, phase=phase),
        "confidence": "unknown" if unknown else sure,
        "worst_pod": "{{ $labels.pod }}",
        **links(name, bases, (*_MODEL, "pod"), shown=("namespace", "pod"), dashboard="llm-fleet"),
    }


_BESIDE_OTHERS = ", three times as often as on the other pods of its model together, or more." + _asked(
    f"topk(1, sum by (lane) (increase({SLO_MISSES_TOTAL.name}{{%s}}[5m])) > 0)",
    "$e",
    ' Most misses: lane {{ . | first | label "lane" }}.',
)


# --- links -------------------------------------------------------------------------------------------------------------------


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
    status = {"status_url": f"{bases[0].removesuffix(_RUNBOOKS_PATH)}/"} if bases[0].endswith(_RUNBOOKS_PATH) else {}
    return {
        **status,
        "runbook_url": _address(f"{bases[0]}/{name}", filled, runbook),
        "dashboard_url": _address(f"{bases[1]}/{dashboard}", _parameters("var-", shown), chosen),
    }


def _address(base: str, parameters: list[str], first: str) -> str:
    return f"{base}?{first}{'&'.join(parameters)}" if parameters else base


def _parameters(prefix: str, labels: Sequence[str]) -> list[str]:
    # `urlquery` is a function of Go's templates themselves, so Prometheus, Mimir, Thanos and vmalert all have it.
    return [f"{prefix}{label}={{{{ {_value_of(label)} | urlquery }}}}" for label in labels]
