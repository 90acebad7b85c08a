"""Rules that a dashboard's queries keep, judged on their trees: variables honoured, quantiles and counters used as they may be, units right."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import promql_parser as promql

from grafana.panel import PODS_UNIT, SAMPLES_UNIT
from sidecar.commands.export.rules.dashboard_rules import BUDGET_DAYS, RECORDED
from sidecar.metrics.histogram_forms import SAMPLES_NEEDED
from sidecar.metrics.target_labels import ONE_ENGINE, ONE_PROCESS
from tests.grafana.boards import MAGIC, Json, column_of, numbers_of, targets, unit_of, with_durations
from tests.grafana.dimensions import UNIT, UnknownDimensionError, dimension_of, observed, written
from tests.grafana.gate import is_sequential
from tests.grafana.series import (
    CONSTANT,
    FORM,
    NATIVE,
    TARGET,
    VERSION,
    Labels,
    children,
    grouped_left,
    grouping,
    inner,
    is_scalar,
    known,
    labels_of,
    matched,
    on_labels,
    operands,
    recorded,
    selectors,
    walk,
)


Complaints = Iterator[str]
Rule = Callable[[Json], Complaints]

VARIABLES = ("cluster", "namespace", "pod", "model", "lane", "prompt_bucket")
SUMMED_ON_PURPOSE = {
    ("llm_requests_total", "outcome"),
    ("llm_answers_total", "finish_reason"),
    ("llm_phase_attribution_total", "reason"),
    ("llm_request_phase_seconds", "source"),
    ("llm_request_phase_seconds_bucket", "source"),
    ("llm_request_phase_seconds_sum", "source"),
    ("llm_request_phase_seconds_count", "source"),
    ("lane:llm_slo_root:share", "window"),
}
"""Labels that a query may leave out: a request has one outcome and one finish reason, a split one reason, a phase one source, a share one window."""
WHO = frozenset({*ONE_ENGINE, "model", "lane", "objective"})
"""Labels that tell two objectives apart."""
SHOWN_WHERE_SEVERAL = frozenset({"shown_cluster", "shown_namespace", "shown_job", "shown_model"})
"""Labels that are left empty, so that nothing is shown, where a label has one value."""
JOB = "job"
"""Recorded series keep engines of one namespace apart by it; other queries may add these engines."""
BURN = {"llm_slo_misses_total", "llm_slo_allowed_misses_total"}
"""A burn rate is of a window that its name says."""
NOW_IN_SECONDS = "300s"
"""`grafana.query.NOW`, as the parser gives it back."""
BUDGET_IN_SECONDS = f"{BUDGET_DAYS * 86400}s"
SWITCH = "$computed"
"""The variable that reads either what is recorded for pictures or what that was recorded from."""
_SIDES = (f'!~"{SWITCH}"', f'=~"{SWITCH}"')
_RATES = {"rate", "irate", "increase"}
RATE_INTERVAL = "$__rate_interval"
"""Grafana's window of four scrapes: a minute of most sidecars."""


@lru_cache(maxsize=1024)
def _parsed(expr: str) -> Any:
    try:
        return promql.parse(with_durations(expr))
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def _sound(expr: str) -> Any:
    tree = _parsed(expr)
    return tree if tree is not None and all((one.name or "") in known() for one in selectors(tree)) else None


def tree_of(target: Json) -> Any:
    """A target's tree; None if it does not parse, or names a series that does not exist: those are complaints of their own."""
    return _sound(target["expr"])


def where(panel: Json, target: Json) -> str:
    return f"panel {panel['title']!r} {target['refId']}"


def parses(dashboard: Json) -> Complaints:
    """[target-promql], and only series that are exposed or recorded."""
    for panel, target in targets(dashboard):
        tree = _parsed(target["expr"])
        if tree is None:
            yield f"{where(panel, target)}: no PromQL: {target['expr']}"
            continue
        for selector in selectors(tree):
            if (selector.name or "") not in known():
                yield f"{where(panel, target)}: no page exposes {selector.name}"


