"""The fault of one engine by the past of its own page: its numbers of the last hours are played through the decision of a sidecar. Pure.

A queue grows behind a load that has grown, and behind a slower engine alike. Which one it is, the present cannot say, and the past can: each
slice of time becomes one reading of a `Pod` (`sidecar/pod/`), which learns what is usual while the engine is calm, and its misses are
decided as those of a sidecar are, by the same signs, reasons and weights. So what a page does not have is a sign that is absent here, and
where too little speaks for a cause the root is `unattributed`.

An engine's page has no lanes, so that a slice is one lane of all requests; a miss is a first token, or a gap, beyond the threshold; and
what stands on the page of a request at its end comes late by its answer. It knows slices. It refuses to know queries (`engine_series.py`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, inf, log, sqrt
from statistics import median

from sidecar.diagnosis.verdict import RootPhase, Verdict, root_cause, root_phase
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.backlog import Backlog
from sidecar.pod.causes import Cause, Root
from sidecar.pod.costs.waits import Doing
from sidecar.pod.decision import Decision
from sidecar.pod.factor import Factor
from sidecar.pod.life import Facts
from sidecar.pod.pod import Costs, Pod
from sidecar.pod.reading import LaneCounts, Reading
from sidecar.pod.signs import Signs
from sidecar.pod.size import RootSize
from sidecar.pod.usual.comparison import RECENT_SECONDS


POD_SECONDS = 15.0
"""A slice counts as so many seconds of the pod's memory, however long it is: four are the minute of a sidecar, which sees each request."""
WINDOW_SLICES = 10
"""Slices of the window of the question."""
PAST_WINDOWS = 24
"""Windows before it from which the usual values are learned, at most: two hours of windows of five minutes."""
SLOWER_FIRST, SLOWER_PACE = 2.0, 1.5
"""So many times the middle of the past, a slice's first tokens or gaps are not calm. Long prompts alone make first tokens scatter."""
MOST_OF_PAST, SCATTERS = 0.75, 1.5
"""Share of the slices of the past that are calm by themselves, and so many times their largest mean a slice must have to be not."""
CALM_AFTER_SLICES = 4
"""A slice teaches once so many after it were calm: two minutes of slices of half a minute, as on a sidecar."""
SMOOTHED = 3
"""Slices of which calm is judged together: a few requests are chance."""
A_TOKEN_SECONDS = 1e-4
"""Unit of what a prompt token costs. Only ratios are looked at."""
SHORTEST_GAP = 1e-4
ONE_BUCKET = 0.8
"""Share of the gaps in one bucket, above which their mean tells more than the bucket."""
_ONE_LANE = ""

Buckets = Mapping[float, float]
"""Upper edge in seconds to the observations up to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The page of one engine over one slice of time. None: the page does not have it."""

    seconds: float
    up: bool = True
    restarts: float = 0.0
    firsts: float = 0.0
    """First tokens."""
    first_seconds: float = 0.0
    first_buckets: Buckets = field(default_factory=dict)
    gaps: float = 0.0
    gap_seconds: float = 0.0
    gap_buckets: Buckets = field(default_factory=dict)
    ended: float = 0.0
    whole_seconds: float = 0.0
    queued: float | None = None
    queue_seconds: float = 0.0
    prefilled: float | None = None
    prefill_seconds: float = 0.0
    decode_seconds: float | None = None
    """A sum over the requests that ended, as those of queue and prefill are."""
    prompt_tokens: float | None = None
    cached_tokens: float = 0.0
    preempted: float = 0.0
    waiting: float | None = None
    waiting_after: float | None = None
    """At its end."""
    running: float | None = None
    kv_usage: float | None = None

    least_tokens: float | None = None
    """The fewest gaps between two scrapes."""
    least_running: float | None = None
    """At one of its scrapes."""

    @property
    def is_silent(self) -> bool:
        """Whether no token came from one scrape to the next although requests ran."""
        return self.up and self.least_tokens == 0.0 and (self.least_running or 0.0) >= 1.0


