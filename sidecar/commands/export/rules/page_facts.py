"""The facts that a page tells of an incident, recorded once, so that its texts ask one series each.

The rules stand in front of the pages in their group, which is evaluated in order: so the texts of an alert's first evaluation have them.
They add no evidence. Each fact is a series of the alert's own labels, and its label `is` says which one: a letter for its place in the
text, and a name. `says` is the piece of the text that it gives: numbers become words by `count_values`, which writes a value into a label.
A text is all pieces of its alert in order, and what is absent is left out.

| `is` | `says`, and further labels |
|---|---|
| `a_root` | `: prefill costs 2.2x the usual`; `cause`, the leading one of the phase; `title`: ` (prefill_cost 2.2x)`, or ` (slots)` for a cause without a size |
| `b_since` | `; it began at 10:15 UTC`, with the date if it is not today's; `title`: ` since 10:15 UTC` |
| `c_age` | `, 6 min ago`: whole minutes, or hours from two on |
| `d_objective` | `. TTFT` |
| `f_latency` | ` p95 %s,`; `ask`, PromQL for the quantile that the target names, of the window that fired and of the prompt lengths with most misses. It yields nothing below the threshold: requests that failed have missed, and no histogram has their latency. It is asked where it is told, of one lane while it fires: quantiles of all lanes would cost more than all other rules |
| `g_limit` | ` threshold 1.5 s (prompts of 512-4k tokens);` of the same lengths |
| `h_misses` | ` 44 of 61 requests in 2 min missed (outage: at least half).`: the row of the tiers that holds |
| `m_waited` | where most misses waited, if that is another phase than the root's, and why this is no contradiction |
| `n_pod` | a pod that misses clearly more than all together; `pod`, the one with most misses in any case |
| `p_sure` | ` Confidence high: 88 %.`, of the pod that is least sure, or the root's share where no pod tells any; `ratio`, the same from 0 to 1 |
| `o_nearest` | of `unattributed`: the root that is nearest |
| `z_step` | ` First: ...`: the first step |
| `_first` | nothing: no lane of the engine burns faster |
| `_several` | nothing: there are several clusters or namespaces |

Facts of a lane leave out the pods that have a page of their own, as the lane does.
"""

import json
from collections.abc import Mapping

from sidecar.commands.export.rules.burn import (
    ALLOWED_MISSES,
    ENGINE_LABELS,
    JUDGED,
    POD_LABELS,
    SLOW,
    TIERS,
    WHICH_POD,
    WHO,
    Row,
    condition,
    grown,
    without_odd_pods,
)
from sidecar.commands.export.rules.root_rules import (
    LATER_POD_SUMS,
    ODD,
    POD_SUMS,
    SHARE,
    WAITED_IN,
)
from sidecar.commands.export.rules.rule import Record
from sidecar.diagnosis.cause_words import SAYS, SIZED, WAITS
from sidecar.diagnosis.first_steps import first_step
from sidecar.metrics.catalogue import (
    INCIDENT_AGE_SECONDS,
    INCIDENT_CONFIDENCE_RATIO,
    INCIDENT_SIZE_RATIO,
    REQUEST_SECONDS,
    SLO_MISSES_TOTAL,
    SLO_ROOT_CAUSE_MISSES_TOTAL,
    SLO_TARGET_RATIO,
    SLO_THRESHOLD_SECONDS,
    TIME_PER_OUTPUT_TOKEN_SECONDS,
    TIME_TO_FIRST_TOKEN_SECONDS,
)
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import ROOTS, Unknown


