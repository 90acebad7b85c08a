"""A prompt's bucket is that of an estimate only after enough prompts of known length, and wrong estimates are counted."""

from sidecar.classify.length import PromptLengthEstimator
from sidecar.config.buckets import PromptBuckets
from sidecar.config.schema import PromptBucketsConfig
from sidecar.pod.costs.tokens_per_byte import COUNTED_PROMPTS, TokensPerByte


BUCKETS = PromptBuckets(PromptBucketsConfig().edges)


def taught(tokens_per_byte: float, samples: int = COUNTED_PROMPTS) -> PromptLengthEstimator:
    estimator = PromptLengthEstimator(BUCKETS, TokensPerByte())
    for _ in range(samples):
        estimator.learn("m", 10_000, round(10_000 * tokens_per_byte))
    return estimator


def test_no_estimate_before_enough_prompts_of_known_length() -> None:
    """A model without any stays unknown."""
    assert taught(0.25, COUNTED_PROMPTS - 1).bucket_of("m", 8000) == "unknown"
    estimator = taught(0.25)

    assert (estimator.tokens("m", 8000), estimator.bucket_of("m", 8000)) == (2000, "512-4k")
    assert (estimator.tokens("n", 8000), estimator.bucket_of("n", 8000)) == (None, "unknown")


def test_no_estimate_without_text() -> None:
    """If the text could not be measured (images, a body too long), the bucket is unknown, not short."""
    assert taught(0.25).bucket_of("m", None) == "unknown"


def test_corrections_are_counted() -> None:
    """A correction is an estimate in another bucket than the usage, counted out of all prompts with an estimate."""
    estimator = taught(0.25)
    assert (estimator.corrections, estimator.checked) == (0, 0)

    assert estimator.learn("m", 8000, 2000) is False
    assert estimator.learn("m", 8000, 5000) is True
    assert (estimator.corrections, estimator.checked) == (1, 2)


def test_usage_that_says_nothing_teaches_nothing() -> None:
    """A usage without a count, without text, or with zeros is neither a sample nor a correction."""
    estimator = taught(0.25)
    for text_bytes, tokens in ((None, 5), (5, None), (0, 5), (5, 0)):
        assert estimator.learn("m", text_bytes, tokens) is False
    assert estimator.checked == 0