def below(edge: float, buckets: Buckets) -> float:
    """Observations up to this edge: those of a bucket that holds it are taken to lie evenly."""
    low, count = 0.0, 0.0
    for high, up_to in sorted(buckets.items()):
        if high >= edge:
            return up_to if high in (edge, inf) else count + (up_to - count) * (edge - low) / (high - low)
        low, count = high, up_to
    return count


@dataclass(frozen=True, slots=True)
class Found:
    """The fault, as far as the page tells."""

    verdicts: Mapping[Objective, Verdict]
    ratios: Mapping[Cause, float]
    """Cause to its number over the usual one, at the end, of the engine with most misses."""
    young: bool
    """No engine has a past from which the usual could be learned."""


def found(engines: Sequence[Sequence[Slice]], thresholds: Mapping[Objective, float]) -> Found:
    """The fault in the last `WINDOW_SLICES` slices of all engines of one job, each decided alone, as those of sidecars are."""
    played = [_Replay(slices, thresholds) for slices in engines if slices]
    for each in played:
        each.play()
    worst = max(played, key=lambda each: sum(each.missed.values()), default=None)
    verdict = _verdict(played)
    return Found(
        {} if verdict is None else dict.fromkeys(thresholds, verdict),
        {} if worst is None else {cause: factor.value for cause, factor in worst.decision.signs.grown.items()},
        all(each.decision.signs.young for each in played),
    )


def _verdict(played: Sequence["_Replay"]) -> Verdict | None:
    """The fault, of all engines and both latencies: each counts by the share of its first tokens, or gaps, that missed more than usually."""
    roots: defaultdict[Root, float] = defaultdict(float)
    for each in played:
        for objective, of in each.roots.items():
            for root, weight in of.items():
                roots[root] += weight / each.judged[objective]
    phases: dict[RootPhase, float] = {}
    leading: dict[RootPhase, Root] = {}
    for root, weight in roots.items():
        phase = root_phase(root.phase)
        phases[phase] = phases.get(phase, 0.0) + weight
        if phase not in leading or weight > roots[leading[phase]]:
            leading[phase] = root
    if not phases:
        return None
    # As many as missed, so that few are told as few.
    scale = sum(sum(each.missed.values()) for each in played) / sum(phases.values())
    return Verdict(
        roots={phase: scale * weight for phase, weight in phases.items()},
        causes={phase: root_cause(root.cause) for phase, root in leading.items()},
        sizes=_sizes(played),
    )


def _sizes(played: Sequence["_Replay"]) -> dict[Cause, RootSize]:
    found: dict[Cause, RootSize] = {}
    for each in played:
        root, size = each.decision.incident.root, each.decision.incident.size
        if root is not None and size is not None:
            cause = Cause(root.cause)
            if cause not in found or size.ratio.value > found[cause].ratio.value:
                found[cause] = size
    return found