WOULD_TELL: Mapping[str, str] = {
    Unknown.YOUNG: "Wait for two quiet minutes, or load a file of sidecar baseline export from a healthy pod",
    Unknown.UNCLEAR: "Read the evidence on the status page; it names the flag of the engine that would tell",
}
"""The first step where the root is not known."""
_MET = {
    ("outage", 0.5): "at least half",
    ("outage", 0.33): "at least a third",
    ("outage", 0.9): "at least nine tenths",
    ("fast", 10): "at least 10 times what the target allows",
    ("steady", 6): "at least 6 times what the target allows",
    ("slow", 2): "at least twice what the target allows",
    ("slow", 1): "at least all that the target allows",
}
"""Tier and threshold of a row of `TIERS` to its condition in words."""
OBJECTIVES: Mapping[str, str] = {
    Objective.TTFT: "TTFT",
    Objective.TPOT: "TPOT",
    Objective.E2E: "E2E",
    Objective.STALL: "Longest gap",
}
_LATENCIES: Mapping[str, tuple[str, str]] = {
    Objective.TTFT: (TIME_TO_FIRST_TOKEN_SECONDS.name, 'prompt_bucket="$1"'),
    Objective.TPOT: (TIME_PER_OUTPUT_TOKEN_SECONDS.name, ""),
    Objective.E2E: (REQUEST_SECONDS.name, 'prompt_bucket="$1",streaming="false"'),
}
"""Objective to the histogram of what it judges, and its matchers; `$1` stands for the prompt length, which the time per token does not have.
Nothing measures the longest gap of each answer."""
LATENCY_ASKED = (
    "(histogram_quantile($1, sum by (le) (increase(${2}_bucket{%[1]s$3}[$4])))"
    " or histogram_quantile($1, sum(increase(${2}{%[1]s$3}[$4])))) > $5"
)
"""PromQL for a latency, of either form of histograms: target, histogram, matchers, window and threshold, with a place for the lane's matchers."""
_LONG_WINDOW = "6h"
"""A quantile over it would read a day's work of buckets for one text."""
WORSE_TIMES = 1.5
"""Times as often as all pods together that a pod must miss to be told: less is chance, or its share of the traffic."""

_MODEL_PHASE = f"{ENGINE_LABELS}, model, phase"
_DAY_DIGITS, _TODAY = "year(%s) * 10000 + month(%s) * 100 + day_of_month(%s)", "scalar((%s) * 10000)"
_MINUTES_TOLD = 120
"""Below it an age is told in minutes."""
_PLACES = f"(count(count by ({ENGINE_LABELS.rpartition(',')[0]}) (lane:llm_slo_{ALLOWED_MISSES}:increase5m)) > 1)"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _labelled(expr: str, **labels: str) -> str:
    for name, value in labels.items():
        # A dollar is a reference to a group in Prometheus.
        expr = f'label_replace({expr}, "{name}", {_text(value.replace("$", "$$"))}, "", "")'
    return expr


def _told(expr: str, label: str, text: str, of: str, pattern: str) -> str:
    """The label with a text, where another label has this pattern; `$1` is its first group."""
    return f'label_replace({expr}, "{label}", {_text(text)}, "{of}", {_text(pattern)})'


def _joined(expr: str, *labels: str) -> str:
    """The labels' values in `all`, a bar between two."""
    return f'label_join({expr}, "all", "|", {", ".join(map(_text, labels))})'


def _written(expr: str, by: str, name: str = "n") -> str:
    """The value as a label; the value that is left means nothing."""
    return f'count_values by ({by}) ("{name}", {expr})'


def _fact(name: str, expr: str) -> str:
    return _labelled(expr, **{"is": name})


def _either(*exprs: str, on: str = "") -> str:
    return f" or{f' on ({on})' if on else ''} ".join(exprs)


def _step(phase: str, cause: str) -> str:
    return WOULD_TELL[cause] if cause in WOULD_TELL else first_step(phase, cause)


def _split(expr: str, *labels: str) -> str:
    """These labels, from the parts of `all`."""
    pattern = "[|]".join(["(.*)"] * len(labels))
    for at, label in enumerate(labels, 1):
        expr = _told(expr, label, f"${at}", "all", pattern)
    return expr


def _root_words() -> str:
    rows = [
        _labelled(
            "vector(1)", all="|".join((phase, cause, SAYS[cause], *SIZED.get(cause, ("", "")), _step(phase, cause)))
        )
        for phase, cause in ROOTS
    ]
    return f"sum by ({_ROOT_WORDS}) ({_split(f'({_either(*rows)})', *_ROOT_WORDS.split(', '))})"