def honours_the_variables(dashboard: Json) -> Complaints:
    """Each selector obeys every variable whose label its series carries."""
    for panel, target in targets(dashboard):
        for selector in selectors(tree_of(target)):
            labels, said = known()[selector.name or ""], matched(selector)
            for name in VARIABLES:
                if name in labels and said.get(name) != f'=~"${name}"':
                    yield f"{where(panel, target)}: {selector.name} does not obey ${name}"
            for name in sorted(set(said) - labels):
                yield f"{where(panel, target)}: {selector.name} has no label {name}"


def reads_one_of_two(dashboard: Json) -> Complaints:
    """A series of the optional rule file has what it was recorded from beside it, and the switch reads only one of them."""
    for panel, target in targets(dashboard):
        for selector, said in _switched(tree_of(target)):
            if said and matched(selector).get(JOB) != said:
                yield f"{where(panel, target)}: {selector.name} is not read in turn with what stands beside it"
            if not said and SWITCH in str(selector):
                yield f"{where(panel, target)}: {selector.name} is switched off without another in its place"

        for node in walk(tree_of(target)):
            if not isinstance(node, promql.BinaryExpr) or str(node.op) != "or" or not _is_optional(node.lhs):
                continue
            chosen = _own_matchers(selectors(node.lhs)[0])
            for selector in selectors(node.rhs):
                labels = known()[selector.name or ""]
                if _own_matchers(selector) != {name: how for name, how in chosen.items() if name in labels}:
                    yield f"{where(panel, target)}: {selector.name} is chosen otherwise than what is recorded"


def _switched(node: Any, side: str = "") -> Iterator[tuple[promql.VectorSelector, str]]:
    """Each selector with the matcher of its job that the switch wants; empty where nothing recorded could stand in its place."""
    if isinstance(node, promql.VectorSelector):
        # Alone, a series that may not be recorded is no answer.
        yield node, "nothing beside it" if node.name in RECORDED and side != _SIDES[0] else side
    elif isinstance(node, promql.BinaryExpr) and str(node.op) == "or" and _is_optional(node.lhs):
        yield from _switched(node.lhs, _SIDES[0])
        yield from _switched(node.rhs, _SIDES[1])
    else:
        for child in children(node):
            yield from _switched(child, side)


def _own_matchers(selector: promql.VectorSelector) -> dict[str, str]:
    return {name: how for name, how in matched(selector).items() if name not in {*VARIABLES, JOB}}


def _is_optional(node: Any) -> bool:
    return all(one.name in RECORDED for one in selectors(node))


def says_what_it_sums_over(dashboard: Json) -> Complaints:
    """Every label of a series that no variable chooses is matched or kept, or the whole of the same part over whole."""
    for panel, target in targets(dashboard):
        for selector, name in _unsaid(tree_of(target), frozenset(), kept_all=True):
            yield f"{where(panel, target)}: {selector.name} is summed over {name}"


def _unsaid(node: Any, kept: Labels, *, kept_all: bool, whole_of: Labels = frozenset()) -> Iterator[tuple[Any, str]]:
    """`whole_of`: series of which only a part stands above the line; below it the whole may stand."""
    if isinstance(node, promql.VectorSelector):
        name = node.name or ""
        constant = frozenset() if name.endswith("_info") else CONSTANT
        added = {*VARIABLES, *constant, VERSION, *({JOB} if name not in recorded() else ())}
        own = known()[name] - added - set(matched(node))
        if name not in whole_of:
            missing = frozenset() if kept_all else own - kept
            yield from ((node, label) for label in sorted(missing) if (name, label) not in SUMMED_ON_PURPOSE)
        return
    if isinstance(node, promql.AggregateExpr) and str(node.op) not in {"topk", "bottomk"}:
        within = grouping(node)
        within = within if kept_all else within & kept
        below = _unsaid(node.expr, within, kept_all=False, whole_of=whole_of)
        yield from () if _is_values_of_a_label(node) else below  # which values there are is no sum
        return
    if isinstance(node, promql.Call) and node.func.name == "label_replace" and inner(node.args[1]).val in kept:
        kept |= {inner(node.args[3]).val}
    if isinstance(node, promql.Call) and node.func.name == "histogram_quantile":
        yield from _unsaid(node.args[1], kept | {"le"}, kept_all=kept_all, whole_of=whole_of)
        return
    if isinstance(node, promql.BinaryExpr):
        yield from _unsaid(node.lhs, kept, kept_all=kept_all, whole_of=whole_of)
        if str(node.op) in {"and", "unless"}:
            kept_all = True
        if str(node.op) == "/":
            whole_of |= {one.name or "" for one in selectors(node.lhs)}
        yield from _unsaid(node.rhs, kept, kept_all=kept_all, whole_of=whole_of)
        return
    for child in children(node):
        yield from _unsaid(child, kept, kept_all=kept_all, whole_of=whole_of)


