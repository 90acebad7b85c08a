"""Pods' names in columns and legends that are too narrow for them: the end is shown, because pods of one Deployment differ in it alone.

Knows how Grafana shortens a text, and how a link still gets the whole name: `${__data.fields.pod}` is the text that a cell shows, so
the whole name is in a hidden column beside it. Refuses to know which panels there are.
"""

import re
from collections.abc import Mapping


SHOWN = 14
"""Characters: a Deployment's pods end in a hash of their version, a hyphen and five characters of their own."""
WHOLE_POD = "whole_pod"
"""The hidden column, and the label that it is made of."""
SHOWN_POD = "shown_pod"
"""The label that names a line."""
_GROUPED = re.compile(r"by \([^)]*\bpod\b")


def pods_mapping(index: int) -> Mapping[str, object]:
    """The value mapping of a column of pods; `index` is its place among the column's mappings."""
    return {
        "type": "regex",
        "options": {"pattern": rf"/^.{{2,}}(.{{{SHOWN}}})$/", "result": {"text": "…$1", "index": index}},
    }


def with_shown_pod(expr: str) -> str:
    """The expression with what is shown of the pod's name in a second label: the names of lines are made of it.

    Not with Grafana's `renameByRegex`: the first line of such a panel has the colour of its former name, beside a row of another colour
    (Grafana 11.6).
    """
    whole = f'label_replace({expr}, "{SHOWN_POD}", "$1", "pod", "(.+)")'
    return f'label_replace({whole}, "{SHOWN_POD}", "…$1", "pod", ".{{2,}}(.{{{SHOWN}}})")'


def with_whole_pod(expr: str) -> str:
    """The expression with the pod's name in a second label, if it has any pod."""
    return f'label_replace({expr}, "{WHOLE_POD}", "$1", "pod", "(.+)")' if _GROUPED.search(expr) else expr


def in_row(label: str) -> str:
    """A label of a table's row, whole, in the address of a link."""
    return f"${{__data.fields.{WHOLE_POD if label == 'pod' else label}}}"