_ROOT_WORDS = "phase, cause, says, before, after, does"
ROOTS_IN_WORDS = Record(
    "root:llm_page:words",
    _root_words(),
    "Each root in words, with its first step. It reads nothing.",
)
CAUSES = Record(
    "pod:llm_slo_root_causes:increase5m",
    f"sum by ({WHICH_POD}, phase, cause) (increase({SLO_ROOT_CAUSE_MISSES_TOTAL.name}[5m])) > 0",
    "Decided misses of each pod by their root, 5m; of most roots there are none.",
)
_DATED = f"timestamp({INCIDENT_AGE_SECONDS.name}) - {INCIDENT_AGE_SECONDS.name}"  # a pod's own clock may be wrong
_BEGAN = f"min by ({POD_LABELS}, phase) ({_DATED} or {_labelled(_DATED, phase=str(Blame.UNATTRIBUTED))})"
_STAMP = f"({_DAY_DIGITS % ((_BEGAN,) * 3)}) * 10000 + hour({_BEGAN}) * 100 + minute({_BEGAN})"
_TODAY_STAMP = _TODAY % (_DAY_DIGITS % ("", "", ""))
INCIDENT_TOLD = Record(
    "sidecar:llm_incident:told",
    _either(
        _labelled(
            f"max by ({POD_LABELS}, phase, cause) (last_over_time({INCIDENT_SIZE_RATIO.name}[5m]) < Inf)",
            **{"is": "size"},
        ),
        _labelled(
            f"min by ({POD_LABELS}, phase) (last_over_time({INCIDENT_CONFIDENCE_RATIO.name}[5m]) <= 1)",
            **{"is": "sure"},
        ),
        _labelled(_STAMP, **{"is": "stamp"}),
        _labelled(f"floor((time() - {_BEGAN}) / 60)", **{"is": "minutes"}),
    ),
    """
    The incident of each pod: size, confidence, the minutes since its beginning, and that instant as a number of twelve digits, 202611292350.
    An incident that is over by now was open in the minutes that a page is about, so its size and confidence count for five minutes.
    Where no phase leads, the pods may have incidents with several roots: the first beginning counts. What is no number is not told.
    """,
)


def _fired(row: Row) -> str:
    return _labelled(" ".join(condition(row).split()), all=f"{row.tier}|{row.window}|{_MET[row.tier, row.at_least]}")


FIRED = Record(
    "lane:llm_slo_misses:fired",
    f"sum by ({WHO}, tier, window, says) ({_split(f'({_either(*map(_fired, TIERS), on=WHO)})', 'tier', 'window', 'says')})",
    "Misses of the window that fired: of the first row of the tiers, in their order, that holds.",
)
_WINDOWS = tuple(dict.fromkeys(row.window for row in TIERS))
WORST = Record(
    "lane:llm_slo_misses:worst_pod",
    f"""
    topk by ({WHO}) (1, sum by ({WHO}, pod) ({without_odd_pods("increase(instance:llm_slo_misses:sum[5m])")}) > 0)
    / on ({WHO}, pod) sum by ({WHO}, pod) ({without_odd_pods("increase(instance:llm_slo_requests:sum[5m])")})
    / on ({WHO}) group_left () (lane:llm_slo_misses:increase5m / lane:llm_slo_requests:increase5m)
    """,
    "The pod that has most of the misses, 5m, and how many times as often as all pods together it misses.",
)
_OF_LENGTH = f"{ENGINE_LABELS}, lane, objective, prompt_bucket"


_MISSED = f"sum by ({WHO}, prompt_bucket) ({without_odd_pods(f'increase({SLO_MISSES_TOTAL.name}[5m])')})"


def _of_length(lengths: str, declared: str) -> str:
    return f"0 * {lengths} + on ({_OF_LENGTH}) group_left () max by ({_OF_LENGTH}) ({declared})"


WORST_LIMIT = Record(
    f"lane:{SLO_THRESHOLD_SECONDS.name}:worst_length",
    _of_length(f"topk by ({WHO}) (1, {_MISSED} > 0)", SLO_THRESHOLD_SECONDS.name),
    "Threshold of the prompt length that has most of the misses, 5m.",
)
AIM = Record(
    f"lane:{SLO_TARGET_RATIO.name}:worst_length", _of_length(WORST_LIMIT.name, SLO_TARGET_RATIO.name), "Its target."
)
NUMBERS_TOLD = (WORST, WORST_LIMIT, AIM, ROOTS_IN_WORDS)
"""These may be 15 s old in a text."""


