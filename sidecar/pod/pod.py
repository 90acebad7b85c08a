"""The signs of one pod, from readings of its own counters every few seconds. Pure.

It knows cumulative counts (`Reading`), and the costs that the step model found. `lanes.py` compares the traffic with the
usual one, and `faults.py` remembers faults of the engine. It refuses to know requests, and to learn while an objective
burns.
"""

from collections import deque
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import inf, prod
from typing import ClassVar, NamedTuple

from sidecar.objectives.attribution import Blame
from sidecar.pod.backlog import FEWEST_WAITING
from sidecar.pod.causes import DEARER, WORTH_NAMING, Cause
from sidecar.pod.costs.waits import Doing
from sidecar.pod.factor import Factor, chance, chance_grown, clearest
from sidecar.pod.faults import Faults
from sidecar.pod.lanes import Brought, Lanes
from sidecar.pod.liveness.silence import STALL_SECONDS
from sidecar.pod.output import Output
from sidecar.pod.reading import READING_SECONDS, Reading
from sidecar.pod.reasons import COMPUTES
from sidecar.pod.signs import Signs
from sidecar.pod.usual.comparison import COMPARED_SECONDS, FADES, RECENT_SECONDS, SOON_SECONDS, Comparison
from sidecar.pod.usual.learner import Inner, Learner


EMPTY_SECONDS = 300.0
"""After so long without an arrival, time teaches no usual load: or a night would make each morning an overload."""
MOST_READINGS = 3.0
"""A longer time between two readings counts as so many."""
IDLE_SPREAD = 1.5
"""The first token of a request that did not queue is a guess at its prefill: its interval is wider."""
KV_FULL_RATIO = 0.85
"""On average: a request that does not fit waits while some blocks are still free."""
PREEMPTED = 0.05
FEWEST_PREEMPTED = 3.0
OUTSIDE = 0.5
"""Share of the waiting requests that are not in the engine, from which on they wait in front of it."""
FEWEST_OUTSIDE = 2.0
FEWER_SLOTS = 0.9
"""Share of the most requests that usually run at once, below which a full batch shows a lower limit."""
COMPUTES_LITTLE, LITTLE_FULL = 0.4, 0.5
"""Below these shares of the time in which requests wait, they wait for neither compute nor a slot."""
UNSEEN_DEARER = 0.5
"""The chance that a cost has grown where nothing tells it."""


class Costs(NamedTuple):
    """The step model's view of now; None: it cannot answer."""

    decode: tuple[Factor | None, ...] = ()
    """In a short window and in a long one; alike where only the last seconds speak for now."""
    prefill: tuple[Factor | None, ...] = ()
    doing: Doing | None = None
    unsure: frozenset[Cause] = frozenset()
    """The costs that are dear by some fit of what was learned, and not dear by another one, which is told here."""
    is_open: bool = False
    """Any step may hold a prompt, and which of the two is dear is open."""


