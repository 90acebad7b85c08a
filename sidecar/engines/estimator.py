"""Estimates the prefill part of a TTFT: when, of the time to the first token, the engine began with the prompt. Pure.

Used for requests without an engine report. Two things are used, and both are visible from outside the engine:

- What such a prompt costs now (`pod/costs/prompt_costs.py`). If no other request is waiting for its first token, and fewer streams run
  than the engine has handled before, the request does not queue: its whole TTFT is its prefill, and teaches what prompts cost.
- The engine's steps. Prompts that are computed together all take as long as their step, and during a step the engine
  sends no output. So the start of prefill is taken as the latest engine output that is at least 0.9 x the prompt's cost
  before its first token. If there was no output since the request arrived, the prefill is the cost.

The rest of the TTFT is queue; a request that did not queue has queue = 0, even if its prefill was slow. The front end's time (tokenise, connect,
first byte out) and a KV cache's move are not separable from outside: the estimated prefill includes them, unless reports on other requests
tell how long after a prefill the first token comes. Then so much of the TTFT is neither queue nor prefill.

Each answer has an interval of 80 %. Once the engine has stated the prefill of some requests that were estimated too, it is as wide as these answers
were wrong, each way of answering by itself; before that it is as wide as they are wrong in simulated replicas (`bench/estimator.py`), and wider
the fewer samples the cost rests on. An interval that holds nearly all of the TTFT says nothing, and is no answer. It refuses to learn while few
requests arrive idle: in a saturated window those that look idle are misjudged.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Literal

from sidecar.ledger.account import Estimate
from sidecar.pod.costs.prefill_cost import LATE_SHARE, Lengths, Refusal
from sidecar.pod.costs.prompt_costs import PromptCosts


EARLIEST = 0.9
"""Least share of a prompt's cost that a prefill takes: the cost varies, and includes some front-end time."""
REMEMBERED_STEPS = 32
"""Engine steps kept before each first token; for a prefill over more steps, the cost alone is precise enough."""
SAME_STEP_SECONDS = 0.001
"""Outputs closer together than this belong to one step, or to steps too short to matter."""
STEPS_SEARCHED = 8
"""The longest silence among the last so many of these is taken for the one in which a prompt was computed, where its cost is not known. It may be
that of another prompt shortly before: so such a cost is rather too high."""
RECENT_WAITS = 16
"""A request whose first token is hidden waits for no longer than the slowest of so many others did."""
ARRIVALS_CONSIDERED = 100
IDLE_SHARE = 0.05
"""Least share of idle arrivals among the recent ones for learning; below it the engine counts as saturated."""


Basis = Literal["idle", "told", "step", "cost"]
"""How an estimate was found, each of which is wrong in its own way: the request did not queue, so it is its TTFT, or that less what reports tell
of the time behind a prefill; from the start of the engine's step until the end of the prefill; the cost of the prompt.
"""
UNQUEUED = ("idle", "told")
"""The ways of requests that did not queue."""
UNTAUGHT: dict[Basis, tuple[float, float]] = {
    "idle": (0.55, 0.97),
    "told": (0.8, 1.2),
    "step": (0.65, 1.1),
    "cost": (0.55, 1.05),
}
"""The true prefill over the estimated one, from the lowest tenth to the highest, before the engine has stated any: as `bench/estimator.py` shows it. That of
`told` is a guess: ten reports, which it needs, are soon there."""
FEWEST_TRUTHS, RECENT_TRUTHS = 10, 101
"""Stated prefills from which an interval is as wide as the answers were wrong, and the last ones that count."""
OUTER_TENTH = 0.1
FOLLOWS, MOST_LEFT_OUT = 0.03, 0.3
"""By this share of each miss the share that is left out on its side shrinks; and the most that it grows to."""
OF_FEW_SAMPLES = 4.0
"""A cost that rests on n samples is known to a factor of 1 + 4 / n beyond the error of those that rest on many."""
USELESS_SHARE = 0.9
"""An interval as wide as this share of the TTFT leaves open whether the request waited or was computed."""