# --- pieces that lanes and pods have alike ------------------------------------------------------------------------------


def _named_objective(expr: str) -> str:
    for objective, said in OBJECTIVES.items():
        expr = _told(expr, "of", said, "objective", objective)
    return expr


def _beginning(stamps: str, minutes: str, by: str) -> tuple[str, ...]:
    """Pieces about the beginning, from numbers by these labels."""
    today = _told(
        _written(f"({stamps}) >= {_TODAY_STAMP}", by), "says", "; it began at $1:$2 UTC", "n", "........(..)(..)"
    )
    earlier = _told(
        _written(f"({stamps}) < {_TODAY_STAMP}", by),
        "says",
        "; it began at $1-$2-$3 $4:$5 UTC",
        "n",
        "(....)(..)(..)(..)(..)",
    )
    in_minutes = _written(f"({minutes}) >= 1 < {_MINUTES_TOLD}", by)
    in_hours = _written(f"floor((({minutes}) >= {_MINUTES_TOLD}) / 60)", by)
    return (
        _fact("b_since", _told(f"({_either(today, earlier)})", "title", " since $1", "says", "; it began at (.*)")),
        _fact("c_age", _told(in_minutes, "says", ", $1 min ago", "n", "(.*)")),
        _fact("c_age", _told(in_hours, "says", ", $1 h ago", "n", "(.*)")),
    )


def _confidence(ratios: str, by: str) -> str:
    told = _written(f"round(100 * ({ratios}))", by)
    for words, numbers in (("high", "(8[5-9]|9.|100)"), ("fair", "(7.|8[0-4])"), ("low", "([0-6].|.)")):
        told = _told(told, "says", f" Confidence {words}: $1 %.", "n", numbers)
    for ratio, numbers in (("0.$1", "(..)"), ("1.00", "100")):
        told = _told(told, "ratio", ratio, "n", numbers)
    return _fact("p_sure", told)


def _roots(named: str, sizes: str, sized_by: str, by: str) -> str:
    """The roots with their words; `named`: with the labels of `ROOTS_IN_WORDS`, by `by`; `sizes`: by fewer labels."""
    size = _written(f"round({sizes}, 0.1)", sized_by, "size")
    sized = f'label_join({named} * on ({sized_by}) group_left (size) {size}, "says", "", "before", "size", "after")'
    told = _told(f"({_either(sized, named, on=by)})", "says", ": $1", "says", "(.*)")
    told = _joined(told, "cause", "size")
    return _told(_told(told, "title", " ($1)", "all", "(.*)[|]"), "title", " ($1 ${2}x)", "all", "(.*)[|](.+)")


# --- lanes -----------------------------------------------------------------------------------------------------------------

_ROOTED = f"0 * ({SHARE.name} > 0)"
_NOT_ODD = f"unless on ({POD_LABELS}) max_over_time({ODD.name}[5m])"
_LEADING = f"topk by ({_MODEL_PHASE}) (1, sum by ({_MODEL_PHASE}, cause) ({without_odd_pods(CAUSES.name)}))"


def _of_incidents(fact: str, least: str) -> str:
    told = f'{least} by ({ENGINE_LABELS}, phase) ({INCIDENT_TOLD.name}{{is="{fact}"}} {_NOT_ODD})'
    return f"{_ROOTED} + on ({ENGINE_LABELS}, phase) group_left () {told}"


def _lane_roots() -> tuple[str, str]:
    named = f"({_LEADING} * on (phase, cause) group_left (says, before, after) {ROOTS_IN_WORDS.name})"
    told = f'max by ({ENGINE_LABELS}, phase, cause) ({INCIDENT_TOLD.name}{{is="size"}} {_NOT_ODD})'
    roots = _roots(named, told, f"{ENGINE_LABELS}, phase, cause", f"{_MODEL_PHASE}, cause")
    steps = f"({_LEADING} * on (phase, cause) group_left (does) {ROOTS_IN_WORDS.name})"
    step = f"{_ROOTED} + on ({_MODEL_PHASE}) group_left (does) {steps}"
    return (
        _fact("a_root", f"{_ROOTED} + on ({_MODEL_PHASE}) group_left (cause, title, says) {roots}"),
        _fact("z_step", _told(step, "says", " First: $1.", "does", "(.*)")),
    )


