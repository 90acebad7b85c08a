"""Prompt lengths in tokens become labels of a closed set, made from the configured edges."""

import pytest

from sidecar.config.buckets import PromptBuckets
from sidecar.config.schema import PromptBucketsConfig


BUCKETS = PromptBuckets(PromptBucketsConfig().edges)


def test_the_default_labels() -> None:
    """The labels are those of the design, in order, and `unknown` last."""
    assert BUCKETS.labels == ("0-512", "512-4k", "4k-16k", "16k-64k", "64k+", "unknown")


@pytest.mark.parametrize(
    ("edges", "expected"),
    [((1000,), ("0-1000", "1000+", "unknown")), ((1536, 1 << 20), ("0-1536", "1536-1m", "1m+", "unknown"))],
)
def test_labels_of_other_edges(edges: tuple[int, ...], expected: tuple[str, ...]) -> None:
    """k and m stand for 1024 and 1024 x 1024; an edge that is no multiple is written out."""
    assert expected == PromptBuckets(edges).labels


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (0, "0-512"),
        (512, "0-512"),
        (513, "512-4k"),
        (65536, "16k-64k"),
        (65537, "64k+"),
        (10**30, "64k+"),
        (None, "unknown"),
        (-1, "unknown"),
        (float("nan"), "unknown"),
    ],
)
def test_edges_belong_to_the_bucket_below(tokens: float | None, expected: str) -> None:
    """An edge is the inclusive upper end of its bucket, as `le` is in a histogram."""
    assert expected == BUCKETS.bucket_of(tokens)
