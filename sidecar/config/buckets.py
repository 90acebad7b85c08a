"""The closed set of `prompt_bucket` label values, made from the configured edges.

Turns edges in tokens into labels, and a count of tokens into its label. The count's origin is not known here:
`classify/length.py` estimates it, and the engine's usage states it.
"""

import bisect
from collections.abc import Sequence

from sidecar.ledger.request_labels import UNKNOWN


def bucket_labels(edges: Sequence[int]) -> tuple[str, ...]:
    """The labels from short to long, without `unknown`: `0-512`, `512-4k`, ..., `64k+` (k = 1024 tokens, m = 1024 k)."""
    names = [_short(edge) for edge in edges]
    return (*(f"{low}-{high}" for low, high in zip(["0", *names], names, strict=False)), f"{names[-1]}+")


def _short(tokens: int) -> str:
    for unit, suffix in ((1 << 20, "m"), (1 << 10, "k")):
        if tokens % unit == 0:
            return f"{tokens // unit}{suffix}"
    return str(tokens)


class PromptBuckets:
    def __init__(self, edges: Sequence[int]) -> None:
        """`edges` are rising token counts, each the inclusive upper edge of its bucket."""
        self._edges = tuple(edges)
        self._buckets = bucket_labels(edges)
        self.labels = (*self._buckets, UNKNOWN)

    def bucket_of(self, tokens: float | None) -> str:
        """The label for a prompt of so many tokens; `unknown` for None, negative numbers and NaN."""
        if tokens is None or not tokens >= 0:
            return UNKNOWN
        return self._buckets[bisect.bisect_left(self._edges, tokens)]
