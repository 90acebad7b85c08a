"""The bucket of a prompt's length: from the engine's usage if stated, else from a calibrated estimate, else `unknown`.

Knows bucket edges in tokens, and per model the tokens per byte of text of past prompts. Refuses to guess: before the
engine has counted enough prompts, or if the text of the body could not be measured, the bucket is `unknown`.
"""

import math
from collections import deque

from sidecar.config.buckets import PromptBuckets
from sidecar.ledger.request_labels import UNKNOWN


COUNTED_PROMPTS = 20
"""Prompts counted by usage before an estimate is given; with fewer, one odd prompt would set the scale."""
_REMEMBERED_SAMPLES = 128
"""Samples per model: recent enough to follow a change of traffic, and enough to outvote outliers."""
_SAMPLES_A_MEDIAN = 8
"""New samples after which the median is computed again."""
_REMEMBERED_MODELS = 17
"""The closed set of model labels (16) and `other`."""


class PromptLengthEstimator:
    """Tokens per byte of text, per model, learned from usage; a weighted median, so that outliers do not move it.

    Not thread-safe and without a clock: it belongs to one event loop. `checked` counts estimates that usage could
    verify, `corrections` those of them that were in another bucket than usage.
    """

    def __init__(self, buckets: PromptBuckets) -> None:
        self._buckets = buckets
        self._models: dict[str, _Calibration] = {}
        self.corrections = 0
        self.checked = 0

    def ready(self, model: str) -> bool:
        """Whether the engine has counted enough prompts of this model for an estimate."""
        calibration = self._models.get(model)
        return calibration is not None and calibration.ready

    def tokens(self, model: str, text_bytes: int | None) -> float | None:
        """The estimated prompt tokens of `text_bytes` bytes of text; None if that is unknown, or while not ready."""
        calibration = self._models.get(model)
        if calibration is None or not calibration.ready or text_bytes is None or text_bytes < 0:
            return None
        return text_bytes * calibration.tokens_per_byte

    def bucket_of(self, model: str, text_bytes: int | None) -> str:
        """The bucket of the estimate, or `unknown`. It is an estimate: never show it as a count."""
        return self._buckets.bucket_of(self.tokens(model, text_bytes))

    def learn(self, model: str, text_bytes: int | None, prompt_tokens: int | None) -> bool:
        """Learn from the usage of one prompt. True if there was an estimate and it was in another bucket.

        `model` comes from the closed set of labels. A prompt without text or without a count is ignored.
        """
        if text_bytes is None or prompt_tokens is None or text_bytes <= 0 or prompt_tokens <= 0:
            return False
        estimate = self.bucket_of(model, text_bytes)
        corrected = estimate not in (UNKNOWN, self._buckets.bucket_of(prompt_tokens))
        self.checked += estimate != UNKNOWN
        self.corrections += corrected
        calibration = self._models.get(model)
        if calibration is None:
            if len(self._models) >= _REMEMBERED_MODELS:
                return corrected
            calibration = self._models[model] = _Calibration()
        calibration.add(text_bytes, prompt_tokens)
        return corrected


class _Calibration:
    """The last prompts of one model: tokens per byte of text, and the weight of each."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED_SAMPLES)
        self._median: float | None = None
        self._since_median = 0

    def add(self, text_bytes: int, tokens: int) -> None:
        # A plain median would follow the many short prompts, which are mostly chat template. Weighted by bytes (the
        # least absolute error), one huge prompt would outvote all others. The square root is between the two.
        self._samples.append((tokens / text_bytes, math.sqrt(text_bytes)))
        self._since_median += 1
        if self._since_median >= _SAMPLES_A_MEDIAN:
            self._median = None

    @property
    def ready(self) -> bool:
        return len(self._samples) >= COUNTED_PROMPTS

    @property
    def tokens_per_byte(self) -> float:
        """The weighted median of the samples' ratios; computed again only after every few samples, because it sorts."""
        if self._median is None:
            self._since_median = 0
            half = sum(weight for _, weight in self._samples) / 2
            for ratio, weight in sorted(self._samples):
                half -= weight
                self._median = ratio
                if half <= 0:
                    break
        assert self._median is not None
        return self._median
