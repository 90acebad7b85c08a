"""The labels that all metrics of one request share: one value, filled once by the classification and passed on whole.

Knows their names and nothing else. Each metric declares which of them it shows (`metrics/catalogue.py`), and the
registry picks those from the value. So a new label is one field here and one set there, and no new argument in between.
"""

from typing import NamedTuple


OTHER = "other"
"""The value of a lane, a model or any other label for all that is outside its closed set."""
UNKNOWN = "unknown"
"""The value of a label that is not stated: a prompt bucket, a version, `quantization`, `gpu_type`."""


class RequestLabels(NamedTuple):
    """The labels under which one request is counted. Hashable, and as cheap as a tuple."""

    model: str
    lane: str
    """`model` and `lane` both come from closed sets."""
    prompt_bucket: str
    """From usage if stated, else from a calibrated estimate, else "unknown"."""


UNLABELLED = RequestLabels("", "", "")
"""Labels of a request before its classification. A field stays empty if the metric does not have that label."""