def _is_values_of_a_label(node: Any) -> bool:
    return isinstance(node, promql.AggregateExpr) and str(node.op) == "group" and len(grouping(node)) == 1


def leaves_receipts_out(dashboard: Json) -> Complaints:
    """A share of requests names the outcomes that it is of: the receipts for work in the background are no answers."""
    for panel, target in targets(dashboard):
        nodes = walk(tree_of(target))
        if not any(isinstance(node, promql.BinaryExpr) and str(node.op) == "/" for node in nodes):
            continue
        for selector in selectors(tree_of(target)):
            if selector.name == "llm_requests_total" and "outcome" not in matched(selector):
                yield f"{where(panel, target)}: {selector.name} counts what was only accepted"


def takes_rates_right(dashboard: Json) -> Complaints:
    """[target-rate-interval, target-counter-agg]: the rate interval over time, the whole range for one number. One fixed window, NOW,
    for one number, for quantiles, and in a condition.
    """
    for panel, target in targets(dashboard):
        if is_sequential(target):
            continue
        tree, ranged = tree_of(target), set()
        conditions = {str(selector) for selector in _conditions(tree)}
        for function, matrix in _ranges(tree):
            ranged.add(str(matrix.vector_selector))
            may_be_fixed = (
                matrix.vector_selector.name in BURN
                or has_buckets(matrix.vector_selector)
                or str(matrix.vector_selector) in conditions
                # A series recorded over these minutes has them in its name.
                or matched(matrix.vector_selector).get(JOB) == f'=~"{SWITCH}"'
                or target["refId"] in numbers_of(panel)
            )
            complaints = _badly_ranged(target, function, matrix, may_be_fixed=may_be_fixed)
            yield from (f"{where(panel, target)}: {one}" for one in complaints)
        for selector in selectors(tree):
            if _counts(selector) and selector.name not in recorded() and str(selector) not in ranged:
                yield f"{where(panel, target)}: {selector.name} without a rate"


def _ranges(tree: Any) -> Iterator[tuple[str, promql.MatrixSelector]]:
    for node in walk(tree):
        for argument in node.args if isinstance(node, promql.Call) else ():
            if isinstance(inner(argument), promql.MatrixSelector):
                yield node.func.name, inner(argument)


def _conditions(tree: Any) -> list[promql.VectorSelector]:
    """The selectors that only decide which samples stay."""
    return [
        selector
        for node in walk(tree)
        if isinstance(node, promql.BinaryExpr) and str(node.op) in {"and", "unless"}
        for selector in selectors(node.rhs)
    ]


def _badly_ranged(target: Json, function: str, matrix: promql.MatrixSelector, *, may_be_fixed: bool) -> Complaints:
    allowed = "$__range" if target.get("instant") else "$__rate_interval"
    window = f"{round(matrix.range.total_seconds())}s"
    fixed = window == NOW_IN_SECONDS and (target.get("instant") or may_be_fixed)
    # A budget is one of so many days; recorded hours stand beside the raw counters.
    fixed |= window == BUDGET_IN_SECONDS and may_be_fixed and matrix.vector_selector.name in BURN
    if window != MAGIC[allowed] and not fixed:
        yield f"a window other than {allowed}"
    if function == "rate" and target.get("instant") and not fixed:
        yield "a rate over the whole range: the linter wants increase"
    if may_be_fixed and function == "max_over_time":
        return
    if function == "avg_over_time" and (matrix.vector_selector.name or "").startswith("pod:llm_slo:increase"):
        return  # what it grew by is a gauge
    if function not in _RATES or not _counts(matrix.vector_selector):
        yield f"{function} of {matrix.vector_selector.name}"