class _Replay:
    """The slices of one engine, played through the decision of a sidecar."""

    def __init__(self, slices: Sequence[Slice], thresholds: Mapping[Objective, float]) -> None:
        self._slices = slices
        self._thresholds = thresholds
        self._calm = calm(slices)
        self._pod = Pod()
        self._pod.teach_after(CALM_AFTER_SLICES * POD_SECONDS)
        self._backlog = Backlog()
        self._counts = LaneCounts()
        self._last = Reading(0.0)
        self._means = _Means()
        self._steps = _Steps()
        self.decision = Decision()
        self.roots: dict[Objective, defaultdict[Root, float]] = {each: defaultdict(float) for each in thresholds}
        self.missed = dict.fromkeys(thresholds, 0.0)
        """More than usually."""
        self.judged = dict.fromkeys(thresholds, 0.0)
        self._usual = {objective: [0.0, 0.0] for objective in thresholds}
        """Misses and all, of calm slices."""

    def play(self) -> None:
        """Play all of them; the misses of the last `WINDOW_SLICES` are kept."""
        self._pod.read(self._last, Costs(), calm=True)
        for number, one in enumerate(self._slices):
            at, is_calm = POD_SECONDS * (number + 1), self._calm[number]
            before = self._slices[number - 1] if number else one
            self._last = self._reading(at, one, before)
            costs = self._costs(one)
            self._pod.read(self._last, self._cold_costs(costs), calm=is_calm)
            self._steps.add(one, calm=is_calm)
            self._backlog.tick(at, round(one.waiting or 0.0), calm=is_calm)
            self._means.add(one, calm=is_calm)
            self.decision.see(at, self._signs(at, costs))
            self._decide(at, one, kept=number >= len(self._slices) - WINDOW_SLICES, is_calm=is_calm)

    def _signs(self, at: float, costs: Costs) -> Signs:
        queued_since = self._backlog.stood_since(at - RECENT_SECONDS)
        return self._pod.signs(at, costs, queued_since=queued_since, engine_waiting=self._last.engine_waiting)

    def _costs(self, one: Slice) -> Costs:
        decode = self._steps.cost(one)
        share = _prompt_share(one)
        return Costs(
            decode=() if decode is None else (decode,),
            doing=None if share is None or not one.waiting else Doing(share, None),
        )

    def _cold_costs(self, costs: Costs) -> Costs:
        """The costs of the engine's work, for how long a new process is cold: the cost of prompts is that of the slice before."""
        prefill = self.decision.signs.grown.get(Cause.PREFILL_COST)
        return costs if prefill is None else costs._replace(prefill=(prefill,))

    def _decide(self, at: float, one: Slice, *, kept: bool, is_calm: bool) -> None:
        for objective in self._thresholds:
            misses, judged = self._more_misses(one, objective, is_calm=is_calm)
            self.judged[objective] += judged if kept else 0.0
            if misses < 1.0:
                continue
            self.decision.missed(at)
            self.decision.tick(at, burning=not is_calm)
            facts = self._facts(at, one, tpot=objective is Objective.TPOT)
            decided = self.decision.decided(facts, at, times=round(misses))
            # While nothing usual is known, a lead is a guess that would only confirm itself.
            weights = decided.own if self.decision.signs.young else decided.weights
            if kept:
                self.missed[objective] += misses
                for root, weight in weights.items():
                    self.roots[objective][root] += misses * weight
        self.decision.tick(at, burning=not is_calm)

    def _more_misses(self, one: Slice, objective: Objective, *, is_calm: bool) -> tuple[float, float]:
        """Misses of the slice beyond the usual share, and all that were judged."""
        misses, judged = self._misses(one, objective)
        usual = self._usual[objective]
        if is_calm:
            usual[0] += misses
            usual[1] += judged
        return max(0.0, misses - judged * (usual[0] / usual[1] if usual[1] else 0.0)), judged

    def _misses(self, one: Slice, objective: Objective) -> tuple[float, float]:
        limit = self._thresholds[objective]
        if objective is Objective.TPOT:
            return (one.gaps - below(limit, one.gap_buckets), one.gaps) if one.gap_buckets else (0.0, 0.0)
        if not one.up:
            return self._means.firsts, self._means.firsts
        if one.is_silent and not one.firsts:
            return (one.waiting or 0.0), (one.waiting or 0.0)
        return (one.firsts - below(limit, one.first_buckets), one.firsts) if one.first_buckets else (0.0, 0.0)

    def _facts(self, at: float, one: Slice, *, tpot: bool) -> Facts:
        lived = 0.0 if tpot or not one.firsts else one.first_seconds / one.firsts
        received_at = at - POD_SECONDS - lived * POD_SECONDS / one.seconds
        since = self._backlog.since(received_at)
        faults = self.decision.signs.faults
        facts = Facts(
            waited_in=Blame.DECODE if tpot else self._means.waited_in,
            fault=next((each.cause for each in faults if each.overlaps(since, at)), None),
            tpot=tpot,
        )
        return facts if tpot else self.decision.facts(facts, self._backlog.began(received_at), at)

    def _reading(self, at: float, one: Slice, before: Slice) -> Reading:
        last = self._last
        self._counts = LaneCounts(*(old + new for old, new in zip(self._counts, _counts(one, before), strict=True)))
        own, expected, reports = _prefills(one, self._means)
        stood = one.is_silent
        waits = 0.0 if not one.firsts else one.first_seconds / one.seconds
        return Reading(
            at=at,
            lanes={_ONE_LANE: self._counts},
            reported=last.reported + (one.firsts if reports else 0.0),
            unreported=last.unreported + (0.0 if reports else one.firsts),
            own_seconds=last.own_seconds + own,
            expected_seconds=last.expected_seconds + expected,
            preemptions=last.preemptions + one.preempted,
            restarts=last.restarts + one.restarts,
            stalled_seconds=last.stalled_seconds + (POD_SECONDS if stood else 0.0),
            silent_seconds=POD_SECONDS if stood else 0.0,
            engine_up=one.up,
            kv_usage=one.kv_usage,
            engine_waiting=one.waiting,
            engine_running=one.running,
            waiting=waits,
            streaming=one.gap_seconds / one.seconds,
        )