class Wrong:
    """How wrong the estimates of one basis were: the true prefill over the estimated one, without the outer tenths.

    Load changes how wrong they are, and the last ones tell of the load before. So the share that is left out on a side follows how often
    the truth lay there (adaptive conformal inference, Gibbs and Candes 2021): in the long run it is a tenth of all.
    """

    __slots__ = ("_left_out", "_ratios", "_since", "factors")

    def __init__(self, factors: tuple[float, float]) -> None:
        """`factors`: the lowest and the highest ratio, before enough prefills were stated."""
        self.factors = factors
        self._ratios: deque[float] = deque(maxlen=RECENT_TRUTHS)
        self._left_out = [OUTER_TENTH, OUTER_TENTH]
        """Share of the ratios below and above the factors."""
        self._since = 0
        """Ratios since the factors were found: to find them sorts all."""

    def learn(self, ratio: float) -> None:
        for side, outside in enumerate((ratio < self.factors[0], ratio > self.factors[1])):
            left_out = self._left_out[side] + FOLLOWS * (OUTER_TENTH - outside)
            self._left_out[side] = min(max(left_out, 0.0), MOST_LEFT_OUT)
        self._ratios.append(ratio)
        self._since += 1
        if len(self._ratios) >= FEWEST_TRUTHS and self._since > len(self._ratios) // LATE_SHARE:
            ordered, self._since = sorted(self._ratios), 0
            below, above = (int(share * len(ordered)) for share in self._left_out)
            self.factors = ordered[below], ordered[-1 - above]


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
    met_full: bool = False
    """At an instant between its arrival and its first token as many streams ran as ever have, and not for the first time: it may have waited for
    one of them to end."""
    first_token_at: float | None = None
    steps: tuple[float, ...] = ()
    """Instants of the engine's last outputs to other requests before this first token, oldest first."""

    @property
    def silence_seconds(self) -> float | None:
        """From the begin of the longest of the engine's last silences until the first token; None if no other had output meanwhile."""
        at, last = self.first_token_at, self.steps[-STEPS_SEARCHED:]
        since = [step for step in last if step >= self.arrived_at]
        if at is None or not since:
            return None
        ends = [*since[1:], at]
        return at - max(zip(since, ends, strict=True), key=lambda silence: silence[1] - silence[0])[0]

    def prefill(self, cost_seconds: float, ended_at: float) -> tuple[float, Basis]:
        """Seconds of the prefill of one that is not idle, from the cost of its prompt and the start of the engine's step; and how they were
        found. `ended_at`: when it ended.
        """
        heard = bisect_right(self.steps, ended_at - EARLIEST * cost_seconds)
        if heard and self.steps[heard - 1] >= self.arrived_at:
            return ended_at - self.steps[heard - 1], "step"
        return min(cost_seconds, ended_at - self.arrived_at), "cost"


