"""Estimates the prefill part of a TTFT, learned from requests that arrived while no other request was waiting. Pure.

Used for requests without an engine report. Two things are used, and both are visible from outside the engine:

- The cost of a prompt. If no other request is waiting for its first token, and fewer streams run than the engine has
  handled before, the request does not queue: its whole TTFT is the cost of a prompt of its length. From such idle
  arrivals the cost is learned as a rising function of the uncached length, by medians; so it is from reports of the engine, where some
  requests have one.
- The engine's steps. Prompts that are computed together all take as long as their step, and during a step the engine
  sends no output. So the start of prefill is taken as the latest engine output that is at least 0.9 x the prompt's cost
  before its first token. If there was no output since the request arrived, the prefill is the cost.

The rest of the TTFT is queue; a request that did not queue has queue = 0, even if its prefill was slow. The estimated
prefill includes the front end's time (tokenise, connect, first byte out), which is not separable from outside. It
refuses to learn while few requests arrive idle (in a saturated window those that look idle are misjudged), and to
answer before it has seen enough requests, for lengths that it has not seen, and when its curve does not explain the
idle arrivals themselves, which happens when prefix-cache hits are not reported.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from math import inf

from sidecar.pod.costs.prefill_cost import Curve, Lengths, Refusal


EARLIEST = 0.9
"""Least share of a prompt's cost that a prefill takes: the cost varies, and includes some front-end time."""
REMEMBERED_STEPS = 32
"""Engine steps kept before each first token; for a prefill over more steps, the cost alone is precise enough."""
SAME_STEP_SECONDS = 0.001
"""Outputs closer together than this belong to one step, or to steps too short to matter."""
ARRIVALS_CONSIDERED = 100
IDLE_SHARE = 0.05
"""Least share of idle arrivals among the recent ones for learning; below it the engine counts as saturated."""
MAX_MODELS = 17
"""The closed set of model labels, and `other`."""


@dataclass(slots=True)
class Visit:
    """One request, from its arrival to its first token."""

    arrived_at: float
    idle: bool
    """It seems not to queue: on arrival no other request waited for its first token, and the engine had a free slot."""
    teaches: bool
    """Its TTFT may be learned from: it is idle, and the engine is not saturated."""
    era: int
    """Number of the engine process it met: after a restart, requests of the old process teach nothing."""
    first_token_at: float | None = None
    steps: tuple[float, ...] = ()
    """Instants of the engine's last outputs to other requests before this first token, oldest first."""

    @property
    def ttft_seconds(self) -> float | None:
        return None if self.first_token_at is None else self.first_token_at - self.arrived_at

    def prefill_seconds(self, cost_seconds: float) -> float:
        """Its prefill, from the cost of its prompt and the start of the engine's step; at most its TTFT."""
        assert self.first_token_at is not None
        ttft = self.first_token_at - self.arrived_at
        if self.idle:
            return ttft  # quicker or slower than usual: no other request was ahead of it
        heard = bisect_right(self.steps, self.first_token_at - EARLIEST * cost_seconds)
        if heard and self.steps[heard - 1] >= self.arrived_at:
            return self.first_token_at - self.steps[heard - 1]
        return min(cost_seconds, ttft)


