"""The tokens in a byte of prompt text, per model, learned from prompts that the engine has counted. Pure.

It is learned like any usual value, and kept with them: a new process that knows what steps cost, and not how long prompts are, cannot
say what a step had to do until the last request of unknown length is over. It refuses to know prompt buckets
(`classify/length.py`), and to guess before enough prompts were counted.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from itertools import accumulate
from math import sqrt
from operator import itemgetter
from typing import Any, ClassVar

from sidecar.pod.usual.learner import Amount, Learner, Row, Table, Text


COUNTED_PROMPTS = 20
"""Prompts counted by usage before an estimate is given; with fewer, one odd prompt would set the scale."""
LEAST_SCALE = 1e-6
"""No text has fewer tokens in a byte."""
_REMEMBERED_SAMPLES = 128
"""Samples per model: recent enough to follow a change of traffic, and enough to outvote outliers."""
_SAMPLES_A_MEDIAN = 8
"""New samples after which the median is computed again, because that sorts."""
_REMEMBERED_MODELS = 17
"""The closed set of model labels (16) and `other`."""
_WEIGHT_OF = itemgetter(1)


class TokensPerByte(Learner):
    """The scale of each model: a weighted median of its last prompts, so that outliers do not move it."""

    __slots__ = ("_models", "_restored", "known")
    KEPT: ClassVar = {"scales": Table(Text(), Row(Amount(LEAST_SCALE), Amount(LEAST_SCALE)), most=_REMEMBERED_MODELS)}

    def __init__(self) -> None:
        self._models: dict[str, _Calibration] = {}
        self._restored: set[str] = set()
        """Models that this process has seen no prompt of."""
        self.known: dict[str, float] = {}
        """Model to tokens per byte of text, once the engine has counted enough prompts of it. One mapping for life, which each request
        reads without a call."""

    @property
    def scales(self) -> Mapping[str, tuple[float, float]]:
        """The tokens per byte of each model that is known, and the mean weight of a sample."""
        return {model: (scale, self._models[model].mean_weight) for model, scale in self.known.items()}

    def learn(self, model: str, text_bytes: int, tokens: int) -> None:
        """One prompt was counted; both numbers are above 0. `model` comes from the closed set of labels."""
        calibration = self._models.get(model)
        if calibration is None:
            if len(self._models) >= _REMEMBERED_MODELS and not self._forget_one():
                return
            calibration = self._models[model] = _Calibration()
        self._restored.discard(model)
        # A plain median would follow the many short prompts, which are mostly chat template. Weighted by bytes (the
        # least absolute error), one huge prompt would outvote all others. The square root is between the two.
        median = calibration.add(tokens / text_bytes, sqrt(text_bytes))
        if median is not None:
            self.known[model] = median

    def take(self, found: Mapping[str, Any]) -> None:
        """Put restored scales into force, but for models that this process knows itself: each speaks as loud as the fewest prompts that
        give an estimate.
        """
        for model, (scale, weight) in found["scales"].items():
            if model in self.known or (model not in self._models and len(self._models) >= _REMEMBERED_MODELS):
                continue
            if model not in self._models:
                self._restored.add(model)
            calibration = self._models.setdefault(model, _Calibration())
            for _ in range(COUNTED_PROMPTS):
                calibration.add(scale, weight)
            self.known[model] = scale

    def _forget_one(self) -> bool:
        """A model of an earlier process makes room: adapters come and go."""
        if not self._restored:
            return False
        gone = self._restored.pop()
        del self._models[gone], self.known[gone]
        return True


class _Calibration:
    """The last prompts of one model: tokens per byte of text, and the weight of each."""

    __slots__ = ("_due", "_samples")

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED_SAMPLES)
        self._due = COUNTED_PROMPTS
        """Samples until the next median."""

    @property
    def mean_weight(self) -> float:
        return sum(weight for _, weight in self._samples) / len(self._samples)

    def add(self, scale: float, weight: float) -> float | None:
        """Returns the weighted median of the samples' scales if it is due, else None."""
        self._samples.append((scale, weight))
        self._due -= 1
        if self._due:
            return None
        self._due = _SAMPLES_A_MEDIAN
        ordered = sorted(self._samples)
        weights = list(accumulate(map(_WEIGHT_OF, ordered)))
        return ordered[bisect_left(weights, weights[-1] / 2)][0]
