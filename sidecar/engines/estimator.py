"""How much of a time to first token was the prompt's own: learned from requests that came while none other was waiting. Pure.

For requests on which no engine reports. Two things are used, and both are seen from outside:

- The cost of a prompt. A request that finds nobody before its first token, and fewer streams than the engine was ever seen
  to carry, waits for nothing: its whole TTFT is what a prompt of its length costs. From those the cost is learned as a
  rising function of the uncached length, by medians.
- The engine's steps. Prompts that are computed together all take as long as their step does, and an engine in a step says
  nothing to anybody. So a prefill began when the engine last spoke before there was less than the prompt's own cost left
  until its first token. Where nothing was heard since it came, it is the cost.

The rest of the TTFT is queue, and whoever waited for nobody has none. What it calls prefill holds the front end's time too
(tokenise, connect, first byte out): nobody here can tell them apart. It refuses to learn while hardly anybody arrives idle
(in a saturated window the few that look idle are the misjudged ones), to answer before it has seen enough, for lengths that it
has not seen, and where it does not even explain the idle arrivals themselves: prefix-cache hits that nobody states look like
that.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from sidecar.slo.prefill_cost import Curve, Length, Refusal


EARLIEST = 0.9
"""The share of a prompt's own cost that a prefill takes at least: the cost varies, and holds some front end."""
STEPS = 32
"""Steps of the engine that are remembered before each first token: a longer prefill is one whose cost says enough."""
SAME_STEP_SECONDS = 0.001
"""Output that comes so close together is of one step, or of steps too short to matter."""
RECENT_ARRIVALS = 100
IDLE_SHARE = 0.05
"""Of the recent arrivals at least this share must be idle for one to teach: below that the engine is saturated."""
MAX_MODELS = 17
"""The closed set of model labels, and `other`."""


@dataclass(slots=True)
class Visit:
    """One request, from its arrival to its first token."""

    arrived_at: float
    idle: bool
    """It waits for nobody, as far as that can be seen: none other was without its first token, and there was a slot."""
    teaches: bool
    """It is idle, and the engine is not saturated."""
    era: int
    """Which engine process it met: after a restart nothing of the old one is learned."""
    first_token_at: float | None = None
    steps: tuple[float, ...] = ()
    """When the engine last spoke to others before this first token, oldest first."""

    @property
    def ttft_seconds(self) -> float | None:
        return None if self.first_token_at is None else self.first_token_at - self.arrived_at

    def prefill_seconds(self, cost_seconds: float) -> float:
        """How long its prefill took, by what its prompt costs alone and by when the engine's step began; at most its TTFT."""
        assert self.first_token_at is not None
        ttft = self.first_token_at - self.arrived_at
        if self.idle:
            return ttft  # quicker or slower than usual: there was nobody to wait for
        heard = bisect_right(self.steps, self.first_token_at - EARLIEST * cost_seconds)
        if heard and self.steps[heard - 1] >= self.arrived_at:
            return self.first_token_at - self.steps[heard - 1]
        return min(cost_seconds, ttft)


class Estimator:
    """One engine's. Belongs to one event loop; every call takes a few microseconds, and 0.2 ms at most once after a new sample."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Visit] = {}
        self._streaming: dict[Hashable, Visit] = {}
        self._most_streaming = 0
        self._steps: deque[float] = deque(maxlen=STEPS)
        self._recent: deque[bool] = deque(maxlen=RECENT_ARRIVALS)
        self._era = 0
        self._curves: dict[tuple[str, str], Curve] = {}

    # --- who is there ----------------------------------------------------------------------------------------------------

    def arrived(self, key: Hashable, at: float) -> None:
        """A request is whole and on its way to the engine. A non-streamed one waits until its end: nobody sees its first token."""
        streaming = len(self._streaming)
        idle = not self._waiting and (streaming == 0 or streaming < self._most_streaming)
        self._recent.append(idle)
        saturated = sum(self._recent) < IDLE_SHARE * len(self._recent)
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
        """It ended, however. None if it never arrived whole."""
        return self._streaming.pop(key, None) or self._waiting.pop(key, None)

    # --- what is learned -------------------------------------------------------------------------------------------------

    def learn(self, model: str, length: Length | None, visit: Visit) -> bool:
        """Take in a streamed request that ended well. True if it taught something."""
        seconds = visit.ttft_seconds
        if not visit.teaches or visit.era != self._era or length is None or seconds is None or not seconds > 0:
            return False
        curve = self._curves.get((model, length.measure))
        if curve is None:
            if len(self._curves) >= 2 * MAX_MODELS:
                return False
            curve = self._curves[model, length.measure] = Curve()
        curve.learn(length.value, seconds)
        return True

    def prefill_seconds(self, model: str, length: Length | None, visit: Visit) -> "float | Refusal":
        """How much of this request's TTFT was prefill, front end included; or why nobody can say."""
        if visit.first_token_at is None:
            return Refusal.NO_TOKEN
        if visit.era != self._era:
            return Refusal.RESTARTED
        if length is None:
            return Refusal.NO_LENGTH
        curve = self._curves.get((model, length.measure))
        cost = Refusal.FEW_SAMPLES if curve is None else curve.cost(length.value)
        return cost if isinstance(cost, Refusal) else visit.prefill_seconds(cost)

    def forget(self) -> None:
        """The engine restarted, or is another: what was learned is not about this one."""
        self._era += 1
        self._curves.clear()
        self._recent.clear()
        self._steps.clear()
        self._most_streaming = 0

    def keep_only(self, models: Iterable[str]) -> None:
        """The engine serves these models now."""
        kept = set(models)
        self._curves = {key: curve for key, curve in self._curves.items() if key[0] in kept}

    # --- what is published -----------------------------------------------------------------------------------------------

    def models(self) -> set[str]:
        """Those that it has learned anything about."""
        return {model for model, _ in self._curves}

    def ready(self, model: str) -> bool:
        """Whether it answers for prompts of this model, of lengths that it has seen."""
        return any(curve.refusal is None for (name, _), curve in self._curves.items() if name == model)

    def samples(self, model: str) -> int:
        """Idle arrivals of this model that it remembers."""
        return sum(curve.samples for (name, _), curve in self._curves.items() if name == model)