class Pod(Learner):
    """The signs of one process's engine and of its traffic."""

    COSTS: ClassVar = ("_reported", "_together", "_pace", "_typical", "_a_token")
    TRAFFIC: ClassVar = ("_load", "_mix", "_uncached")
    SINCE: ClassVar = ("_a_token",)
    KEPT: ClassVar = {
        "_lanes": Inner(Lanes),
        "_output": Inner(Output),
        **dict.fromkeys(TRAFFIC, Inner(Comparison)),
        **dict.fromkeys(COSTS, Inner(partial(Comparison, guarded=True))),
    }

    def __init__(self) -> None:
        self._lanes = Lanes()
        self._last: Reading | None = None
        self._arrived_at = -inf
        """Instant of the last reading with an arrival."""
        self._load = Comparison()
        self._mix = Comparison()
        self._uncached = Comparison()
        self._output = Output()
        self._reported = Comparison(guarded=True)
        self._together = Comparison(guarded=True)
        self._pace = Comparison(guarded=True)
        self._typical = Comparison(guarded=True)
        self._a_token = Comparison(guarded=True)
        self._restarted_at = -inf
        """Instant of the reading that told of the engine's last restart."""
        self.answered_events = self.answered_tokens = 0
        """Output events and tokens of streams that ended well since the last reading: the caller counts them."""
        self._readings: deque[Reading] = deque(maxlen=round(RECENT_SECONDS / READING_SECONDS) + 1)
        self._most_running = 0.0
        """The most requests that usually run at once: the batch limit is that or higher. It fades as what is usual does,
        and a new process of the sidecar learns it anew."""
        self._faults = Faults()
        self._waited: deque[tuple[float, Blame]] = deque(maxlen=512)

    # --- what happens ---------------------------------------------------------------------------------------------------

    def waited(self, at: float, phase: Blame) -> None:
        """The ledger of a TTFT or E2E miss was closed: it waited in this phase."""
        self._waited.append((at, phase))

    @property
    def young(self) -> bool:
        """Whether no usual values are known yet."""
        return self._load.young and self._mix.young

    def forget_load(self) -> None:
        """The usual load is another pod's: it says nothing about this one."""
        self._load = Comparison()

    def teach_after(self, calm_seconds: float) -> None:
        """A slice teaches once it stayed calm for so long after its end: CALM_AFTER_SECONDS unless told."""
        for name in (*self.TRAFFIC, *self.COSTS):
            getattr(self, name).calm_after_seconds = calm_seconds
        self._output.teach_after(calm_seconds)

    def read(self, now: Reading, costs: Costs, *, calm: bool) -> None:
        """A slice has ended. `calm`: no objective burns."""
        if now.engine_up is False and self._last is not None and _events(now) > _events(self._last):
            now = replace(now, engine_up=None)  # it answers requests, whatever its health check says
        last, self._last = self._last, now
        self._readings.append(now)
        if last is None:
            return
        if now.restarts > last.restarts:
            self._restarted_at = now.at
        dearer = any(_dearer(each) for each in (*costs.decode, *costs.prefill)) or self._cold_cache(now.at)
        self._faults.note(last, now, dearer=dearer)
        if calm:
            self._most_running = max(FADES * self._most_running, _running(now))
        self._compare(last, now, calm=calm)

    def _compare(self, last: Reading, now: Reading, *, calm: bool) -> None:
        brought = self._lanes.compare(last.lanes, now.lanes, learn=calm)
        self._output.add(now.at, brought, streaming=now.streaming, calm=calm)
        if brought.work > 0.0:
            self._arrived_at = now.at
        # A process that stood still for an hour saw no hour without traffic.
        seconds = min(now.at - last.at, MOST_READINGS * READING_SECONDS)
        busy_seconds = seconds if now.at - self._arrived_at < EMPTY_SECONDS else 0.0
        # While a queue stands or long prompts are computed, each step may hold as much of a prompt as it can: gaps then tell
        # no cost of decode.
        full_steps = min(last.waiting, now.waiting) >= FEWEST_WAITING or now.long_prompts
        told = Brought() if full_steps else brought
        for comparison, value, expected in (
            (self._load, brought.work, busy_seconds),
            (self._mix, brought.prompt_tokens, brought.usual_prompt_tokens),
            (self._uncached, brought.uncached_tokens, brought.usual_uncached_tokens),
            (self._reported, now.own_seconds - last.own_seconds, now.expected_seconds - last.expected_seconds),
            (self._together, brought.events, brought.usual_events),
            (self._pace, told.gap_seconds, told.usual_gap_seconds),
            (self._typical, told.typical_seconds, told.usual_typical_seconds),
            (self._a_token, self.answered_events, self.answered_tokens),
        ):
            comparison.add(now.at, value, expected, calm=calm)
        self.answered_events = self.answered_tokens = 0

    def _cold_cache(self, at: float) -> bool:
        """Whether prompts are computed that the cache usually holds, and no more of them than usually: where load has grown,
        they may be other ones.
        """
        causes = {Cause.UNCACHED: self._uncached, Cause.LOAD: self._load}
        grown = {cause: comparison.since(at - RECENT_SECONDS) for cause, comparison in causes.items()}
        uncached, load = (
            factor is not None and chance(factor, WORTH_NAMING[cause]) > 0.5 for cause, factor in grown.items()
        )
        return uncached and not load

    # --- what it shows --------------------------------------------------------------------------------------------------

    def signs(
        self,
        at: float,
        costs: Costs,
        *,
        queued_since: float | None = None,
        engine_waiting: float | None = None,
    ) -> Signs:
        """All signs at this instant. `queued_since`: beginning of the oldest backlog of the last minute; `engine_waiting`: requests in the engine's own queue as it last stated them, which may be after the last reading;
        None: unknown.
        """
        soon = at - SOON_SECONDS
        a_token = self._a_token.since(at - RECENT_SECONDS)
        events = _other_than_usual(a_token)
        longer_outputs = self._output.longer(at, queued_since, 1.0 if events is None else events.value)
        stepwise = clearest(costs.decode, DEARER)
        step = stepwise or self._paced(at, longer_outputs)
        found = {
            Cause.LOAD: self._load.since(at - RECENT_SECONDS),
            Cause.PROMPT_MIX: self._now(self._mix, at, Cause.PROMPT_MIX),
            Cause.UNCACHED: self._now(self._uncached, at, Cause.UNCACHED),
            Cause.LONGER_OUTPUTS: longer_outputs,
            Cause.DECODE_COST: _for_a_token(step, events),
            Cause.PREFILL_COST: self._prefill(at, step, costs),
        }
        now = self._last
        reports = bool(self._readings) and self._reports()
        inside = self._waits_inside(soon)
        limited = _is_limited(costs.doing, waits_inside=inside)
        waits = limited or (costs.doing is None and bool(inside))
        return Signs(
            at=at,
            grown={cause: factor for cause, factor in found.items() if factor is not None},
            per_step=a_token is None,
            together=self._together.since(soon) or self._together.since(at - RECENT_SECONDS),
            collected_seconds=self._collected_seconds(soon),
            faults=self._faults.since(at - 10 * RECENT_SECONDS),
            reports=reports,
            kv_full=self._kv_full(soon),
            preempts=self._preempts(at - RECENT_SECONDS),
            preempted=self._preempted(self._recent(at - RECENT_SECONDS)) >= 1.0,
            front_end=not reports and self._in_front(soon, costs.doing),
            computes_ratio=None if costs.doing is None else costs.doing.computes,
            mute=self._is_mute(),
            maybe_mute=self._may_be_mute(),
            limited=limited,
            fewer_slots=waits and self._runs_fewer(at - RECENT_SECONDS, soon if limited and inside else None),
            waited=self._shares(at),
            engine_waiting=engine_waiting,
            unsure=costs.unsure,
            cold=self._cold(at, step, costs),
            cache_unseen=now is None or not any(each.cached_tokens for each in now.lanes.values()),
            young=self.young,
        )

    def _now(self, comparison: Comparison, at: float, cause: Cause) -> Factor | None:
        """The present ratio, over the window in which it is clearer: what has just changed is clear in the short one."""
        return clearest([comparison.since(at - seconds) for seconds in COMPARED_SECONDS], WORTH_NAMING[cause])

    def _paced(self, at: float, longer_outputs: Factor | None) -> Factor | None:
        """The cost of decode by the gaps between tokens, where steps say nothing: an estimate.

        Gaps grow with more load, more prompt tokens and longer answers too: at most as the square of these, as a step that
        takes longer also holds more sequences. They grow with dearer prompts, but less than prefills do then; and as prefills
        are told at the end of an answer, the typical gap has to have grown too, which few steps with prompts do not change.
        """
        more = {
            Cause.LOAD: self._load.since(at - RECENT_SECONDS),
            Cause.PROMPT_MIX: self._now(self._mix, at, Cause.PROMPT_MIX),
            Cause.UNCACHED: self._now(self._uncached, at, Cause.UNCACHED),
            Cause.LONGER_OUTPUTS: longer_outputs,
        }
        explained = prod(
            max(1.0, each.value) ** 2
            for cause, each in more.items()
            if each is not None and chance_grown(each, WORTH_NAMING[cause]) > 0.5
        )
        found = [
            _lower(self._pace.since(since), self._typical.since(since))
            for since in (at - each for each in COMPARED_SECONDS)
        ]
        windows = [None if each is None else Factor(*(value / explained for value in each)) for each in found]
        # Gaps scatter more than steps: a cost that has grown shows in both windows.
        if any(each is not None and each.low <= 1.0 for each in windows):
            return None
        pace, reported = clearest(windows, DEARER), self._now(self._reported, at, Cause.DECODE_COST)
        if pace is None or reported is None:
            return None
        guess = 1.0 if self._reports() else IDLE_SPREAD
        return pace if pace.value >= guess * reported.value else None

    def _prefill(self, at: float, decode: Factor | None, costs: Costs) -> Factor | None:
        """Reported prefills hold the decodes of the steps that they share: where these are or may be dearer, the steps decide."""
        measured, stepwise = self._now(self._reported, at, Cause.PREFILL_COST), clearest(costs.prefill, DEARER)
        if measured is not None and Cause.PREFILL_COST in costs.unsure:
            stepwise = None
        if costs.is_open and decode is None:
            return stepwise
        dearer = _dearer(decode)
        if measured is None or (stepwise is not None and (dearer or not self._reports())):
            return stepwise
        if dearer and decode is not None:
            value = decode.value
            measured = Factor(measured.value / value, measured.low / value, measured.high / value)
        if self._reports():
            return measured if dearer else clearest((measured, stepwise), DEARER)
        return Factor(measured.value, measured.low / IDLE_SPREAD, measured.high * IDLE_SPREAD)

    def _cold(self, at: float, decode: Factor | None, costs: Costs) -> float:
        """See `Signs.cold`. Where steps do not tell a cost, the gaps between tokens tell how dear a decode is at most, and the prefills of
        requests how dear a prompt is.
        """
        if self.young:
            return 1.0
        starts = [
            max(at - each, self._restarted_at) for each in COMPARED_SECONDS
        ]  # those of before tell of the old process
        decode_most = decode or clearest([self._pace.since(each) for each in starts], DEARER)
        prefill_most = clearest([*costs.prefill, *(self._reported.since(each) for each in starts)], DEARER)
        most = decode_most, prefill_most
        if not any(most):
            return 1.0  # nothing was computed since
        return min(UNSEEN_DEARER if each is None else chance_grown(each, DEARER) for each in most)

    def _reports(self) -> bool:
        """Whether the engine reported the phases of most answers of the last minute."""
        first, last = self._readings[0], self._readings[-1]
        return last.reported - first.reported > last.unreported - first.unreported

    def _recent(self, since: float) -> list[Reading]:
        return [each for each in self._readings if each.at > since]

    def _kv_full(self, since: float) -> bool:
        seen = [(each.kv_usage, each.engine_waiting) for each in self._recent(since)]
        known = [(usage, waiting) for usage, waiting in seen if usage is not None and waiting is not None]
        if not known:
            return False
        usage, waiting = (sum(each) / len(known) for each in zip(*known, strict=True))
        return bool(usage >= KV_FULL_RATIO and waiting >= 1.0)

    def _runs_fewer(self, since: float, stated_since: float | None) -> bool:
        """Whether fewer requests ran at once all the time than usually at most, although the KV cache has room. `stated_since`: beginning of a
        shorter time that suffices where the engine states how many it runs.
        """
        if stated_since is not None and all(each.engine_running is not None for each in self._recent(stated_since)):
            since = stated_since
        most = max((_running(each) for each in self._recent(since)), default=0.0)
        return most < FEWER_SLOTS * self._most_running and not self._kv_full(since)

    def _collected_seconds(self, since: float) -> float | None:
        recent = self._recent(since)
        return self._lanes.collected_seconds(recent[0].lanes, recent[-1].lanes) if recent else None

    def _preempts(self, since: float) -> bool:
        recent = self._recent(since)
        if len(recent) < 2:
            return False
        first, last, preempted = recent[0], recent[-1], self._preempted(recent)
        arrived = sum(each.arrivals for each in last.lanes.values()) - sum(
            each.arrivals for each in first.lanes.values()
        )
        return preempted >= FEWEST_PREEMPTED and preempted >= PREEMPTED * arrived

    @staticmethod
    def _preempted(recent: list[Reading]) -> float:
        """Requests that lost their KV blocks from the first of these readings to the last."""
        return recent[-1].preemptions - recent[0].preemptions if recent else 0.0

    def _outside(self, since: float) -> bool:
        """Whether most of the waiting requests are not in the engine, by its own numbers."""
        waiting = outside = 0.0
        known = 0
        for before, each in pairwise(self._recent(since)):
            if each.engine_waiting is None or each.engine_running is None:
                continue
            # The engine's numbers may be some seconds old: those who came or began to get output since do not count.
            waits, streaming = min(before.waiting, each.waiting), min(before.streaming, each.streaming)
            known += 1
            waiting += waits
            outside += waits - each.engine_waiting - max(0.0, each.engine_running - streaming)
        return known >= 2 and waiting >= FEWEST_OUTSIDE * known and outside >= OUTSIDE * waiting

    def _is_mute(self) -> bool:
        """Whether requests wait, and no output came to any for longer than a stall takes or their prompts explain."""
        now = self._readings[-1] if self._readings else None
        return now is not None and now.waiting >= 1.0 and now.silent_seconds >= max(STALL_SECONDS, now.excused_seconds)

    def _may_be_mute(self) -> bool:
        now = self._readings[-1] if self._readings else None
        return now is not None and now.waiting >= 1.0 and now.unseen_seconds >= STALL_SECONDS

    def _waits_inside(self, since: float) -> bool | None:
        """Whether the engine itself says that requests wait in its queue; None if it does not say."""
        known = [each.engine_waiting for each in self._recent(since) if each.engine_waiting is not None]
        return sum(known) >= len(known) if known else None

    def _in_front(self, since: float, doing: Doing | None) -> bool:
        """Whether requests wait before they reach the scheduler: the engine is busy neither with prompts nor with a full
        batch.
        """
        if doing is None:
            return self._outside(since)
        if doing.computes >= COMPUTES[1]:
            return False
        spare = doing.computes < COMPUTES_LITTLE and doing.full is not None and doing.full < LITTLE_FULL
        return self._outside(since) or (spare and not self._waits_inside(since))

    def _shares(self, at: float) -> dict[Blame, float]:
        recent = [
            phase for when, phase in self._waited if when > at - RECENT_SECONDS and phase is not Blame.UNATTRIBUTED
        ]
        return {phase: recent.count(phase) / len(recent) for phase in dict.fromkeys(recent)}