def _counts(selector: promql.VectorSelector) -> bool:
    name = (selector.name or "").removesuffix(":sum")
    return name in NATIVE or name.endswith(("_total", "_sum", "_count", "_bucket"))


def has_buckets(selector: promql.VectorSelector) -> bool:
    return selector.name in NATIVE or (selector.name or "").endswith("_bucket")


def takes_quantiles_right(dashboard: Json) -> Complaints:
    """By le from buckets, or from native histograms, where the samples carry it; not of a scrape or two; never averaged, added or stacked."""
    for panel, target in targets(dashboard):
        tree = tree_of(target)
        calls = [
            node for node in walk(tree) if isinstance(node, promql.Call) and node.func.name == "histogram_quantile"
        ]
        for call in calls:
            below = inner(call.args[1])
            summed = isinstance(below, promql.AggregateExpr) and str(below.op) == "sum"
            by_edge = summed and "le" in grouping(below)
            if not summed or any(not has_buckets(one) or by_edge is (one.name in NATIVE) for one in operands(below)):
                yield f"{where(panel, target)}: a quantile that is not of sum by (le) of buckets, or of a sum of native histograms"
            of = inner(call.args[0]).val
            if _samples_asked_for(call, tree) != SAMPLES_NEEDED.get(of):
                yield f"{where(panel, target)}: quantile {of} where fewer samples than it needs carry it, or more are asked for"
        if calls and RATE_INTERVAL in target["expr"]:
            yield f"{where(panel, target)}: a quantile of the samples of a scrape or two"
        for node in walk(tree):
            mixing = (isinstance(node, promql.AggregateExpr) and str(node.op) in {"sum", "avg", "stddev"}) or (
                isinstance(node, promql.BinaryExpr) and str(node.op) in {"+", "*"}
            )
            if mixing and any(call in _below(node) for call in calls):
                yield f"{where(panel, target)}: a quantile is added or averaged"
            ranking = isinstance(node, promql.AggregateExpr) and str(node.op) == "max" and "lane" not in grouping(node)
            if ranking and any("lane" in labels_of(call, known()) for call in calls if call in _below(node)):
                yield f"{where(panel, target)}: quantiles of lanes compete"
        stacked = panel["fieldConfig"]["defaults"].get("custom", {}).get("stacking", {}).get("mode") not in {
            None,
            "none",
        }
        if calls and stacked:
            yield f"{where(panel, target)}: stacked quantiles"


def _samples_asked_for(call: Any, tree: Any) -> float | None:
    """The number n of `call and ... >= n`; None if nothing is asked for."""
    for node in walk(tree):
        if isinstance(node, promql.BinaryExpr) and str(node.op) == "and" and inner(node.lhs) == call:
            enough = inner(node.rhs)
            if isinstance(enough, promql.BinaryExpr) and str(enough.op) == ">=":
                return float(inner(enough.rhs).val)
    return None


def _below(node: Any) -> list[Any]:
    return [one for child in children(node) for one in walk(child)]


def joins_right(dashboard: Json) -> Complaints:
    """Both sides of an operation meet label for label; a part is not divided by itself; grouping names what is there."""
    for panel, target in targets(dashboard):
        for node in walk(tree_of(target)):
            if isinstance(node, promql.AggregateExpr):
                below = labels_of(node.expr, known())
                if lost := grouping(node) - below:
                    yield f"{where(panel, target)}: by ({', '.join(sorted(lost))}), which is not there"
                if str(node.op) == "quantile" and below == grouping(node):
                    yield f"{where(panel, target)}: a quantile over one value"
                pods = {"cluster", "namespace", "pod"} <= below
                if str(node.op) == "count" and not pods and not _is_values_of_a_label(inner(node.expr)):
                    yield f"{where(panel, target)}: what is counted are not pods"
                if str(node.op) in {"topk", "bottomk"} and _too_many_compete(below, grouping(node)):
                    yield f"{where(panel, target)}: {node.op} lets lanes compete with each other"
            if isinstance(node, promql.BinaryExpr) and not is_scalar(node.lhs) and not is_scalar(node.rhs):
                yield from (f"{where(panel, target)}: {one}" for one in _badly_joined(node))


