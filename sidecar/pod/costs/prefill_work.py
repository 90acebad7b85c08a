"""Measured prefill time against the prefill time that is expected for the same prompts. Pure.

The ratio of two sums is the evidence (design section 7). *Own*: time during which at least one of the reported prompts
was in prefill. Overlapping prefills are counted once, whatever order the reports come in. *Expected*: the sum of a
learned function of the uncached length for the same prompts. The function learns only from prompts that were alone in
prefill, and not while objectives burn, or it would learn the fault. A request without an engine report counts only if
it did not queue: then its whole TTFT is its prefill, front end included.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from math import log2
from typing import ClassVar, NamedTuple

from sidecar.pod.costs.prefill_cost import CLASSES_PER_OCTAVE, Curve, Length, Refusal
from sidecar.pod.usual.learner import Amount, Inner, Learner, Past, Row, Table, Text


REMEMBERED_SECONDS = 900.0
"""Seconds into the past for which counted time is kept. A prefill that began earlier is not counted."""
MAX_COUNTED_SPANS = 8192
"""Spans of counted time that are kept: nearly nine a second for a quarter of an hour. Above that the oldest are dropped."""
_DROPPED_SPANS = 256
"""Spans that are dropped together above that: each time, all that are kept move in memory."""
REMEMBERED_SAMPLES = 61
SAMPLE_EVERY_SECONDS = 10.0
"""Once a class of lengths is full, it takes one sample per 10 s: ten minutes of memory, so that a burst does not
replace it."""
RECENT_ARRIVALS = 50
FEWEST_IDLE = 0.1
"""If less than this share of the last RECENT_ARRIVALS found the engine idle, no arrival is taken as idle."""
STATED_PREFILLS = 64
"""Prefills told by spans among which one is looked for that overlaps: more than an engine runs at once, for the seconds of one batch."""
MAX_CURVES = 34
"""One per model label (a closed set of 17) and measure of length (2)."""


class Work(NamedTuple):
    """One request's prefill, in seconds: the time that it adds to the counted time, and its expected time."""

    own_seconds: float
    expected_seconds: float


class FirstToken(NamedTuple):
    """Facts about one request's prefill that the sidecar can observe without a report."""

    first_token_at: float
    idle: bool
    """The request did not queue, as far as the sidecar can tell: when it came, no other request waited for its first
    token, fewer streams ran than the engine has handled before, and enough recent arrivals found the same (in a
    saturated engine the few that look idle are misjudged)."""
    alone_since: float
    """The latest instant before its first token at which another request got its first token, or left while it
    waited."""
    undisturbed: bool
    """No other request waited for its first token when this one got its own."""


class Prefilling:
    """One request's place in the engine. If it neither waits nor streams, it has not come or has left."""

    waits = False
    """It has no output."""
    streams = False
    """It has output, and the engine has not finished it."""
    idle = False
    """The request did not queue, as far as the sidecar can tell (`FirstToken.idle`)."""


