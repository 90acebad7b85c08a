"""Both forms of a histogram, as queries must read them: what is asked of a classic one is asked of a native one in its place.

Knows which function reads of a native histogram what a classic one has as a series. Refuses to know panels and units.
"""

from collections.abc import Iterator
from typing import Any

import promql_parser as promql

from sidecar.metrics.target_labels import ONE_PROCESS
from tests.grafana.boards import Json, targets
from tests.grafana.query_rules import Complaints, tree_of, where
from tests.grafana.series import NATIVE, children, matched, selectors, walk


def reads_any_form(dashboard: Json) -> Complaints:
    """A query of a classic histogram reads a native one in its place: after an `or`, with the same matchers."""
    for panel, target in targets(dashboard):
        tree = tree_of(target)
        whole = panel["targets"] if panel["type"] == "heatmap" else ()  # its queries are drawn one over the other
        beside = [(one, _READS_NATIVE["bucket"]) for other in whole for one in selectors(tree_of(other))]
        for selector in of_classic_alone(tree, beside):
            yield f"{where(panel, target)}: {selector.name} is read of classic histograms alone"
        for node in walk(tree):
            if isinstance(node, promql.BinaryExpr) and str(node.op) == "unless":
                left, right = (selectors(side) for side in (node.lhs, node.rhs))
                if right[0].name in NATIVE and any(_of_process(one) != matched(right[0]) for one in left):
                    yield f"{where(panel, target)}: {right[0].name} stands for other pods than {left[0].name}"


def _of_process(selector: promql.VectorSelector) -> dict[str, str]:
    """The matchers that choose processes: what is left out by process must leave out those, and no others."""
    return {name: how for name, how in matched(selector).items() if name in ONE_PROCESS}


_READS_NATIVE = {
    "sum": frozenset({"histogram_sum"}),
    "count": frozenset({"histogram_count", "histogram_fraction"}),
    "bucket": frozenset({"histogram_quantile", "histogram_fraction"}),
}
"""Part of a classic histogram to the functions that read the same of a native one; a share of samples is one function of two parts."""
Read = tuple[promql.VectorSelector, frozenset[str]]
"""A selector, and the functions around it."""


def of_classic_alone(node: Any, beside: list[Read]) -> Iterator[promql.VectorSelector]:
    """The selectors of classic histograms without their like of native ones. `beside`: what is read where this node finds nothing."""
    if isinstance(node, promql.VectorSelector):
        whole, _, part = (node.name or "").rpartition("_")
        if whole in NATIVE and part in _READS_NATIVE and not any(_is_like(node, whole, part, one) for one in beside):
            yield node
    elif isinstance(node, promql.BinaryExpr) and str(node.op) == "or":
        yield from of_classic_alone(node.lhs, [*beside, *_read(node.rhs, frozenset())])
        yield from of_classic_alone(node.rhs, beside)
    else:
        for child in children(node):
            yield from of_classic_alone(child, beside)


def _is_like(classic: promql.VectorSelector, whole: str, part: str, read: Read) -> bool:
    own = {name: how for name, how in matched(classic).items() if name != "le"}
    return read[0].name == whole and matched(read[0]) == own and bool(read[1] & _READS_NATIVE[part])


def _read(node: Any, around: frozenset[str]) -> Iterator[Read]:
    if isinstance(node, promql.VectorSelector):
        yield node, around
    if isinstance(node, promql.Call):
        around |= {node.func.name}
    for child in children(node):
        yield from _read(child, around)
