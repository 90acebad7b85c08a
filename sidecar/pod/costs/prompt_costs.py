"""The seconds that the prefill of a prompt takes now, from whatever has told of it. Pure.

What tells, the best first:

- reports of the engine on other requests, by whatever way they came;
- requests that did not queue: their whole time to first token is the cost of their prompt, the engine's front end included;
- where there are none of both, as in a saturated engine that reports nothing, its steps: the last long silence before a first token, in
  which at least a part of this prompt was computed;
- what is usual on this pod, or was on the pod whose usual values it was given (`prefill_work.py`), and what prompts add to the
  engine's steps (`step_model.py`): in tokens, and with nothing learned here yet.

The first three are learned whether objectives burn or not: they are the cost of now and not the usual one, against which now is compared. It
answers from the first few samples on, and says on how many an answer rests. It refuses to know requests, and what an answer is used for.
"""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from sidecar.pod.costs.prefill_cost import IN_TOKENS, READY_SAMPLES, Curve, Lengths, Refusal


FIRST_ANSWER_SAMPLES = 8
"""Samples before an answer: at a request a minute, within ten minutes."""
FURTHEST = 4.0
"""Factor beyond the shortest and the longest learned length up to which there is an answer."""
NOISE_SECONDS = 0.02
"""The time that an engine's front end takes differs by so much, however long a prompt is: that makes no requests inconsistent."""
WORTH_OF_STEPS = 4.0
"""However many steps told of it, a cost is known as by so many samples: a step may hold a part of the prompt, and other prompts."""
SHORTEST_SECONDS = 1e-4
"""Less than this behind a prefill is taken as so much."""
MAX_MODELS = 17
"""The closed set of model labels, and `other`."""
Usual = Callable[[str, float], float | None]
"""Model and uncached tokens to the usual seconds of their prefill; None where it is unknown."""


class Price(NamedTuple):
    """Seconds of a prompt's prefill, and the number of samples on which they rest: READY_SAMPLES for what is usual, fewer for a length
    beyond the learned ones.
    """

    seconds: float
    samples: float
    behind_seconds: float = 0.0
    """From the end of such a prefill to the first token: the front end, and the move of a KV cache to another worker. Only reports tell it; in the
    cost by all else it is contained."""


def _unknown(_model: str, _tokens: float) -> float | None:
    return None


_NOTHING_TOLD: Mapping[str, "_Told"] = MappingProxyType({})


class _Told:
    """All that was told of the prompts of one model, in one measure of length."""

    __slots__ = ("behind", "by_idle", "by_report", "by_step")

    def __init__(self) -> None:
        # A report is true, however much prompts that are computed together differ from one that is alone; and steps hold others too.
        self.by_report = Curve(ready=FIRST_ANSWER_SAMPLES, most_error=inf, reach=FURTHEST)
        self.behind = Curve(ready=FIRST_ANSWER_SAMPLES, most_error=inf, reach=FURTHEST)
        self.by_idle = Curve(ready=FIRST_ANSWER_SAMPLES, reach=FURTHEST, noise_seconds=NOISE_SECONDS)
        self.by_step = Curve(ready=READY_SAMPLES, most_error=inf, reach=FURTHEST)


