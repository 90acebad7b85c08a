"""The truth of a run, from its requests and never from the product: burn of each lane, phases of waiting, the fault.

It knows the tiers of the alerts and the table of kinds. It refuses to know counters, ledgers and rules: a miss here is
an instant on the wire compared with a threshold.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from bench.incidents.engines import BUCKETS, EngineConfig
from bench.incidents.kinds import Kind, Labels
from bench.incidents.request import Request, Run
from sidecar.slo.objective import Objective, Objectives
from sidecar.timeline.outcome import Outcome


LOOK_EVERY_SECONDS = 15.0
SUSTAINED_SECONDS = 60.0
"""A burn must page if it lasts this long, which is four evaluations."""
FAST_WINDOW_SECONDS = 300.0
LEAST_MISSES = 10
OUTAGE_RATIO = 0.5
FAST_BURN = 10.0
SLOW_BURN = 2.0
SLOW_WINDOW_SECONDS = 1800.0
SLOW_SUSTAINED_SECONDS = 300.0
SHORT_WINDOW_SECONDS = 120.0
NOW_SECONDS = 60.0
QUIET_SECONDS = 60.0
NEARLY = 0.7
"""Above this share of every threshold, below the threshold itself, an alert is neither required nor false."""
KV_FULL = 0.95
KV_FULL_SHARE = 0.10
"""The KV pool ran full if it was full, while requests waited, in this share of the incident's readings."""


class Verdict(NamedTuple):
    """One request and objective: met or missed, and the instant at which that was decided."""

    at: float
    missed: bool


@dataclass(frozen=True, slots=True)
class LaneTruth:
    """The truth of one lane and objective in one run."""

    root: Labels
    proximate: str | None
    """Phase with the largest summed excess over the pair; None if no phase was in excess."""
    must_page: bool
    may_page: bool
    must_ticket: bool
    """It burns too slowly to page, but fast enough for a ticket."""
    may_ticket: bool
    burns_at: float | None
    """Instant at which it first burned fast enough that it must page; None if it never did."""
    misses: int
    requests: int


Key = tuple[str, str]
"""Lane and objective."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The truth of one run."""

    lanes: dict[Key, LaneTruth]
    quiet_at: float
    """Instant from which on the fault's consequences no longer burn: a page that begins later is false."""


def truth_of(engine: EngineConfig, kinds: Sequence[Kind], run: Run, pair: Run) -> Truth:
    """The truth of each lane and objective with a threshold. `kinds`: the kinds of the incident."""
    objectives = engine.objectives()
    told = verdicts(run, objectives)
    waited, usual = _phases(run, objectives), _phases(pair, objectives)
    full = _kv_ran_full(run)
    found, quiet_at = {}, run.recovers_at
    for load in engine.lanes:
        for objective in Objective:
            aim = load.aims.aim(objective)
            key = (load.lane, objective.value)
            if aim is None or key not in told:
                continue
            tiers = _tiers(told[key], aim.allowed_misses, run)
            quiet_at = max(quiet_at, tiers.quiet_at)
            during = [each for each in told[key] if run.fault_at <= each.at]
            found[key] = LaneTruth(
                frozenset[str]().union(*(kind.root(load.lane, objective.value, kv_ran_full=full) for kind in kinds)),
                _most_in_excess(waited.get(key, []), usual.get(key, [])),
                tiers.must_page,
                tiers.may_page,
                tiers.must_ticket and not tiers.may_page,
                tiers.may_ticket,
                tiers.burns_at,
                sum(each.missed for each in during),
                len(during),
            )
    return Truth(found, min(run.ends_at, quiet_at + QUIET_SECONDS))


def verdicts(run: Run, objectives: Objectives) -> dict[Key, list[Verdict]]:
    """Lane and objective to its verdicts, in order of their instants."""
    found: dict[Key, list[Verdict]] = defaultdict(list)
    for request in run.requests:
        aims = objectives.aims(request.lane, BUCKETS.bucket_of(request.prompt_tokens))
        for objective in Objective:
            aim = aims.aim(objective)
            verdict = None if aim is None else _verdict(request, objective, aim.threshold_seconds, run.ends_at)
            if verdict is not None and verdict.at <= run.ends_at:
                found[request.lane, objective.value].append(verdict)
    for each in found.values():
        each.sort()
    return found


def _verdict(request: Request, objective: Objective, threshold: float, ends_at: float) -> Verdict | None:
    if request.streaming == (objective is Objective.E2E):
        return None
    first, ended = request.first_token_at, request.ended_at
    if objective is Objective.TPOT:
        if first is None or ended is None:
            return None
        if request.outcome is not Outcome.OK:
            return Verdict(ended, missed=True) if request.outcome is Outcome.ENGINE_TRUNCATED else None
        if request.output_tokens < 2:
            return None
        return Verdict(ended, (request.reads[-1] - first) / (request.output_tokens - 1) > threshold)
    due = request.received_at + threshold
    done = first if objective is Objective.TTFT else (request.flushed_at if request.outcome is Outcome.OK else None)
    if done is not None and done <= due:
        return Verdict(done, missed=False)
    if ended is not None and ended <= due and done is None:
        return None if request.outcome is Outcome.CLIENT_CANCELLED else Verdict(ended, missed=True)
    return Verdict(due, missed=True) if due <= ends_at else None


# --- how fast ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Tiers:
    must_page: bool = False
    may_page: bool = False
    must_ticket: bool = False
    may_ticket: bool = False
    burns_at: float | None = None
    quiet_at: float = 0.0


