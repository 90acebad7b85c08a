"""The bucket of a prompt's length: from the engine's usage if stated, else from a calibrated estimate, else `unknown`.

Knows bucket edges in tokens; the tokens in a byte of text are learned in `pod/costs/tokens_per_byte.py`. Refuses to guess: before
the engine has counted enough prompts, or if the text of the body could not be measured, the bucket is `unknown`.
"""

from sidecar.config.buckets import PromptBuckets
from sidecar.ledger.request_labels import UNKNOWN
from sidecar.pod.costs.tokens_per_byte import TokensPerByte


class PromptLengthEstimator:
    """The prompt tokens of a text, estimated by what a byte of this model's prompts held before.

    Not thread-safe and without a clock: it belongs to one event loop. `checked` counts estimates that usage could
    verify, `corrections` those of them that were in another bucket than usage.
    """

    def __init__(self, buckets: PromptBuckets, tokens_per_byte: TokensPerByte) -> None:
        self._buckets = buckets
        self._tokens_per_byte = tokens_per_byte
        self._scales = tokens_per_byte.known
        self.corrections = 0
        self.checked = 0

    def tokens(self, model: str, text_bytes: int | None) -> float | None:
        """The estimated prompt tokens of `text_bytes` bytes of text; None if that is unknown, or while not ready."""
        scale = self._scales.get(model)
        return None if scale is None or text_bytes is None or text_bytes < 0 else text_bytes * scale

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
        self._tokens_per_byte.learn(model, text_bytes, prompt_tokens)
        return corrected
