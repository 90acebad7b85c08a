"""The signs of one pod, from readings of its own counters every few seconds. Pure.

It knows cumulative counts (`Reading`), and the costs that the step model found. `lanes.py` compares the traffic with the
usual one, and `faults.py` remembers faults of the engine. It refuses to know requests, and to learn while an objective
burns.
"""

from collections import deque
from typing import NamedTuple

from sidecar.slo.attribution import Blame
from sidecar.slo.causes import Cause
from sidecar.slo.factor import Factor
from sidecar.slo.root.comparison import Comparison
from sidecar.slo.root.faults import Faults
from sidecar.slo.root.lanes import Lanes
from sidecar.slo.root.reading import READING_SECONDS, Reading
from sidecar.slo.root.signs import Signs
from sidecar.slo.root.weigh import DEARER, chance


RECENT_SECONDS = 60.0
LEAST_RECENT_SECONDS = 20.0
"""Slices that are compared: those of the last minute, but of an incident only those since it began."""
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
COMPUTES_LITTLE, LITTLE_FULL = 0.4, 0.5
"""Below these shares of the time in which requests wait, they wait for neither compute nor a slot."""


class Costs(NamedTuple):
    """The step model's view of now; None: it cannot answer."""

    decode: Factor | None = None
    prefill: Factor | None = None
    computes_ratio: float | None = None
    """Share of the time in which requests waited that the engine spent in steps with prompts in them."""
    full_ratio: float | None = None
    """Share of that time in which as many sequences ran, or as many tokens were in contexts, as ever in it."""


class Pod:
    """The signs of one process's engine and of its traffic."""

    def __init__(self) -> None:
        self._lanes = Lanes()
        self._last: Reading | None = None
        self._load = Comparison()
        self._mix = Comparison()
        self._uncached = Comparison()
        self._outputs = Comparison()
        self._reported = Comparison()
        self._together = Comparison()
        self._readings: deque[Reading] = deque(maxlen=round(RECENT_SECONDS / READING_SECONDS) + 1)
        self._faults = Faults()
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
        self._faults.note(last, now, dearer=any(_dearer(each) for each in (costs.decode, costs.prefill)))
        self._compare(last, now, calm=calm)

    def _compare(self, last: Reading, now: Reading, *, calm: bool) -> None:
        brought = self._lanes.compare(last.lanes, now.lanes, learn=calm)
        for comparison, value, expected in (
            (self._load, brought.work, now.at - last.at),
            (self._mix, brought.prompt_tokens, brought.usual_prompt_tokens),
            (self._uncached, brought.uncached_tokens, brought.usual_uncached_tokens),
            (self._outputs, brought.output_tokens, brought.usual_output_tokens),
            (self._reported, now.own_seconds - last.own_seconds, now.expected_seconds - last.expected_seconds),
            (self._together, brought.events, brought.usual_events),
        ):
            comparison.add(now.at, value, expected, calm=calm)

    # --- what it shows --------------------------------------------------------------------------------------------------

    def signs(self, at: float, began_at: float | None, costs: Costs) -> Signs:
        """All signs at this instant. `began_at`: of the open incident; None if there is none."""
        since = recent_from(at, began_at)
        found = {
            Cause.LOAD: self._load.since(since),
            Cause.PROMPT_MIX: self._mix.since(since),
            Cause.UNCACHED: self._uncached.since(since),
            Cause.LONGER_OUTPUTS: self._outputs.since(since),
            Cause.DECODE_COST: costs.decode,
            Cause.PREFILL_COST: self._prefill(since, costs),
        }
        now = self._last
        return Signs(
            at=at,
            grown={cause: factor for cause, factor in found.items() if factor is not None},
            together=self._together.since(since),
            faults=self._faults.since(at - 10 * RECENT_SECONDS),
            late_ratio=self._late(),
            kv_full=self._kv_full(since),
            preempts=self._preempts(since),
            front_end=self._outside(since) or (_in_front(costs) and not self._waits_inside(since)),
            computes_ratio=costs.computes_ratio,
            waited=self._shares(at),
            engine_waiting=None if now is None else now.engine_waiting,
            young=self._load.young,
        )

    def _prefill(self, since: float, costs: Costs) -> Factor | None:
        """Reported prefills hold the decodes of the steps that they share: where these are dearer, the steps decide."""
        measured = self._reported.since(since)
        dearer = _dearer(costs.decode)
        if measured is None or (costs.prefill is not None and (dearer or not self._reports())):
            return costs.prefill
        if dearer and costs.decode is not None:
            value = costs.decode.value
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
        for each in self._recent(since):
            if each.engine_waiting is None or each.engine_running is None:
                continue
            known += 1
            waiting += each.waiting
            outside += each.waiting - each.engine_waiting - max(0.0, each.engine_running - each.streaming)
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


def recent_from(at: float, began_at: float | None) -> float:
    """The instant from which on slices and steps speak for now; `began_at`: of the open incident, None without one."""
    since = at - RECENT_SECONDS
    return since if began_at is None else min(max(since, began_at - READING_SECONDS), at - LEAST_RECENT_SECONDS)


def _in_front(costs: Costs) -> bool:
    """Whether requests wait although the engine computes few prompts and could run more sequences."""
    if costs.computes_ratio is None or costs.full_ratio is None:
        return False
    return costs.computes_ratio < COMPUTES_LITTLE and costs.full_ratio < LITTLE_FULL


def _dearer(cost: Factor | None) -> bool:
    return cost is not None and chance(cost, DEARER) > 0.5