def _misses() -> str:
    every = _either(*(_labelled(grown(JUDGED, window), window=window) for window in _WINDOWS))
    judged = _written(f"round(({every}) and on ({WHO}, window) {FIRED.name})", f"{WHO}, window", "judged")
    missed = _written(f"round({FIRED.name})", f"{WHO}, tier, window, says", "missed")
    told = _joined(
        f"{missed} * on ({WHO}, window) group_left (judged) {judged}", "missed", "judged", "window", "tier", "says"
    )
    for letter, unit in (("m", "min"), ("h", "h")):
        pattern = rf"(.*)[|](.*)[|](.*){letter}[|](.*)[|](.*)"
        told = _told(told, "says", f" $1 of $2 requests in $3 {unit} missed ($4: $5).", "all", pattern)
    return _fact("h_misses", told)


def _limits() -> tuple[str, ...]:
    by = f"{WHO}, prompt_bucket"
    limit = f"({WORST_LIMIT.name} and on ({WHO}) {FIRED.name})"
    facts = []
    for expr, unit in ((f"{limit} >= 1", "s"), (f"round(({limit} < 1) * 1000, 0.1)", "ms")):
        told = _joined(_written(expr, by), "n", "prompt_bucket")
        said = f" threshold $1 {unit} (prompts of $2 tokens);"
        facts.append(_fact("g_limit", _told(told, "says", said, "all", "(.*)[|](.*)")))
    return *facts, _latency(by)


def _latency(by: str) -> str:
    aims = _written(AIM.name, by, "aim")
    fired = f'{FIRED.name}{{window!="{_LONG_WINDOW}",objective!="{Objective.STALL}"}}'
    told = (
        f"{aims} * on ({by}) group_left (limit) {_written(WORST_LIMIT.name, by, 'limit')}"
        f" * on ({WHO}) group_left (window) (0 * {fired} + 1)"
    )
    told = _joined(told, "objective", "prompt_bucket")
    for objective, (histogram, matchers) in _LATENCIES.items():
        told = _told(told, "of", histogram, "objective", objective)
        told = _told(told, "with", matchers, "all", f"{objective}[|](.*)")
    told = _told(
        _joined(told, "aim", "of", "with", "window", "limit"),
        "ask",
        LATENCY_ASKED,
        "all",
        "(.*)[|](.*)[|](.*)[|](.*)[|](.*)",
    )
    for said, pattern in (("${1}0", "0[.](.)"), ("$1", "0[.](..)"), ("$1.$2", "0[.](..)(.+)")):
        told = _told(told, "says", f" p{said} %s,", "aim", pattern)
    return _fact("f_latency", told)


def _objectives() -> str:
    return _fact("d_objective", _told(_named_objective(FIRED.name), "says", ". $1:", "of", "(.*)"))


def _waited() -> str:
    most = f'label_replace(topk by ({WHO}) (1, {WAITED_IN.name}), "waited", "$1", "phase", "(.+)")'
    waited = f"max by ({WHO}, waited) ({most} and on ({WHO}) {FIRED.name})"
    told = (
        f"{_ROOTED} + on ({WHO}) group_left (waited) {waited}"
        f" unless on ({WHO}, phase) {_told(waited, 'phase', '$1', 'waited', '(.*)')}"
    )
    for phase, why in WAITS.items():
        told = _told(told, "why", why, "phase", phase)
    told = _told(_joined(told, "waited", "why"), "says", " Most waited in $1.", "all", "(.*)[|]")
    return _fact(
        "m_waited",
        _told(told, "says", " Most waited in $1, which is no contradiction: $2.", "all", "(.*)[|](.+)"),
    )


def _worst_pods() -> str:
    worse = _joined(_written(f"round({WORST.name} >= {WORSE_TIMES}, 0.1)", f"{WHO}, pod"), "n", "pod")
    said = " Pod $2 misses $1x as often as all pods together."
    return _fact("n_pod", f"({_either(_told(worse, 'says', said, 'all', '(.*?)[|](.*)'), WORST.name, on=WHO)})")