class _Means:
    """The parts of the time to first token, of now and usually."""

    _FADES = 0.6
    """Weight of a slice once one more has ended: the last two hold most of it."""

    def __init__(self) -> None:
        self.firsts = 0.0
        """First tokens of a usual slice."""
        self._calm = 0
        self._usual: defaultdict[Blame, float] = defaultdict(float)
        self._now: defaultdict[Blame, float] = defaultdict(float)
        self._prompts = self._uncached = 0.0

    def add(self, one: Slice, *, calm: bool) -> None:
        told = _parts(one)
        for phase in self._now:
            self._now[phase] *= self._FADES
        for phase, seconds in told.items():
            self._now[phase] += seconds
        if calm:
            self._calm += 1
            self.firsts += (one.firsts - self.firsts) / self._calm
            for phase, seconds in told.items():
                self._usual[phase] += seconds

    def uncached_of(self, one: Slice) -> float | None:
        """Prompt tokens of a request that were not cached, of the last slices; None if unknown."""
        if one.prompt_tokens is None:
            return None
        self._prompts = self._FADES * self._prompts + one.firsts
        self._uncached = self._FADES * self._uncached + max(0.0, one.prompt_tokens - one.cached_tokens)
        return self._uncached / self._prompts if self._prompts else None

    @property
    def waited_in(self) -> Blame | None:
        """Queue or front end, if most of what first tokens take more than usually is there; None: nowhere, or it is not told.

        That prompts take longer in the mean shows in their cost: it says nothing of the prompt of one miss.
        """
        now, usual = self._now[_ENDED], self._usual[_ENDED]
        if now <= 0.0 or usual <= 0.0:
            return None
        excess = {phase: max(0.0, self._now[phase] / now - self._usual[phase] / usual) for phase in _OF_FIRST}
        whole, added = sum(self._usual[phase] for phase in _OF_FIRST) / usual, sum(excess.values())
        worst = max(_OF_FIRST, key=excess.__getitem__)
        return worst if worst is not Blame.PREFILL and excess[worst] > 0.5 * added > 0.25 * whole else None


_OF_FIRST = (Blame.QUEUE, Blame.PREFILL, Blame.FIRST_TOKEN)


