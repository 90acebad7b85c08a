"""The cost of the engine's steps on the metrics page, and the instants of output that the engine's silence is told.

Stands between `evidence.py`, which passes on each event of a request, and the pure modules `pod/costs/steps.py`,
`pod/costs/step_model.py` and `pod/costs/cached_share.py`. Output costs one call per token here; steps are priced once a second.
"""

from collections.abc import Hashable

from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.pod.causes import DEARER, Cause
from sidecar.pod.costs.cached_share import CachedShares
from sidecar.pod.costs.cost_names import Part, Unpriced
from sidecar.pod.costs.decode_now import DECODE_SECONDS
from sidecar.pod.costs.possible_fits import Told
from sidecar.pod.costs.seen_share import SeenShare
from sidecar.pod.costs.step_model import LEAST_COVERAGE, PREFILL_SECONDS, StepModel
from sidecar.pod.costs.steps import Prompt, Steps
from sidecar.pod.factor import Factor
from sidecar.pod.pod import Costs
from sidecar.pod.usual.comparison import SOON_SECONDS
from sidecar.pod.usual.learner import Learner


PRICED_AT_ONCE = 96
"""Steps that are priced in one turn of the loop: about half a millisecond."""


class StepCosts:
    """The step costs of one process's engine."""

    def __init__(self, metrics: Metrics) -> None:
        self.rebuilt = Steps()
        self._model = StepModel()
        self._cached = CachedShares()
        self._ratio = metrics.gauge(c.ENGINE_COST_RATIO)
        self._low = metrics.gauge(c.ENGINE_COST_RATIO_LOW)
        self._high = metrics.gauge(c.ENGINE_COST_RATIO_HIGH)
        self._unknown = metrics.gauge(c.ENGINE_COST_UNKNOWN)
        self._running = metrics.gauge(c.ENGINE_REQUESTS_RUNNING)
        self.seen = SeenShare()
        self._step_seconds = metrics.gauge(c.ENGINE_STEP_COST_SECONDS).child()

    def received(self, key: Hashable, lane: str, prompt_tokens: float | None, *, streaming: bool) -> None:
        """A request is on its way to the engine. `prompt_tokens`: counted or estimated; None if unknown, 0 if it has no text, as a
        prompt of embeddings.
        """
        tokens = max(1.0, prompt_tokens or 1.0)
        prompt = Prompt(tokens, self._cached.uncached(lane, tokens))
        self.rebuilt.arrived(key, prompt, seen=streaming, length_known=bool(prompt_tokens))

    def uncached(self, lane: str, prompt_tokens: float) -> float:
        """Tokens of such a prompt that usually have to be computed."""
        return self._cached.uncached(lane, prompt_tokens)

    def answered(self, lane: str, prompt_tokens: int | None, cached_tokens: int | None, *, learn: bool) -> None:
        """Usage stated these tokens. `learn`: no objective burns."""
        if learn and prompt_tokens and cached_tokens is not None and self._model.prefill_is_usual:
            self._cached.learn(lane, prompt_tokens, cached_tokens, self.rebuilt.last_at)

    def forget(self) -> None:
        """The engine process was replaced."""
        self.rebuilt.forget()
        self._model.forget()

    def tick(self, *, in_flight: int) -> None:
        """Note the share of the engine's requests that is seen; call it about once a second. `in_flight`: requests that the
        sidecar has sent the engine, and that it has not answered.
        """
        self.seen.tick(in_flight, next((child.value for child in self._running.children.values()), None))
        self._model.seen = self.seen.value

    def price(self, *, learn: bool) -> bool:
        """Price the oldest steps that have ended. `learn`: no objective burns. True: more may be due, so call it again after
        other work had its turn.
        """
        self._model.learning = learn and self._model.seen >= LEAST_COVERAGE
        ended = self.rebuilt.take(PRICED_AT_ONCE)
        for step in ended:
            self._model.step(step)
        return len(ended) == PRICED_AT_ONCE

    @property
    def learners(self) -> dict[str, Learner]:
        """All that learns here, by name."""
        return {"step_model": self._model, "cached_shares": self._cached}

    def prefill_seconds(self, tokens: float) -> float | None:
        """Seconds that an uncached prompt usually takes; None if unknown."""
        return self._model.prefill_seconds(tokens)

    def costs(self, at: float) -> Costs:
        """Both factors in short windows and in long ones, and the use of the engine; None for what is unknown."""
        model = self._model
        told = {
            Cause.DECODE_COST: [model.decode_told(at, seconds) for seconds in (SOON_SECONDS, DECODE_SECONDS)],
            Cause.PREFILL_COST: [model.prefill_told(at, seconds) for seconds in (SOON_SECONDS, PREFILL_SECONDS)],
        }
        decode, prefill = (
            tuple(each.least_changed if isinstance(each, Told) else None for each in found) for found in told.values()
        )
        unsure = frozenset(
            cause
            for cause, found in told.items()
            if any(isinstance(each, Told) and each.least_changed.value <= DEARER < each.dearest for each in found)
        )
        is_open = model.unknown is None and not model.decodes_known(at)
        return Costs(decode, prefill, model.while_waiting(at), unsure, is_open)

    def set_gauges(self, at: float) -> None:
        """Set the values that are computed at scrape time."""
        for part, found in ((Part.DECODE, self._model.decode(at)), (Part.PREFILL, self._model.prefill(at))):
            known = found if isinstance(found, Factor) else None
            self._ratio.child(part).set(None if known is None else known.value)
            self._low.child(part).set(None if known is None else known.low)
            self._high.child(part).set(None if known is None else known.high)
            for reason in Unpriced:
                self._unknown.child(part, reason).set(int(found is reason))
        self._step_seconds.set(self._model.step_seconds(at))