def _nearest() -> str:
    known = f'topk by ({WHO}) (1, {SHARE.name}{{phase!="{Blame.UNATTRIBUTED}"}} > 0)'
    told = _joined(_written(f"round(100 * {known})", f"{WHO}, phase"), "phase", "n")
    told = _told(told, "says", " The nearest root is $1 with $2 %.", "all", "(.*)[|](.*)")
    return _labelled(_fact("o_nearest", told), phase=str(Blame.UNATTRIBUTED))


def _lane_facts() -> str:
    burns = "lane:llm_slo_burn:ratio_rate5m"
    known = f'{SHARE.name}{{phase!="{Blame.UNATTRIBUTED}"}} > 0'
    sure = f"{_of_incidents('sure', 'min')} or on ({WHO}, phase) {known}"
    return _either(
        *_lane_roots(),
        *_beginning(_of_incidents("stamp", "min"), _of_incidents("minutes", "max"), f"{WHO}, phase"),
        _objectives(),
        *_limits(),
        _misses(),
        _waited(),
        _worst_pods(),
        _confidence(sure, f"{WHO}, phase"),
        _nearest(),
        _fact(
            "_first",
            f"({burns} >= on ({ENGINE_LABELS}) group_left () max by ({ENGINE_LABELS}) ({burns})) and on ({WHO}) {FIRED.name}",
        ),
        _fact("_several", f"0 * max by ({WHO}) ({FIRED.name}) + on () group_left () {_PLACES}"),
    )


_OF_A_FACT = "is, title, says, ask, cause, ratio"
LANE_FACTS = Record(
    "lane:llm_page:facts",
    f"max by ({WHO}, phase, pod, {_OF_A_FACT}) ({_lane_facts()})",
    "The facts of lanes that miss.",
)


# --- single pods -----------------------------------------------------------------------------------------------------------

_POD_PHASE = f"{WHICH_POD}, phase"
_POD_LEADING = f"topk by ({_POD_PHASE}) (1, {CAUSES.name})"


def _of_pod(fact: str) -> str:
    return f'0 * {_POD_LEADING} + on ({POD_LABELS}, phase) group_left () {INCIDENT_TOLD.name}{{is="{fact}"}}'


def _pod_misses(sums: str, window: str) -> str:
    own = f"{WHICH_POD}, objective"
    missed = _written(f'round(topk by ({WHICH_POD}) (1, {sums}{{of="misses"}} > 0))', own, "missed")
    judged = _written(f'round({sums}{{of="requests"}})', own, "judged")
    told = _named_objective(f"{missed} * on ({own}) group_left (judged) {judged}")
    words = f". $1: $2 of $3 requests in {window.removesuffix('m')} min missed"
    told = _told(_joined(told, "of", "missed", "judged"), "says", words, "all", "(.*)[|](.*)[|](.*)")
    return _fact(f"h_misses{window}", told)


def _pod_facts() -> str:
    named = f"({_POD_LEADING} * on (phase, cause) group_left (says, before, after) {ROOTS_IN_WORDS.name})"
    roots = _roots(named, f'{INCIDENT_TOLD.name}{{is="size"}}', f"{POD_LABELS}, phase, cause", f"{_POD_PHASE}, cause")
    step = f"{_POD_LEADING} * on (phase, cause) group_left (does) {ROOTS_IN_WORDS.name}"
    return _either(
        _fact("a_root", roots),
        *_beginning(_of_pod("stamp"), _of_pod("minutes"), _POD_PHASE),
        _pod_misses(POD_SUMS.name, "2m"),
        _pod_misses(LATER_POD_SUMS.name, SLOW.window),
        _confidence(_of_pod("sure"), _POD_PHASE),
        _fact("z_step", _told(step, "says", " First: $1.", "does", "(.*)")),
        _fact("_several", f"0 * {_POD_LEADING} + on () group_left () {_PLACES}"),
    )


POD_FACTS = Record(
    "pod:llm_page:facts",
    f"max by ({WHICH_POD}, phase, {_OF_A_FACT.replace('ask, ', '')}) ({_pod_facts()})",
    "The facts of single pods that miss.",
)
FACTS = (CAUSES, INCIDENT_TOLD, FIRED, LANE_FACTS, POD_FACTS)
"""In the order in which they need each other, in front of the alerts that read them."""