def _too_many_compete(labels: Labels, within: Labels) -> bool:
    """One label may rank, such as the phase or the pod, and the root of a pod, which has two; lanes and engines are told apart."""
    ranked = labels - within - {"window"}
    roots = "pod" in within and ranked == {"phase", "cause"}
    return bool(ranked & ({*VARIABLES, "objective", JOB} - {"pod"})) or (len(ranked) > 1 and not roots)


def _badly_joined(node: promql.BinaryExpr) -> Complaints:
    left, right = labels_of(node.lhs, known()), labels_of(node.rhs, known())
    on, operator = on_labels(node), str(node.op)
    if operator == "/" and str(inner(node.lhs)) == str(inner(node.rhs)):
        yield "divided by itself"
    if operator in {"or", "and", "unless"}:
        yield from _badly_chosen(operator, left, right, on)
    elif grouped_left(node):
        brought = frozenset(node.modifier.group_labels or () if node.modifier else ())
        if on is None or on != right - brought or not on <= left or not brought <= right:
            yield f"group_left on {sorted(on or ())}, but {sorted(right)} on the one side"
    elif not left == right == (left if on is None else on):
        yield f"{sorted(left)} never meets {sorted(right)}"


def _badly_chosen(operator: str, left: Labels, right: Labels, on: Labels | None) -> Complaints:
    """The rules of operators that keep samples as they are."""
    if operator == "or":
        if left - SHOWN_WHERE_SEVERAL != right - {FORM} - SHOWN_WHERE_SEVERAL or (on is not None and on != left & WHO):
            yield "or of different things"
    elif operator == "unless" and on is None:
        if left != right:
            yield f"unless of {sorted(right)}, but {sorted(left)} stay"
    elif operator == "unless" and on == frozenset(ONE_PROCESS):
        if not left & TARGET == right & TARGET == TARGET:
            yield "unless of a process, where one of the two sides is not of one"
    elif on != left & right:
        yield f"{operator} not on all labels that both have"


def has_the_right_unit(dashboard: Json) -> Complaints:
    """[panel-units]: the only unit that fits what the query measures."""
    for panel, target in targets(dashboard):
        tree = tree_of(target)
        if tree is None:
            continue
        unit = unit_of(panel, target["refId"])
        if is_sequential(target):
            if unit != "percentunit":
                yield f"{where(panel, target)}: a probability in {unit}"
            continue
        try:
            dimension = observed(selectors(tree)[0].name or "") if panel["type"] == "heatmap" else dimension_of(tree)
            expected = UNIT[written(dimension)]
        except (UnknownDimensionError, KeyError) as error:
            yield f"{where(panel, target)}: of unknown dimension: {error}"
            continue
        if expected == UNIT["event"] and panel["type"] == "table" and column_of(panel, target["refId"]) == "scope":
            expected = PODS_UNIT
        if target["refId"] in numbers_of(panel) and expected == UNIT["event"]:
            expected = SAMPLES_UNIT  # beside seconds it says what it is
        if unit != expected:
            yield f"{where(panel, target)}: {written(dimension) or 'a share'} in {unit}, not {expected}"
        words = [one for one in panel["fieldConfig"]["defaults"].get("mappings", []) if one["type"] == "value"]
        if panel["type"] == "state-timeline" and not words:
            yield f"{where(panel, target)}: states without words"


QUERY_RULES: tuple[Rule, ...] = (
    parses,
    honours_the_variables,
    reads_one_of_two,
    says_what_it_sums_over,
    leaves_receipts_out,
    takes_rates_right,
    takes_quantiles_right,
    joins_right,
    has_the_right_unit,
)