class _Windows:
    """Counts misses and their share in any trailing window."""

    def __init__(self, told: Sequence[Verdict]) -> None:
        self._instants = [each.at for each in told]
        self._missed = [0, *accumulate(int(each.missed) for each in told)]

    def at(self, instant: float, seconds: float) -> tuple[int, float]:
        """Number of misses, and their share of the requests (0 without requests)."""
        low, high = bisect_left(self._instants, instant - seconds), bisect_right(self._instants, instant)
        misses = self._missed[high] - self._missed[low]
        return misses, misses / (high - low) if high > low else 0.0


def _tiers(told: Sequence[Verdict], allowed: float, run: Run) -> _Tiers:
    """Tiers of one lane and objective, from trailing windows like those of the rules."""
    windows, tiers = _Windows(told), _Tiers()
    page_ratio = min(OUTAGE_RATIO, FAST_BURN * allowed)
    paging = slow = 0.0
    at = run.fault_at
    while at <= run.ends_at:
        # A window of five minutes still contains misses of a burn that is over: it must page only while it goes on.
        long, now = windows.at(at, FAST_WINDOW_SECONDS), windows.at(at, NOW_SECONDS)
        short = windows.at(at, SHORT_WINDOW_SECONDS)
        fast = any(window[0] >= LEAST_MISSES and window[1] >= page_ratio for window in (long, short))
        pages = fast and now[1] >= page_ratio
        paging = paging + LOOK_EVERY_SECONDS if pages else 0.0
        if paging >= SUSTAINED_SECONDS:
            tiers.must_page = True
            tiers.burns_at = at - SUSTAINED_SECONDS if tiers.burns_at is None else tiers.burns_at
        if any(window[0] >= NEARLY * LEAST_MISSES and window[1] >= NEARLY * page_ratio for window in (long, short)):
            tiers.may_page, tiers.quiet_at = True, at
        misses, ratio = windows.at(at, SLOW_WINDOW_SECONDS)
        burns = misses >= LEAST_MISSES and min(ratio, long[1]) >= SLOW_BURN * allowed
        slow = slow + LOOK_EVERY_SECONDS if burns else 0.0
        tiers.must_ticket = tiers.must_ticket or slow >= SLOW_SUSTAINED_SECONDS
        tiers.may_ticket = tiers.may_ticket or (misses >= NEARLY * LEAST_MISSES and ratio >= NEARLY * allowed)
        at += LOOK_EVERY_SECONDS
    return tiers


# --- phases of waiting ------------------------------------------------------------------------------------------------

Waited = dict[str, float]
_FAILED = (Outcome.ENGINE_ERROR, Outcome.ENGINE_UNREACHABLE, Outcome.ENGINE_TRUNCATED)


def _phases(run: Run, objectives: Objectives) -> dict[Key, list[Waited]]:
    """Lane and objective to the seconds per phase of each request that arrived between fault and recovery."""
    found: dict[Key, list[Waited]] = defaultdict(list)
    for request in run.requests:
        phases = request.phases
        if not run.fault_at <= request.received_at < run.recovers_at:
            continue
        if request.outcome in _FAILED:
            # It never got its answer: the whole threshold counts as time that the engine made it wait.
            objective = ("tpot" if request.reads else "ttft") if request.streaming else "e2e"
            aim = objectives.aims(request.lane, BUCKETS.bucket_of(request.prompt_tokens)).aim(Objective(objective))
            if aim is not None:
                found[request.lane, objective].append({"engine": aim.threshold_seconds})
            continue
        if phases is None:
            continue
        if not request.streaming:
            found[request.lane, "e2e"].append(
                {
                    "queue": phases.queue,
                    "prefill": phases.prefill,
                    "decode": phases.decode,
                    "unattributed": phases.front_end + phases.delivery,
                    "engine": 0.0,
                }
            )
            continue
        first = request.first_token_at
        assert first is not None
        arrived = phases.front_end + phases.queue + phases.prefill + phases.delivery
        found[request.lane, "ttft"].append(
            {
                "queue": phases.queue,
                "prefill": phases.prefill,
                "first_token": phases.front_end + phases.delivery,
                "stream": max(0.0, first - request.received_at - arrived),
                "engine": 0.0,
            }
        )
        if request.outcome is Outcome.OK and request.ended_at is not None and request.output_tokens > 1:
            # Seconds per token, not a sum: a longer answer alone is no excess.
            slower = max(0.0, request.reads[-1] - first - phases.decode)
            gaps = request.output_tokens - 1
            found[request.lane, "tpot"].append({"decode": phases.decode / gaps, "stream": slower / gaps, "engine": 0.0})
    return found


def _most_in_excess(now: Sequence[Waited], usual: Sequence[Waited]) -> str | None:
    """Phase with the largest growth of its sum over the pair's, scaled to as many requests; None without growth."""
    if not now or not usual:
        return None
    excess = {
        phase: sum(each.get(phase, 0.0) for each in now)
        - len(now) * sum(each.get(phase, 0.0) for each in usual) / len(usual)
        for phase in usual[0]
    }
    most = max(excess, key=lambda phase: excess[phase])
    return most if excess[most] > 0 else None


def _kv_ran_full(run: Run) -> bool:
    during = [state for state in run.states if run.fault_at <= state.at < run.recovers_at]
    full = sum(state.kv_usage >= KV_FULL and state.waiting > 0 for state in during)
    return full >= KV_FULL_SHARE * max(1, len(during))
