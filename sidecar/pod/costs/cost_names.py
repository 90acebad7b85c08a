"""The names of the two costs of an engine, and of the reasons for which a cost is unknown: closed sets of label values. Pure."""

from enum import StrEnum


class Unpriced(StrEnum):
    """Why there is no factor."""

    YOUNG = "young"
    """Too few steps were seen while all was well."""
    RESIDUALS = "residuals"
    """Steps of the same shape take different times."""
    COVERAGE = "coverage"
    """Streams do not speak at each step: several schedulers, several tokens in an event, or traffic that passes by."""
    FEW = "few"
    """Too few steps or prompts now, or prompts in all steps."""


class Part(StrEnum):
    """The two costs of an engine: the closed set of the label `part`."""

    DECODE = "decode"
    PREFILL = "prefill"