class PromptCosts:
    """The costs of one engine's prompts. A call takes a few us, but after a new sample once up to 0.2 ms."""

    def __init__(self, usual: Usual = _unknown) -> None:
        self._usual = usual
        self._told: dict[str, dict[str, _Told]] = {}
        """Model and measure of length to what was told."""

    def reported(self, model: str, lengths: Lengths, seconds: float) -> None:
        """The engine stated the prefill of such a prompt: others may have been in it too, so this is what it takes now."""
        if not lengths or seconds <= 0.0:
            return
        value, measure = lengths[0]
        if (told := self._told_of(model, measure)) is not None:
            told.by_report.learn(value, seconds)

    def behind(self, model: str, lengths: Lengths, seconds: float) -> None:
        """So long after queue and prefill of such a prompt its first token came, by the engine's report."""
        if not lengths:
            return
        value, measure = lengths[0]
        if (told := self._told_of(model, measure)) is not None:
            told.behind.learn(value, max(seconds, SHORTEST_SECONDS))

    def idle(self, model: str, lengths: Lengths, seconds: float) -> None:
        """A prompt that did not queue had its first token after so many seconds."""
        if not lengths or seconds <= 0.0:
            return
        value, measure = lengths[0]
        if (told := self._told_of(model, measure)) is not None:
            told.by_idle.learn(value, seconds)

    def stepped(self, model: str, lengths: Lengths, seconds: float) -> None:
        """The last long silence before the first token of such a prompt."""
        if not lengths or seconds <= 0.0:
            return
        value, measure = lengths[0]
        if (told := self._told_of(model, measure)) is not None:
            told.by_step.learn(value, seconds)

    def price(self, model: str, lengths: Lengths) -> "Price | Refusal":
        """The seconds that such a prompt takes now, by the best that tells of its length, or the reason why none does."""
        refusal: Refusal | None = None
        of_model = self._told.get(model, _NOTHING_TOLD)
        for value, measure in lengths:
            told = of_model.get(measure)
            if told is None:
                continue
            curve = told.by_report if told.by_report.samples else told.by_idle
            seconds = curve.cost(value)
            if seconds.__class__ is Refusal and curve is not told.by_idle and told.by_idle.samples:
                curve = told.by_idle
                seconds = curve.cost(value)
            if not isinstance(seconds, Refusal):
                if curve is told.by_idle and curve.shortest <= value <= curve.longest:
                    return Price(seconds, curve.samples)
                behind = 0.0 if curve is told.by_idle else told.behind.cost(value)
                samples = curve.samples / curve.beyond(value) ** 2
                return Price(seconds, samples, 0.0 if isinstance(behind, Refusal) else behind)
            if seconds is Refusal.INCONSISTENT and curve.samples < READY_SAMPLES:
                seconds = Refusal.FEW_SAMPLES
            refusal = seconds if refusal in (None, Refusal.FEW_SAMPLES) else refusal
        return self._price_elsewhere(model, lengths, of_model, refusal)

    def _price_elsewhere(
        self, model: str, lengths: Lengths, of_model: "Mapping[str, _Told]", refusal: Refusal | None
    ) -> "Price | Refusal":
        """The same by what is usual, else by the engine's steps. `refusal`: the reason why nothing better tells."""
        if refusal is Refusal.INCONSISTENT:
            return refusal
        for value, measure in lengths:
            usual = self._usual(model, value) if measure == IN_TOKENS else None
            if usual is not None:
                return Price(usual, READY_SAMPLES)
        for value, measure in lengths:
            told = of_model.get(measure)
            if told is not None and told.by_step.samples:
                seconds = told.by_step.cost(value)
                if not isinstance(seconds, Refusal):
                    return Price(seconds, WORTH_OF_STEPS)
        return refusal or (Refusal.FEW_SAMPLES if lengths else Refusal.NO_LENGTH)

    def forget(self) -> None:
        """The engine restarted or was replaced: what its prompts cost is learned anew."""
        self._told.clear()

    def keep_only(self, models: Iterable[str]) -> None:
        """Drop all models but these, which the engine serves now."""
        kept = set(models)
        self._told = {model: told for model, told in self._told.items() if model in kept}

    def models(self) -> set[str]:
        """Models with at least one sample."""
        return {*self._told}

    def ready(self, model: str) -> bool:
        """Whether it answers for prompts of this model from what it has learned itself, at lengths that it has seen."""
        of_model = self._told.get(model, _NOTHING_TOLD).values()
        return any(curve.refusal is None for told in of_model for curve in (told.by_report, told.by_idle, told.by_step))

    def samples(self, model: str) -> int:
        """Number of reports and of requests that did not queue which it remembers of this model."""
        of_model = self._told.get(model, _NOTHING_TOLD).values()
        return sum(told.by_report.samples + told.by_idle.samples for told in of_model)

    def _told_of(self, model: str, measure: str) -> _Told | None:
        """Begun if it is new; None where there are too many models."""
        return self._told.get(model, _NOTHING_TOLD).get(measure) or self._begun(model, measure)

    def _begun(self, model: str, measure: str) -> _Told | None:
        if model not in self._told and len(self._told) >= MAX_MODELS:
            return None
        return self._told.setdefault(model, {}).setdefault(measure, _Told())
