"""The signs of one pod, from readings of its own counters every few seconds. Pure.

Load, prompts and answers are compared lane by lane with what the lane usually brings: a lane that sends more does not
look like longer prompts, and the other way round. It knows cumulative counts (`Reading`), and the costs that the step
model found. It refuses to know requests, and to learn while an objective burns.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from typing import NamedTuple

from sidecar.slo.attribution import Blame
from sidecar.slo.causes import Cause
from sidecar.slo.factor import Factor
from sidecar.slo.root.comparison import Comparison
from sidecar.slo.root.signs import Fault, Signs
from sidecar.slo.root.weigh import DEARER, WORTH_NAMING, chance
from sidecar.slo.waits import Doing


SLICE_SECONDS = 5.0
RECENT_SECONDS = 60.0
SOON_SECONDS = 20.0
"""The windows that are compared with the usual: a short one, and a long one for what is seldom."""
COLD_SECONDS = 60.0
"""Time after a restart for which the new process may be blamed; longer while its work is dearer without a break."""
STILL_COLD_SECONDS = 15.0
KEPT_FAULTS = 16
LATE_SECONDS = 15.0
IDLE_SPREAD = 1.5
"""The first token of a request that did not queue is a guess at its prefill: its interval is wider."""
KV_FULL_RATIO = 0.85
"""On average: a request that does not fit waits while some blocks are still free."""
PREEMPTED = 0.05
FEWEST_PREEMPTED = 3.0
OUTSIDE = 0.5
"""Share of the waiting requests that are not in the engine, from which on they wait in front of it."""
FEWEST_OUTSIDE = 2.0
COMPUTES, FULL = 0.4, 0.5
"""Below these shares of the time in which requests wait, they wait for neither compute nor a slot."""
LANE_FADES = 0.9981
FEWEST_OF_LANE = 20.0


class LaneCounts(NamedTuple):
    """Cumulative counts of one lane."""

    arrivals: float = 0.0
    measured: float = 0.0
    """Arrivals whose prompt length was known or estimated."""
    received_tokens: float = 0.0
    """Prompt tokens of these."""
    answered: float = 0.0
    """Answers whose usage was stated."""
    prompt_tokens: float = 0.0
    cached_tokens: float = 0.0
    outputs: float = 0.0
    output_tokens: float = 0.0
    reads: float = 0.0
    events: float = 0.0


@dataclass(frozen=True, slots=True)
class Reading:
    """The pod's own counters and gauges at one instant; None: unknown."""

    at: float
    lanes: Mapping[str, LaneCounts] = field(default_factory=dict)
    reported: float = 0.0
    """Answers with phases that the engine reported."""
    unreported: float = 0.0
    own_seconds: float = 0.0
    """Prefill seconds of measured prompts."""
    expected_seconds: float = 0.0
    late_seconds: float = 0.0
    """Sum of the lateness of the loop's timer."""
    preemptions: float = 0.0
    restarts: float = 0.0
    stalled_seconds: float = 0.0
    silent_seconds: float = 0.0
    engine_up: bool | None = None
    kv_usage: float | None = None
    engine_waiting: float | None = None
    engine_running: float | None = None
    waiting: float = 0.0
    """Requests inside the sidecar without output."""
    streaming: float = 0.0


class Costs(NamedTuple):
    """The step model's view of now; None: it cannot answer."""

    decode: tuple[Factor | None, ...] = ()
    """In a short window and in a long one."""
    prefill: tuple[Factor | None, ...] = ()
    doing: Doing | None = None


