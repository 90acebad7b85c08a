"""What prefills cost the engine now, against what prompts of their length cost on quieter days. Pure.

Two sums whose ratio is the evidence (design section 7). *Own*: the seconds in which at least one of the reported prompts was in
prefill. Prompts that are computed together share those seconds, so what they do to each other does not count twice: the
co-scheduled work is taken out, whatever order the reports come in. *Expected*: what a fitted function of the uncached length
says of the same prompts. It is learned only from prompts that had the engine's prefill for themselves, and not while objectives
are missed, or it would learn the fault. A request on which nobody reports counts only if it waited for nobody: then its whole
time to first token is its prefill, front end included.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from math import log2

from sidecar.slo.prefill_cost import CLASSES_PER_OCTAVE, Curve, Length, Refusal


REMEMBERED_SECONDS = 900.0
"""How far back a late report may reach into the seconds that are taken; what began before is not counted at all."""
MAX_SPANS = 8192
"""Of seconds that are taken: nine a second for a quarter of an hour. Where there are more, the oldest go."""
REMEMBERED_SAMPLES = 61
SAMPLE_EVERY_SECONDS = 10.0
"""Once a class of lengths has its samples, one in so many seconds: ten minutes of memory, so that no burst rewrites it."""
RECENT_ARRIVALS = 50
FEWEST_IDLE = 0.1
"""Of so many recent arrivals at least this share must look idle, or none is taken to be."""
MAX_CURVES = 34
"""The closed set of model labels, in two measures of length."""


@dataclass(frozen=True, slots=True)
class Work:
    """One request's prefill, in seconds: what it added to the seconds taken, and what was expected of it."""

    own_seconds: float
    expected_seconds: float


@dataclass(slots=True)
class _Arrival:
    arrived_at: float
    idle: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """What was to be seen of one request's prefill from outside."""

    first_token_at: float
    idle: bool
    """It waited for nobody, as far as that can be seen: nobody else was waiting when it came, there were fewer streams than the
    engine was ever seen to carry, and enough of those who came with it were as lucky (in a saturated engine the few that look idle
    are the misjudged ones)."""
    alone_since: float
    """From when on nobody else's first token came and nobody who waited left, until its own."""
    undisturbed: bool
    """Nobody was waiting behind it when its first token came."""


class PrefillWork:
    """One engine's."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, _Arrival] = {}
        self._streaming: set[Hashable] = set()
        self._most_streaming = 0
        self._recent: deque[bool] = deque(maxlen=RECENT_ARRIVALS)
        self._others_until = float("-inf")
        """When one that waited last had its first token, or left."""
        self._taken: list[tuple[float, float]] = []
        """Spans of seconds that were counted: disjoint, in order."""
        self._forgotten_until = float("-inf")
        self._curves: dict[tuple[str, str], Curve] = {}
        self._learned_at: dict[tuple[str, str, int], tuple[int, float]] = {}

    # --- who waits -------------------------------------------------------------------------------------------------------

    def received(self, key: Hashable, at: float) -> None:
        """A request is on its way to the engine."""
        streaming = len(self._streaming)
        idle = not self._waiting and (streaming == 0 or streaming < self._most_streaming)
        self._recent.append(idle)
        saturated = sum(self._recent) < FEWEST_IDLE * len(self._recent)
        self._waiting[key] = _Arrival(at, idle and not saturated)

    def first_token(self, key: Hashable, at: float) -> Seen | None:
        """Its first output was read."""
        arrival = self._waiting.pop(key, None)
        if arrival is None:
            return None
        self._streaming.add(key)
        self._most_streaming = max(self._most_streaming, len(self._streaming))
        seen = Seen(at, arrival.idle, self._others_until, not self._waiting)
        self._others_until = at
        return seen

    def left(self, key: Hashable, at: float) -> None:
        """It ended, however: one that was not streamed or that was given up may have been in prefill until now."""
        self._streaming.discard(key)
        if self._waiting.pop(key, None) is not None:
            self._others_until = at

    # --- what is known when the ledger is closed -------------------------------------------------------------------------

    def cost_seconds(self, model: str, length: Length | None) -> float | None:
        """What a prompt like this takes alone; None while nobody can say."""
        curve = None if length is None else self._curves.get((model, length.measure))
        if curve is None or length is None:
            return None
        cost = curve.cost(length.value)
        return None if isinstance(cost, Refusal) else cost

    def prefilled(self, model: str, length: Length | None, seen: Seen, seconds: float, *, learn: bool) -> Work | None:
        """A prefill took so long, by the engine's report (or, of an idle request, by its TTFT). None while nothing can be expected,
        and for what is so long ago that nobody remembers who else was in prefill then.

        `learn`: all is well, so that this may become what is expected later.
        """
        if length is None or not seconds > 0:
            return None
        began_at = seen.first_token_at - seconds
        if began_at < self._forgotten_until:
            return None
        expected = self.cost_seconds(model, length)
        if learn and seen.undisturbed and seen.alone_since <= began_at:
            self._learn(model, length, seconds, seen.first_token_at)
        if expected is None:
            return None
        return Work(self._take(began_at, seen.first_token_at), expected)

    def forget(self) -> None:
        """The engine is another: what prompts cost the old one says nothing."""
        self._curves.clear()
        self._learned_at.clear()
        self._recent.clear()
        self._most_streaming = 0

    def _learn(self, model: str, length: Length, seconds: float, at: float) -> None:
        curve = self._curves.get((model, length.measure))
        if curve is None:
            if len(self._curves) >= MAX_CURVES:
                return
            curve = self._curves[model, length.measure] = Curve(REMEMBERED_SAMPLES)
        place = (model, length.measure, int(CLASSES_PER_OCTAVE * log2(max(length.value, 1.0))))
        learned, last_at = self._learned_at.get(place, (0, float("-inf")))
        if learned < REMEMBERED_SAMPLES or at - last_at >= SAMPLE_EVERY_SECONDS:
            self._learned_at[place] = (learned + 1, at)
            curve.learn(length.value, seconds)

    def _take(self, began_at: float, ended_at: float) -> float:
        """Mark these seconds as taken; how many of them were not before."""
        taken = self._taken
        first = bisect_left(taken, began_at, key=lambda span: span[1])
        last = bisect_right(taken, ended_at, key=lambda span: span[0])
        overlapping = taken[first:last]
        low = min([began_at, *(span[0] for span in overlapping)])
        high = max([ended_at, *(span[1] for span in overlapping)])
        taken[first:last] = [(low, high)]
        horizon = taken[-1][1] - REMEMBERED_SECONDS
        forgotten = max(bisect_left(taken, horizon, key=lambda span: span[1]), len(taken) - MAX_SPANS)
        if forgotten:
            self._forgotten_until = taken[forgotten - 1][1]
            del taken[:forgotten]
        return (high - low) - sum(end - begin for begin, end in overlapping)