def _other_than_usual(events: Factor | None) -> Factor | None:
    """None where the number of events a token may be the usual one: nothing is said of it then."""
    return None if events is None or events.low <= 1.0 <= events.high else events


def _for_a_token(step: Factor | None, events: Factor | None) -> Factor | None:
    """The cost of a token: that of a step, or of the gap between two events, for so many times the usual events a token. An engine
    that speculates needs more steps for as many tokens when fewer of its guesses are right.
    """
    if events is None:
        return step
    if step is None:
        return events if chance_grown(events, DEARER) > 0.5 else None
    return Factor(*(one * other for one, other in zip(step, events, strict=True)))


def _lower(one: Factor | None, other: Factor | None) -> Factor | None:
    """The factor of the lower value; None if either is unknown."""
    return None if one is None or other is None else min(one, other, key=lambda factor: factor.value)


def _is_limited(doing: Doing | None, *, waits_inside: bool | None) -> bool:
    """Whether requests wait for a place in the batch: in the engine, by its own numbers or because it runs as many as it
    can, while it computes few prompts.
    """
    if doing is None or doing.computes >= COMPUTES[0]:
        return False
    return doing.full is not None and doing.full >= LITTLE_FULL if waits_inside is None else waits_inside


def _dearer(cost: Factor | None) -> bool:
    return cost is not None and chance(cost, DEARER) > 0.5


def _running(reading: Reading) -> float:
    """Requests that the engine runs, by its own numbers or, without them, those that get output."""
    return reading.streaming if reading.engine_running is None else reading.engine_running


def _events(reading: Reading) -> float:
    return sum(each.events for each in reading.lanes.values())
