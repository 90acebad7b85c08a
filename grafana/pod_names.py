"""Pods' names in columns and legends that are too narrow for them: the end is shown, because pods of one Deployment differ in it alone.

Knows how a query says what is shown of a name. The label `pod` stays beside it, whole, for links. Refuses to know which panels there are.
"""

import re


SHOWN = 12
"""Characters: a Deployment's pods end in a hash of their version, a hyphen and five characters of their own. Six of the hash tell two
versions apart."""
SHOWN_POD = "shown_pod"
"""The label that stands in a column and names a line."""
WHOLE_POD = "whole_pod"
"""The heading of the hidden column of whole names."""
_GROUPED = re.compile(r"by \([^)]*\bpod\b")


def with_shown_pod(expr: str) -> str:
    """The expression with what is shown of the pod's name in a second label, if it has any pod.

    Grafana's own ways fail: with `renameByRegex` the first line of a panel has the colour of its former name, beside a row of another
    colour (Grafana 11.6), and with a value mapping a link gets as much of the name as the cell shows.
    """
    if not _GROUPED.search(expr):
        return expr
    whole = f'label_replace({expr}, "{SHOWN_POD}", "$1", "pod", "(.+)")'
    return f'label_replace({whole}, "{SHOWN_POD}", "…$1", "pod", ".{{2,}}(.{{{SHOWN}}})")'