class _Usual:
    """The usual means of one lane."""

    __slots__ = (
        "answered",
        "cached_tokens",
        "events",
        "output_tokens",
        "outputs",
        "prompt_tokens",
        "prompts",
        "reads",
    )

    def __init__(self) -> None:
        self.prompts = self.prompt_tokens = 0.0
        self.outputs = self.output_tokens = 0.0
        self.answered = self.cached_tokens = 0.0
        self.reads = self.events = 0.0

    def learn(self, grown: LaneCounts) -> None:
        for name in self.__slots__:
            setattr(self, name, LANE_FADES * getattr(self, name))
        self.prompts += grown.measured
        self.prompt_tokens += grown.received_tokens
        self.outputs += grown.outputs
        self.output_tokens += grown.output_tokens
        self.answered += grown.answered
        self.cached_tokens += grown.cached_tokens
        self.reads += grown.reads
        self.events += grown.events


class Pod:
    """What one process knows about its engine and its traffic, for the roots of misses."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Usual] = {}
        self._last: Reading | None = None
        self._load = Comparison()
        self._mix = Comparison()
        self._uncached = Comparison()
        self._outputs = Comparison()
        self._reported = Comparison()
        self._together = Comparison()
        self._readings: deque[Reading] = deque(maxlen=round(RECENT_SECONDS / SLICE_SECONDS) + 1)
        self._faults: deque[Fault] = deque(maxlen=KEPT_FAULTS)
        self._waited: deque[tuple[float, Blame]] = deque(maxlen=512)

    # --- what happens ---------------------------------------------------------------------------------------------------

    def waited(self, at: float, phase: Blame) -> None:
        """The ledger of a TTFT or E2E miss was closed: it waited in this phase."""
        self._waited.append((at, phase))

    def read(self, now: Reading, costs: Costs, *, calm: bool) -> None:
        """A slice has ended. `calm`: no objective burns."""
        last, self._last = self._last, now
        self._readings.append(now)
        if last is None:
            return
        self._note_faults(last, now, costs)
        seconds = now.at - last.at
        work = mix = usual_tokens = uncached = usual_uncached = outputs = usual_outputs = 0.0
        events = usual_events = 0.0
        prompts = sum(each.prompt_tokens for each in self._lanes.values())
        asked = sum(each.prompts for each in self._lanes.values())
        answers = sum(each.outputs for each in self._lanes.values())
        answered = sum(each.output_tokens for each in self._lanes.values())
        for lane, counts in now.lanes.items():
            grown = _growth(last.lanes.get(lane, LaneCounts()), counts)
            usual = self._lanes.setdefault(lane, _Usual())
            share = 1.0
            if usual.prompts >= FEWEST_OF_LANE:
                length = usual.prompt_tokens / usual.prompts
                mix += grown.received_tokens
                usual_tokens += grown.measured * length
                if usual.outputs >= FEWEST_OF_LANE and prompts > 0 and answered > 0:
                    share = 0.5 * length * asked / prompts
                    share += 0.5 * (usual.output_tokens / usual.outputs) * answers / answered
            work += grown.arrivals * share
            if usual.outputs >= FEWEST_OF_LANE:
                outputs += grown.output_tokens
                usual_outputs += grown.outputs * usual.output_tokens / usual.outputs
            if usual.answered >= FEWEST_OF_LANE:
                # Longer prompts with the same cached beginning are no loss of the cache.
                cached = grown.answered * usual.cached_tokens / usual.answered
                uncached += grown.prompt_tokens - grown.cached_tokens
                usual_uncached += max(grown.prompt_tokens - cached, 0.0)
            if usual.reads >= FEWEST_OF_LANE:
                events += grown.events
                usual_events += grown.reads * usual.events / usual.reads
            if calm:
                usual.learn(grown)
        self._load.add(now.at, work, seconds, calm=calm)
        self._mix.add(now.at, mix, usual_tokens, calm=calm)
        self._uncached.add(now.at, uncached, usual_uncached, calm=calm)
        self._outputs.add(now.at, outputs, usual_outputs, calm=calm)
        own, expected = now.own_seconds - last.own_seconds, now.expected_seconds - last.expected_seconds
        self._reported.add(now.at, own, expected, calm=calm)
        self._together.add(now.at, events, usual_events, calm=calm)

    def _note_faults(self, last: Reading, now: Reading, costs: Costs) -> None:
        if now.engine_up is False and not (self._faults and self._faults[-1] == self._open(Cause.DOWN)):
            self._faults.append(Fault(Cause.DOWN, last.at))
        elif now.engine_up:
            self._end(Cause.DOWN, now.at)
            if last.engine_up is False:
                self._faults.append(Fault(Cause.RESTART, last.at, now.at + COLD_SECONDS))
        if now.restarts > last.restarts:
            self._faults.append(Fault(Cause.RESTART, last.at, now.at + COLD_SECONDS))
        if now.stalled_seconds > last.stalled_seconds:
            if self._open(Cause.SILENCE) is None:
                self._faults.append(Fault(Cause.SILENCE, now.at - max(now.silent_seconds, SLICE_SECONDS)))
        elif now.silent_seconds < SLICE_SECONDS:
            self._end(Cause.SILENCE, now.at)
        if any(each is not None and chance(each, DEARER) > 0.5 for each in (*costs.decode, *costs.prefill)):
            self._faults = deque(
                (
                    replace(each, ended_at=max(each.ended_at, now.at + STILL_COLD_SECONDS))
                    if each.cause is Cause.RESTART and now.at <= each.ended_at
                    else each
                    for each in self._faults
                ),
                maxlen=KEPT_FAULTS,
            )

    def _open(self, cause: Cause) -> Fault | None:
        return next((each for each in self._faults if each.cause is cause and each.ended_at == inf), None)

    def _end(self, cause: Cause, at: float) -> None:
        opened = self._open(cause)
        if opened is not None:
            self._faults[self._faults.index(opened)] = replace(opened, ended_at=at)

    # --- what it shows --------------------------------------------------------------------------------------------------

    def signs(self, at: float, costs: Costs) -> Signs:
        """All signs at this instant."""
        soon = at - SOON_SECONDS
        decode = clearest(costs.decode, DEARER)
        found = {
            Cause.LOAD: self._now(self._load, at, Cause.LOAD),
            Cause.PROMPT_MIX: self._now(self._mix, at, Cause.PROMPT_MIX),
            Cause.UNCACHED: self._now(self._uncached, at, Cause.UNCACHED),
            Cause.LONGER_OUTPUTS: self._now(self._outputs, at, Cause.LONGER_OUTPUTS),
            Cause.DECODE_COST: decode,
            Cause.PREFILL_COST: self._prefill(at, decode, clearest(costs.prefill, DEARER)),
        }
        now = self._last
        reports = bool(self._readings) and self._reports()
        return Signs(
            at=at,
            grown={cause: factor for cause, factor in found.items() if factor is not None},
            together=self._together.since(soon) or self._together.since(at - RECENT_SECONDS),
            faults=tuple(each for each in self._faults if each.ended_at > at - 10 * RECENT_SECONDS),
            late_ratio=self._late(),
            kv_full=self._kv_full(soon),
            preempts=self._preempts(at - RECENT_SECONDS),
            front_end=not reports
            and (self._outside(soon) or (_in_front(costs.doing) and not self._waits_inside(soon))),
            computes_ratio=None if costs.doing is None else costs.doing.computes,
            waited=self._shares(at),
            engine_waiting=None if now is None else now.engine_waiting,
            young=self._load.young,
        )

    def _now(self, comparison: Comparison, at: float, cause: Cause) -> Factor | None:
        """The present ratio, over the window in which it is clearer: what has just changed is clear in the short one."""
        return clearest(
            [comparison.since(at - seconds) for seconds in (SOON_SECONDS, RECENT_SECONDS)], WORTH_NAMING[cause]
        )

    def _prefill(self, at: float, decode: Factor | None, stepwise: Factor | None) -> Factor | None:
        """Reported prefills hold the decodes of the steps that they share: where these are dearer, the steps decide."""
        measured = self._now(self._reported, at, Cause.PREFILL_COST)
        dearer = decode is not None and chance(decode, DEARER) > 0.5
        if measured is None or (stepwise is not None and (dearer or not self._reports())):
            return stepwise
        if dearer and decode is not None:
            value = decode.value
            measured = Factor(measured.value / value, measured.low / value, measured.high / value)
        if self._reports():
            return measured
        return Factor(measured.value, measured.low / IDLE_SPREAD, measured.high * IDLE_SPREAD)

    def _reports(self) -> bool:
        """Whether the engine reported the phases of most answers of the last minute."""
        first, last = self._readings[0], self._readings[-1]
        return last.reported - first.reported > last.unreported - first.unreported

    def _recent(self, since: float) -> list[Reading]:
        return [each for each in self._readings if each.at > since]

    def _late(self) -> float:
        if not self._readings:
            return 0.0
        now = self._readings[-1]
        before = next((each for each in self._readings if each.at >= now.at - LATE_SECONDS), now)
        return (now.late_seconds - before.late_seconds) / (now.at - before.at) if now.at > before.at else 0.0

    def _kv_full(self, since: float) -> bool:
        seen = [(each.kv_usage, each.engine_waiting) for each in self._recent(since)]
        known = [(usage, waiting) for usage, waiting in seen if usage is not None and waiting is not None]
        if not known:
            return False
        usage, waiting = (sum(each) / len(known) for each in zip(*known, strict=True))
        return bool(usage >= KV_FULL_RATIO and waiting >= 1.0)

    def _preempts(self, since: float) -> bool:
        recent = self._recent(since)
        if len(recent) < 2:
            return False
        first, last = recent[0], recent[-1]
        preempted = last.preemptions - first.preemptions
        arrived = sum(each.arrivals for each in last.lanes.values()) - sum(
            each.arrivals for each in first.lanes.values()
        )
        return preempted >= FEWEST_PREEMPTED and preempted >= PREEMPTED * arrived

    def _outside(self, since: float) -> bool:
        """Whether most of the waiting requests are not in the engine, by its own numbers."""
        waiting = outside = 0.0
        known = 0
        for before, each in pairwise(self._recent(since)):
            if each.engine_waiting is None or each.engine_running is None:
                continue
            # The engine's numbers may be some seconds old: those who came since do not count.
            waits = min(before.waiting, each.waiting)
            known += 1
            waiting += waits
            outside += waits - each.engine_waiting - max(0.0, each.engine_running - each.streaming)
        return known >= 2 and waiting >= FEWEST_OUTSIDE * known and outside >= OUTSIDE * waiting

    def _waits_inside(self, since: float) -> bool:
        """Whether the engine itself says that requests wait in its queue."""
        known = [each.engine_waiting for each in self._recent(since) if each.engine_waiting is not None]
        return bool(known) and sum(known) >= len(known)

    def _shares(self, at: float) -> dict[Blame, float]:
        recent = [
            phase for when, phase in self._waited if when > at - RECENT_SECONDS and phase is not Blame.UNATTRIBUTED
        ]
        return {phase: recent.count(phase) / len(recent) for phase in dict.fromkeys(recent)}


def clearest(factors: Sequence[Factor | None], threshold: float) -> Factor | None:
    """The one that is most likely above this threshold; None if none is known."""
    known = [factor for factor in factors if factor is not None]
    return max(known, key=lambda factor: chance(factor, threshold), default=None)


def _in_front(doing: Doing | None) -> bool:
    """Whether requests wait although the engine computes few prompts and could run more sequences."""
    return doing is not None and doing.computes < COMPUTES and doing.full < FULL


def _growth(before: LaneCounts, now: LaneCounts) -> LaneCounts:
    return LaneCounts(*(new - old for new, old in zip(now, before, strict=True)))
