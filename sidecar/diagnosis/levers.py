"""The closed sets that a fix of `interventions/*.yml` is described with: its lever, cost, regime, load level, quality risk and signs.

Knows the names and their meaning. Refuses to know which fix pulls which lever: the files say so. `case_signs.py` says which signs a case shows.
"""

from enum import StrEnum


class Lever(StrEnum):
    """A technique as the serving literature names it. Each is a fix under the runbook of its phase, or a stated non-fix."""

    FLASH_ATTENTION = "flash_attention"
    FP8_WEIGHTS = "fp8_weights"
    FP8_ACTIVATIONS = "fp8_activations"
    """Matrix products in 8 bits: activations as well as weights."""
    KV_8_BITS = "kv_8_bits"
    CHUNKED_PREFILL = "chunked_prefill"
    PREFIX_CACHING = "prefix_caching"
    CACHE_BREAKPOINTS = "cache_breakpoints"
    """The place in a prompt up to which it is the same for many requests, and so can be cached."""
    SPECULATIVE_DECODING = "speculative_decoding"
    TENSOR_PARALLELISM = "tensor_parallelism"
    PIPELINE_PARALLELISM = "pipeline_parallelism"
    GQA = "gqa"
    """Grouped-query attention: several query heads share one key and one value head."""
    MODEL_CASCADE = "model_cascade"
    """A smaller model answers first; the large one answers what the smaller one cannot."""
    DISAGGREGATION = "disaggregation"
    """Prefill and decode on GPUs of their own."""
    ROUTING = "routing"
    ADMISSION = "admission"
    BATCH_LIMITS = "batch_limits"
    QUANTISATION = "quantisation"
    """Weights in fewer than 8 bits, with a quality floor."""


class Cost(StrEnum):
    """The effort of a fix, cheapest first."""

    MINUTES = "minutes"
    RESTART = "restart"
    REPLICAS = "replicas"
    PROJECT = "project"


class LoadLevel(StrEnum):
    """The state of the batch."""

    LOW = "low"
    """The batch is small: a step is mostly the reading of the weights, so memory bandwidth rules."""
    HIGH = "high"
    """The batch is full: requests compete for compute and for the KV cache."""


class QualityRisk(StrEnum):
    """The effect of a fix on the answers."""

    NONE = "none"
    """Answers are the same, up to rounding."""
    CHECK = "check"
    """Answers change: they must be compared with a quality floor (`QUALITY_FLOOR`)."""


class Sign(StrEnum):
    """A fact about a case, beyond phase and cause, on which the effect of a fix depends. A case shows it, or it is not known to."""

    OVERFULL = "overfull"
    """The prompts alone need more than the GPUs can compute at the peak of their data sheet."""
    ODD_POD = "odd_pod"
    """One pod of several misses far more than the others."""
    BOTH_COSTS = "both_costs"
    """Prompts and tokens have become dearer at once, as under a lower clock."""
    BOTH_BROKEN = "both_broken"
    """The time to first token and the time between tokens are broken."""
    TTFT_BROKEN = "ttft_broken"
    TTFT_HAS_ROOM = "ttft_has_room"
    """The time to first token is below half of its threshold, so a fix may lengthen it."""
    KV_FULL = "kv_full"
    KV_ROOM = "kv_room"
    """The KV cache has room for more requests."""
    SLOTS_FULL = "slots_full"
    SLOTS_FREE = "slots_free"
    PREEMPTING = "preempting"
    REJECTING = "rejecting"
    PROMPTS_GREW = "prompts_grew"
    """Prompts are longer than the limits were set for."""
    CACHED_MOST = "cached_most"
    """Most prompt tokens come from the prefix cache already."""
    ALL_SPLIT = "all_split"
    """Nearly every request has its split, so that the engine need not report more of them."""
    REPORTING = "reporting"
    """Some request has the engine's own split, so that the flag for it is set."""
    BY_SPANS = "by_spans"
    """Requests are counted from the engine's spans: nothing can be asked of a request, and nothing is estimated."""
    SEPARATE_PREFILL = "separate_prefill"
    """Prefill has GPUs of its own."""
    NO_8_BIT_UNITS = "no_8_bit_units"
    """The GPUs cannot multiply in 8 bits."""
    NEAR_FLOOR = "near_floor"
    """A token takes little more than the reading of the weights: only fewer bytes a token make it faster."""
    ABOVE_FLOOR = "above_floor"
    """A token takes more than the reading of the weights and of a full KV cache: bytes are not what takes the time."""


BOTH = "both"
"""In place of a `Regime` or a `LoadLevel`: the fix works in either."""
QUALITY_FLOOR = (
    "a score on at least 200 of your own prompts, measured before the change, and the lowest score that you accept after"
    " it, written down before you look (for example 99 % of the first)"
)
"""The form of a quality floor, in words that stand after "is"."""
