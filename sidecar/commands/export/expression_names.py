"""The metrics and labels that an expression of PromQL names. Knows these parts of the language alone, and the catalogue. Pure."""

import re
from collections.abc import Iterable
from functools import cache

from sidecar.metrics.catalogue import CATALOGUE, LEAN, LEAN_SUMS_OVER


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_METRIC = re.compile(r"(?<![\w:$])llm_\w+(?![\w:])")
"""A recorded series has a colon in its name, and a variable of a dashboard a dollar sign before it."""
_GROUPED = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
_PARTS = re.compile(
    r'"(?:[^"\\]|\\.)*"|(?:\b(?:label_replace|label_join)\s*|\bcount_values(?:\s+by\s*\([^)]*\))?\s*)?\(|[\[{)\]},]'
)
"""Texts, commas and brackets; a function that writes a label with its bracket."""
_LABEL_AT = {"label_replace": 1, "label_join": 1, "count_values": 0}
"""Place of the argument that names the label."""
_SUFFIX = re.compile(r"_(?:bucket|sum|count)$")
_DECLARED = frozenset(metric.name for metric in CATALOGUE)
_NOT_LEAN = _DECLARED - {metric.name for metric in LEAN}


def metrics_in(expression: str) -> set[str]:
    """The series of the sidecar that an expression reads, such as `llm_request_seconds_bucket`."""
    return set(_METRIC.findall(_QUOTED.sub('""', expression)))


def declared_as(name: str) -> str:
    """The name of the metric that has this series: `llm_request_seconds`. The name itself where none has."""
    return name if name in _DECLARED else _SUFFIX.sub("", name)


def undeclared(names: Iterable[str]) -> list[str]:
    """The names that no metric of this version has."""
    return sorted(name for name in names if declared_as(name) not in _DECLARED)


def left_out(expression: str) -> list[str]:
    """The metrics in an expression that a page of `metrics.profile: lean` does not have, and the labels that it sums over and the
    expression groups by.
    """
    metrics = {declared_as(name) for name in metrics_in(expression)} & _NOT_LEAN
    grouped = grouped_by(expression)
    return [*sorted(metrics), *(label.name for label in LEAN_SUMS_OVER if label.name in grouped)]


def grouped_by(expression: str) -> set[str]:
    """The labels that an expression groups or joins by."""
    return {label for labels in label_lists(expression) for label in labels}


def labels_made(expression: str) -> set[str]:
    """The labels that an expression writes itself: by `label_replace`, `label_join` and `count_values`."""
    made, functions, arguments = set[str](), [""], [0]
    for part in _PARTS.finditer(expression):
        text = part[0]
        if text[-1] in "([{":
            functions.append(text[:-1].split(" ")[0].split("(")[0])
            arguments.append(0)
        elif text in ")]}":
            functions.pop()
            arguments.pop()
        elif text == ",":
            arguments[-1] += 1
        elif arguments[-1] == _LABEL_AT.get(functions[-1]):
            made.add(text[1:-1])
    return made


@cache
def label_lists(expression: str) -> tuple[tuple[str, ...], ...]:
    """The labels of each `by (...)` and `on (...)`."""
    found = _GROUPED.findall(_QUOTED.sub('""', expression))
    return tuple(tuple(label.strip() for label in labels.split(",") if label.strip()) for labels in found)