class Estimator:
    """Estimator of one engine, for one event loop. A call takes a few us, but after a new sample once up to 0.2 ms."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Visit] = {}
        self._streaming: dict[Hashable, Visit] = {}
        self._most_streaming = 0
        self._steps: deque[float] = deque(maxlen=REMEMBERED_STEPS)
        self._recent: deque[bool] = deque(maxlen=ARRIVALS_CONSIDERED)
        self._recent_idle = 0
        """Number of the recent arrivals that were idle."""
        self._era = 0
        self._arrived_at = self._forgot_at = -inf
        self._curves: dict[tuple[str, str], Curve] = {}

    # --- requests in flight -------------------------------------------------------------------------------------------

    def arrived(self, key: Hashable, at: float) -> None:
        """A whole request goes to the engine. A non-streamed one waits until its end: its first token is hidden."""
        self._arrived_at = at
        streaming, recent = len(self._streaming), self._recent
        idle = not self._waiting and (streaming == 0 or streaming < self._most_streaming)
        if len(recent) == ARRIVALS_CONSIDERED:
            self._recent_idle -= recent[0]
        recent.append(idle)
        self._recent_idle += idle
        saturated = self._recent_idle < IDLE_SHARE * len(recent)
        self._waiting[key] = Visit(at, idle, idle and not saturated, self._era)

    def spoke(self, key: Hashable, at: float) -> None:
        """Output for this request was read."""
        visit = self._waiting.pop(key, None)
        if visit is not None:
            visit.first_token_at, visit.steps = at, tuple(self._steps)
            self._streaming[key] = visit
            self._most_streaming = max(self._most_streaming, len(self._streaming))
        steps = self._steps
        if steps and at - steps[-1] < SAME_STEP_SECONDS:
            steps[-1] = at
        else:
            steps.append(at)

    def left(self, key: Hashable) -> Visit | None:
        """The request ended, in any way. None if it never arrived whole."""
        return self._streaming.pop(key, None) or self._waiting.pop(key, None)

    # --- learning and answering ---------------------------------------------------------------------------------------

    def learn(self, model: str, lengths: Lengths, visit: Visit) -> bool:
        """Learn from a streamed request that ended well. True if it became a sample."""
        seconds = visit.ttft_seconds
        if not visit.teaches or visit.era != self._era or seconds is None or not seconds > 0:
            return False
        return self._sample(model, lengths, seconds)

    def reported(self, model: str, lengths: Lengths, seconds: float, arrived_at: float) -> None:
        """Learn from the engine's own report of a prefill: other requests may have waited meanwhile, it is the cost of this prompt. What
        arrived before a restart teaches nothing.
        """
        if seconds > 0.0 and arrived_at > self._forgot_at:
            self._sample(model, lengths, seconds)

    def _sample(self, model: str, lengths: Lengths, seconds: float) -> bool:
        if not lengths:
            return False
        value, measure = lengths[0]
        curve = self._curves.get((model, measure))
        if curve is None:
            if len(self._curves) >= 2 * MAX_MODELS:
                return False
            curve = self._curves[model, measure] = Curve()
        curve.learn(value, seconds)
        return True

    def prefill_seconds(self, model: str, lengths: Lengths, visit: Visit) -> "float | Refusal":
        """The prefill part of this request's TTFT, front end included, by the first measure that answers; or the reason why there is no
        estimate.
        """
        if visit.first_token_at is None:
            return Refusal.NO_TOKEN
        if visit.era != self._era:
            return Refusal.RESTARTED
        refusal: Refusal | None = None
        for value, measure in lengths:
            curve = self._curves.get((model, measure))
            cost = Refusal.FEW_SAMPLES if curve is None else curve.cost(value)
            if not isinstance(cost, Refusal):
                return visit.prefill_seconds(cost)
            refusal = refusal or cost
        return refusal or Refusal.NO_LENGTH

    def forget(self) -> None:
        """Drop all samples: the engine restarted or was replaced."""
        self._era += 1
        self._forgot_at = self._arrived_at
        self._curves.clear()
        self._recent.clear()
        self._recent_idle = 0
        self._steps.clear()
        self._most_streaming = 0

    def keep_only(self, models: Iterable[str]) -> None:
        """Drop the curves of all models but these, which the engine serves now."""
        kept = set(models)
        self._curves = {key: curve for key, curve in self._curves.items() if key[0] in kept}

    # --- published facts ----------------------------------------------------------------------------------------------

    def models(self) -> set[str]:
        """Models with at least one sample."""
        return {model for model, _ in self._curves}

    def ready(self, model: str) -> bool:
        """Whether it answers for prompts of this model, at lengths that it has seen."""
        return any(curve.refusal is None for (name, _), curve in self._curves.items() if name == model)

    def samples(self, model: str) -> int:
        """Number of idle arrivals of this model that it remembers."""
        return sum(curve.samples for (name, _), curve in self._curves.items() if name == model)
