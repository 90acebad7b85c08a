"""The labels that every number about one request shares: one value, filled once by the classification and handed on whole.

Knows their names and nothing else. Which metric shows which of them is declared with the metric (`metrics/vocabulary.py`), and
the registry projects the value to that: a further label is a field here, a set there, and no argument in between.
"""

from typing import NamedTuple


class RequestLabels(NamedTuple):
    """The classes that one request is counted in. Hashable and as cheap as a tuple."""

    model: str
    lane: str
    """Both from closed sets."""
    prompt_bucket: str
    """From usage where stated, else a calibrated estimate, else "unknown"."""


UNLABELLED = RequestLabels("", "", "")
"""Of a request before its classification; a field that stays empty is no label of the metric at hand."""