class _Steps:
    """The cost of a step of decodes, by the gaps between tokens: a line over the running requests, learned from calm slices.

    A gap is a step, and in the share of the time in which prompts are computed it is theirs. What is left is a step without prompts, which
    grows with the batch. An engine that is slow fills its batch by that: only a gap above the line of its batch is a dearer step.
    """

    _FEWEST = 12
    _FARTHEST = 1.5
    """So many times the largest learned batch, the line is taken to go on."""

    def __init__(self) -> None:
        self._learned: list[tuple[float, ...]] = []

    def add(self, one: Slice, *, calm: bool) -> None:
        step = self._step(one)
        if calm and step is not None:
            self._learned.append(step)

    def cost(self, one: Slice) -> Factor | None:
        """The cost of a step over that of a usual one with as many requests; None if it is not known."""
        step = self._step(one)
        if step is None or len(self._learned) < self._FEWEST:
            return None
        running, *gaps = step
        found = [
            self._ratio(running, gap, [(each[0], each[number + 1]) for each in self._learned])
            for number, gap in enumerate(gaps)
        ]
        return min(found, key=lambda factor: factor.value)

    def _ratio(self, running: float, gap: float, learned: Sequence[tuple[float, float]]) -> Factor:
        base, slope = _line(learned)
        most = max(batch for batch, _ in learned)
        expected = base + slope * running
        errors = sorted(abs(log(each / (base + slope * batch))) for batch, each in learned)
        error = log(1.1) + errors[int(0.9 * (len(errors) - 1))]
        # Beyond all batches that were learned, a step may grow as its batch does.
        farther = max(1.0, running / (self._FARTHEST * most))
        return Factor(
            gap / expected / sqrt(farther), gap / expected / farther * exp(-error), gap / expected * exp(error)
        )

    @staticmethod
    def _step(one: Slice) -> tuple[float, ...] | None:
        """Running requests, and the time of a step without prompts: by the mean gap and by the typical one, with the least and with the most
        time that prompts may have taken: they may be computed together, or after each other.
        """
        own = _own_seconds(one)
        if not one.gaps or not one.running or own is None:
            return None
        together, apart = _alone(own, one) / one.seconds, min(_MOST_SHARE, own / one.seconds)
        gaps = one.gap_seconds / one.gaps, SHORTEST_GAP * exp(_logs(one) / one.gaps)
        return (one.running, *(max(SHORTEST_GAP, (1.0 - share) * gap) for share in (together, apart) for gap in gaps))