class Estimator:
    """Estimator of one engine, for one event loop. A call takes a few us, but after a new sample once up to 0.2 ms."""

    def __init__(self, costs: PromptCosts | None = None) -> None:
        """`costs`: of the engine's prompts; None: of its own, which begin without samples."""
        self.costs = PromptCosts() if costs is None else costs
        self._waiting: dict[Hashable, Visit] = {}
        self._hidden: dict[Hashable, Visit] = {}
        """Requests that are not streamed."""
        self._waits: deque[float] = deque(maxlen=RECENT_WAITS)
        """Seconds until the last first tokens."""
        self._streaming: dict[Hashable, Visit] = {}
        self._most_streaming = 0
        self._full_at = -inf
        """Instant of the last first token with which as many streams ran as ever had before."""
        self._steps: deque[float] = deque(maxlen=REMEMBERED_STEPS)
        self._recent: deque[bool] = deque(maxlen=ARRIVALS_CONSIDERED)
        self._recent_idle = 0
        """Number of the recent arrivals that were idle."""
        self._era = 0
        self._arrived_at = self._forgot_at = -inf
        self._wrong: dict[str, Wrong] = {basis: Wrong(factors) for basis, factors in UNTAUGHT.items()}

    # --- requests in flight -------------------------------------------------------------------------------------------

    def arrived(self, key: Hashable, at: float, *, streaming: bool) -> None:
        """A whole request goes to the engine. `streaming`: its first token will be seen."""
        self._arrived_at = at
        running, recent = len(self._streaming) + len(self._hidden), self._recent
        waits = self._waiting or (self._hidden and self._hides_a_wait(at))
        idle = not waits and (running == 0 or running < self._most_streaming)
        if len(recent) == ARRIVALS_CONSIDERED:
            self._recent_idle -= recent[0]
        recent.append(idle)
        self._recent_idle += idle
        teaches = idle and self._recent_idle >= IDLE_SHARE * len(recent)  # else the engine is saturated
        full = not idle and len(self._streaming) >= self._most_streaming > 0
        (self._waiting if streaming else self._hidden)[key] = Visit(at, idle, teaches, self._era, full)

    def _hides_a_wait(self, at: float) -> bool:
        """Whether a request that is not streamed may still wait: it has waited for less than the slowest of the last streamed ones did."""
        newest = next(reversed(self._hidden.values()))
        return at - newest.arrived_at <= max(self._waits, default=inf)

    def spoke(self, key: Hashable, at: float) -> None:
        """Output for this request was read."""
        visit = self._waiting.pop(key, None)
        if visit is None and self._hidden:
            visit = self._hidden.pop(key, None)  # a stream that its request did not ask for by name
        if visit is not None:
            visit.first_token_at, visit.steps = at, tuple(self._steps)
            visit.met_full = visit.met_full or self._full_at >= visit.arrived_at
            self._streaming[key] = visit
            self._waits.append(at - visit.arrived_at)
            streaming = len(self._streaming)
            if streaming == self._most_streaming:
                self._full_at = at
            elif streaming > self._most_streaming:
                self._most_streaming = streaming  # there was room for one more
        steps = self._steps
        if steps and at - steps[-1] < SAME_STEP_SECONDS:
            steps[-1] = at
        else:
            steps.append(at)

    def left(self, key: Hashable) -> Visit | None:
        """The request ended, in any way. None if it never arrived whole."""
        return self._streaming.pop(key, None) or self._waiting.pop(key, None) or self._hidden.pop(key, None)

    # --- learning and answering ---------------------------------------------------------------------------------------

    def learn(self, model: str, lengths: Lengths, visit: Visit) -> None:
        """Learn from a streamed request that ended well, if it did not queue."""
        first_token_at = visit.first_token_at
        if visit.era != self._era or first_token_at is None:
            return
        if visit.teaches:
            self.costs.idle(model, lengths, first_token_at - visit.arrived_at)
        elif (silence := visit.silence_seconds) is not None:
            self.costs.stepped(model, lengths, silence)

    def reported(
        self,
        model: str,
        lengths: Lengths,
        seconds: float,
        arrived_at: float,
        estimate: Estimate | None = None,
        *,
        behind_seconds: float | None = None,
    ) -> None:
        """Learn from the engine's own report of a prefill, what prompts cost, how long after it the first token comes, and how wrong the
        estimate of it was. What arrived before a restart teaches nothing.
        """
        if seconds > 0.0 and arrived_at > self._forgot_at:
            self.costs.reported(model, lengths, seconds)
            if behind_seconds is not None:
                self.costs.behind(model, lengths, behind_seconds)
            if estimate is not None and estimate.prefill_seconds > 0.0:
                self._wrong[estimate.basis].learn(seconds / estimate.prefill_seconds)

    def prefill(self, model: str, lengths: Lengths, visit: Visit) -> "Estimate | Refusal":
        """The prefill part of this request's TTFT, front end included, or the reason why there is no estimate."""
        first_token_at = visit.first_token_at
        if first_token_at is None:
            return Refusal.NO_TOKEN
        if visit.era != self._era:
            return Refusal.RESTARTED
        if not lengths:
            return Refusal.NO_LENGTH
        ttft = first_token_at - visit.arrived_at
        price = self.costs.price(model, lengths)
        if isinstance(price, Refusal):
            return price
        cost_seconds, samples, behind = price
        seconds, basis, more = ttft, "idle", 1.0
        if behind:
            seconds, basis = max(ttft - behind, min(cost_seconds, ttft)), "told"
        if not visit.idle:  # else it is quicker or slower than usual: no other request was ahead of it
            seconds, basis = visit.prefill(cost_seconds, visit.arrived_at + seconds)
            more += OF_FEW_SAMPLES / samples
        low, high = self._wrong[basis].factors
        highest, lowest = high * seconds * more, low * seconds / more
        if highest > ttft:
            highest = ttft
            lowest = min(lowest, highest)
        if highest - lowest > USELESS_SHARE * ttft:
            return Refusal.WIDE
        return Estimate(seconds, lowest, highest, basis, behind, visit.met_full)

    def forget(self) -> None:
        """Drop all samples: the engine restarted or was replaced."""
        self._era += 1
        self._forgot_at = self._arrived_at
        self.costs.forget()
        self._recent.clear()
        self._recent_idle = 0
        self._steps.clear()
        self._most_streaming = 0
        self._full_at = -inf
        self._waits.clear()

    def keep_only(self, models: Iterable[str]) -> None:
        """Drop what is known of all models but these, which the engine serves now."""
        self.costs.keep_only(models)
