"""A prompt's length is estimated only after enough prompts of known length, and outliers do not move the estimate."""

import random

import pytest

from sidecar.classify.length import COUNTED_PROMPTS, PromptLengthEstimator
from sidecar.config.buckets import PromptBuckets
from sidecar.config.schema import PromptBucketsConfig


BUCKETS = PromptBuckets(PromptBucketsConfig().edges)


def taught(tokens_per_byte: float, samples: int = COUNTED_PROMPTS) -> PromptLengthEstimator:
    estimator = PromptLengthEstimator(BUCKETS)
    for _ in range(samples):
        estimator.learn("m", 10_000, round(10_000 * tokens_per_byte))
    return estimator


def test_no_estimate_before_twenty_samples() -> None:
    """Nineteen prompts are not enough, twenty are; a model without samples stays unknown."""
    estimator = taught(0.25, COUNTED_PROMPTS - 1)
    assert (estimator.ready("m"), estimator.bucket_of("m", 8000)) == (False, "unknown")

    estimator.learn("m", 10_000, 2500)
    assert (estimator.ready("m"), estimator.bucket_of("m", 8000)) == (True, "512-4k")
    assert estimator.bucket_of("n", 8000) == "unknown"


def test_no_estimate_without_text() -> None:
    """If the text could not be measured (images, a body too long), the bucket is unknown, not short."""
    assert taught(0.25).bucket_of("m", None) == "unknown"


def test_outliers_do_not_move_the_estimate() -> None:
    """A fifth of the samples may be absurd, too high or too low, without moving the scale."""
    estimator = taught(0.25, 80)
    for _ in range(10):
        estimator.learn("m", 10, 100_000)
        estimator.learn("m", 30_000, 1)

    assert estimator.tokens("m", 8000) == 2000


def test_short_prompts_do_not_set_the_scale_for_long_ones() -> None:
    """Nine chats in ten are mostly template, one token per byte; a long document is still estimated from long ones."""
    estimator = PromptLengthEstimator(BUCKETS)
    draw = random.Random(7)
    for turn in range(300):
        size = draw.randint(20_000, 60_000) if turn % 10 == 0 else draw.randint(20, 60)
        estimator.learn("m", size, 30 + size // 4)

    assert estimator.tokens("m", 40_000) == pytest.approx(10_000, rel=0.05)


def test_the_scale_follows_the_traffic() -> None:
    """Old samples are forgotten: after enough prompts of another language the scale fits that language."""
    estimator = taught(0.25, 500)
    for _ in range(128):
        estimator.learn("m", 10_000, 5000)

    assert estimator.tokens("m", 8000) == 4000


def test_corrections_are_counted() -> None:
    """A correction is an estimate in another bucket than the usage, counted out of all prompts with an estimate."""
    estimator = taught(0.25)
    assert (estimator.corrections, estimator.checked) == (0, 0)

    assert estimator.learn("m", 8000, 2000) is False
    assert estimator.learn("m", 8000, 5000) is True
    assert (estimator.corrections, estimator.checked) == (1, 2)


def test_memory_is_bounded() -> None:
    """Models beyond the closed set add no samples."""
    estimator = PromptLengthEstimator(BUCKETS)
    for name in range(1000):
        for _ in range(COUNTED_PROMPTS):
            estimator.learn(f"m{name}", 100, 25)

    assert [name for name in range(1000) if estimator.ready(f"m{name}")] == list(range(17))


def test_usage_that_says_nothing_teaches_nothing() -> None:
    """A usage without a count, without text, or with zeros is neither a sample nor a correction."""
    estimator = taught(0.25)
    for text_bytes, tokens in ((None, 5), (5, None), (0, 5), (5, 0)):
        assert estimator.learn("m", text_bytes, tokens) is False
    assert estimator.checked == 0