_MOST_SHARE = 0.95


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The least squares line through these points, with neither part below 0: its base and its slope."""
    across, up = (sum(each) / len(points) for each in zip(*points, strict=True))
    spread = sum((x - across) ** 2 for x, _ in points)
    slope = sum((x - across) * (y - up) for x, y in points) / spread if spread > 0.0 else 0.0
    slope = min(max(0.0, slope), up / across)
    return up - slope * across, slope


_ENDED = Blame.UNATTRIBUTED
"""Key of the number of requests beside the sums of their parts."""


def _parts(one: Slice) -> dict[Blame, float]:
    """Sums of the parts of the time to first token of the requests that ended; empty if the page does not have all of them."""
    if one.queued is None or one.prefilled is None or one.decode_seconds is None:
        return {}
    front_end = max(0.0, one.whole_seconds - one.queue_seconds - one.prefill_seconds - one.decode_seconds)
    return {
        Blame.QUEUE: one.queue_seconds,
        Blame.PREFILL: one.prefill_seconds,
        Blame.FIRST_TOKEN: front_end,
        _ENDED: one.ended,
    }


def _prefills(one: Slice, means: _Means) -> tuple[float, float, bool]:
    """Seconds of the prefills of the slice, the same at a constant cost, and whether the engine states them.

    Prompts that are computed at once each count their time whole. On average so many others are computed beside one as the page has prefill
    seconds a second, and that many times its own tokens: so much of its time is theirs. Without a time of the prefill, it is what first
    tokens took beside the queue.
    """
    uncached, own = means.uncached_of(one), _own_seconds(one)
    if uncached is None or own is None:
        return 0.0, 0.0, False
    reports = one.prefilled is not None
    count = one.prefilled if one.prefilled is not None else one.firsts
    return _alone(own, one), count * uncached * A_TOKEN_SECONDS, reports


def _own_seconds(one: Slice) -> float | None:
    """Seconds of the prefills of the slice, together; None if the page has neither them nor the queue."""
    if one.prefilled is not None:
        return one.prefill_seconds
    return max(0.0, one.first_seconds - one.firsts * one.queue_seconds / one.queued) if one.queued else None


def _alone(seconds: float, one: Slice) -> float:
    """Seconds that these prefills would take if each had the engine for itself."""
    return seconds / (1.0 + seconds / one.seconds)


def _prompt_share(one: Slice) -> float | None:
    """The share of the slice in which prompts were computed, 0 to 1, if they come independently of each other."""
    own = _own_seconds(one)
    return None if own is None else 1.0 - exp(-own / one.seconds)


def _counts(one: Slice, before: Slice) -> LaneCounts:
    """The traffic of the slice. Those who came are those who got a first token and those who wait more than before."""
    more = (one.waiting_after or 0.0) - (before.waiting_after or 0.0)
    tokens = one.prompt_tokens or 0.0
    prompts = one.firsts if one.prompt_tokens is not None else 0.0
    return LaneCounts(
        arrivals=max(0.0, one.firsts + more),
        measured=prompts,
        received_tokens=tokens,
        answered=prompts,
        prompt_tokens=tokens,
        cached_tokens=one.cached_tokens,
        events=one.firsts + one.gaps,
        gaps=one.gaps,
        gap_seconds=one.gap_seconds,
        gap_logs=_logs(one),
        streams=one.ended,
    )


def _logs(one: Slice) -> float:
    """Sum of the logarithms of the gaps, each as the middle of its bucket: few long gaps hardly change it."""
    buckets = [(low, high, count) for low, high, count in between_edges(one.gap_buckets) if count > 0.0]
    counted = sum(count for *_, count in buckets)
    if not counted:
        return 0.0
    logs = sum(
        count * log(max(SHORTEST_GAP, _middle_of(low, high, buckets, one)) / SHORTEST_GAP)
        for low, high, count in buckets
    )
    return one.gaps * logs / counted


def between_edges(buckets: Buckets) -> list[tuple[float, float, float]]:
    """Lower edge, upper edge and observations of each bucket."""
    edges = sorted(buckets)
    counts = [buckets[edge] for edge in edges]
    return [
        (low, high, max(0.0, count - before))
        for low, high, before, count in zip([0.0, *edges], edges, [0.0, *counts], counts, strict=False)
    ]


def _middle_of(low: float, high: float, buckets: Sequence[tuple[float, float, float]], one: Slice) -> float:
    """The middle of a bucket or, of one that holds nearly all gaps, their mean, as far as the sum of all gaps tells it."""
    own = sum(count for below, _, count in buckets if below == low)
    if own >= ONE_BUCKET * one.gaps:
        others = [each for each in buckets if each[0] != low]
        least = max(low, (one.gap_seconds - sum(above * count for _, above, count in others)) / own)
        most = min(high, (one.gap_seconds - sum(below * count for below, _, count in others)) / own)
        if low <= least <= most < inf:
            return (least + most) / 2
    return low if high == inf else high / 2 if not low else sqrt(low * high)


def calm(slices: Sequence[Slice]) -> list[bool]:
    """Whether each slice was calm: up, and about as fast as the middle of those before the window. Without such, none is: nothing is usual."""
    past = slices[:-WINDOW_SLICES]
    firsts, gaps = (
        _limit(past, "firsts", "first_seconds", SLOWER_FIRST),
        _limit(past, "gaps", "gap_seconds", SLOWER_PACE),
    )
    told: list[bool] = []
    for number, one in enumerate(slices):
        last = slices[max(0, number + 1 - SMOOTHED) : number + 1]
        slow = _mean(last, "firsts", "first_seconds") > firsts or _mean(last, "gaps", "gap_seconds") > gaps
        told.append(bool(past) and one.up and not one.is_silent and not one.restarts and not slow)
    return told


def _mean(slices: Sequence[Slice], number: str, total: str) -> float:
    count = sum(getattr(one, number) for one in slices)
    return float(sum(getattr(one, total) for one in slices) / count) if count else 0.0


def _limit(past: Sequence[Slice], number: str, total: str, slower: float) -> float:
    """The mean up to which slices are calm: so many times the middle of the past, and no less than most of it where that scatters."""
    means = sorted(getattr(one, total) / getattr(one, number) for one in past if getattr(one, number) > 0.0)
    return max(slower * median(means), SCATTERS * means[int(MOST_OF_PAST * (len(means) - 1))]) if means else inf