class PrefillWork(Learner):
    KEPT: ClassVar = {
        "_most_streaming": Amount(whole=True),
        "_curves": Table(Row(Text(), Text()), Inner(lambda: Curve(REMEMBERED_SAMPLES)), MAX_CURVES),
        "_learned_at": Table(Row(Text(), Text(), Amount(whole=True)), Row(Amount(whole=True), Past())),
    }

    def __init__(self) -> None:
        self.waiting = 0
        """Number of requests without output."""
        self.streaming = 0
        """Number of streams with output that the engine has not finished."""
        self._most_streaming = 0
        self._recent: deque[bool] = deque(maxlen=RECENT_ARRIVALS)
        self._recent_idle = 0
        """Number of the recent arrivals that were idle."""
        self._others_until = float("-inf")
        """When a waiting request last got its first token or left."""
        # Arrays: as objects, the spans of a burst would lie spread over the heap for a quarter of an hour, and keep its pages.
        self._begins, self._ends = array("d"), array("d")
        """Spans of counted time: disjoint, in order."""
        self._forgotten_until = float("-inf")
        self._stated: deque[tuple[float, float]] = deque(maxlen=STATED_PREFILLS)
        """The last prefills that spans told."""
        self._curves: dict[tuple[str, str], Curve] = {}
        self._learned_at: dict[tuple[str, str, int], tuple[int, float]] = {}

    # --- waiting requests ------------------------------------------------------------------------------------------------

    def received(self, request: Prefilling) -> None:
        """A request is on its way to the engine."""
        recent = self._recent
        idle = not self.waiting and (self.streaming == 0 or self.streaming < self._most_streaming)
        if len(recent) == RECENT_ARRIVALS:
            self._recent_idle -= recent[0]
        recent.append(idle)
        self._recent_idle += idle
        self.waiting += not request.waits
        request.waits, request.idle = True, idle and self._recent_idle >= FEWEST_IDLE * len(recent)

    def first_token(self, request: Prefilling, at: float) -> FirstToken | None:
        """Its first output was read."""
        if not request.waits:
            return None
        self.waiting -= 1
        self.streaming += not request.streams
        request.waits, request.streams = False, True
        self._most_streaming = max(self._most_streaming, self.streaming)
        seen = FirstToken(at, request.idle, self._others_until, not self.waiting)
        self._others_until = at
        return seen

    def left(self, request: Prefilling, at: float) -> None:
        """The request ended in any way. Non-streamed or given up, it may have been in prefill until now."""
        self.streaming -= request.streams
        if request.waits:
            self.waiting -= 1
            self._others_until = at
        request.waits = request.streams = False

    def stated(self, began_at: float, ended_at: float) -> FirstToken:
        """A prefill of which only its engine's span tells, after its end. Those that overlap it may be told later: of two that overlap, the
        first to be told counts as alone.
        """
        alone = not any(begin < ended_at and began_at < end for begin, end in self._stated)
        self._stated.append((began_at, ended_at))
        return FirstToken(ended_at, idle=False, alone_since=began_at, undisturbed=alone)

    # --- when the ledger is closed ---------------------------------------------------------------------------------------

    def cost_seconds(self, model: str, length: Length) -> float | None:
        """Prefill seconds of such a prompt alone; None if unknown."""
        curve = self._curves.get((model, length.measure))
        if curve is None:
            return None
        cost = curve.cost(length.value)
        return None if isinstance(cost, Refusal) else cost

    def most_seconds(self, model: str, length: Length) -> float | None:
        """Seconds that such a prompt takes at most, where its cost is not known; None if even that is unknown."""
        curve = self._curves.get((model, length.measure))
        return None if curve is None else curve.most(length.value)

    def prefilled(
        self, model: str, length: Length | None, seen: FirstToken, seconds: float, *, learn: bool
    ) -> Work | None:
        """Count a prefill of `seconds`: the engine's report or, for an idle request without one, its TTFT.

        Returns None if the expected time is unknown, and if the prefill began before the spans that are still kept.
        `learn`: no objective burns, so this sample may be used as baseline.
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
        """The engine's process was replaced. The costs stay: a new process of the same model is compared with the old one."""
        self._recent.clear()
        self._recent_idle = 0
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
        """Mark this span as counted. Returns how many of its seconds were not counted before."""
        begins, ends = self._begins, self._ends
        if ends and began_at > ends[-1]:  # no other prefill was computed meanwhile
            begins.append(began_at)
            ends.append(ended_at)
            self._forget_old()
            return ended_at - began_at
        if len(ends) > 1 and ends[-2] < began_at and begins[-1] <= ended_at:  # it touches the last span alone
            begin, end = begins[-1], ends[-1]
            begins[-1], ends[-1] = min(begin, began_at), max(end, ended_at)
            self._forget_old()
            return (ends[-1] - begins[-1]) - (end - begin)
        touched = slice(bisect_left(ends, began_at), bisect_right(begins, ended_at))
        counted = sum([end - begin for begin, end in zip(begins[touched], ends[touched], strict=True)])
        low = min([began_at, *begins[touched]])
        high = max([ended_at, *ends[touched]])
        begins[touched], ends[touched] = array("d", [low]), array("d", [high])
        self._forget_old()
        return (high - low) - counted

    def _forget_old(self) -> None:
        begins, ends = self._begins, self._ends
        horizon, full = ends[-1] - REMEMBERED_SECONDS, len(ends) > MAX_COUNTED_SPANS
        if ends[0] >= horizon and not full:
            return
        forgotten = max(bisect_left(ends, horizon), _DROPPED_SPANS if full else 0)
        self._forgotten_until = ends[forgotten - 1]
        del begins[:forgotten]
        del ends[:forgotten]
