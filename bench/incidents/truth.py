"""The truth of a run, from its requests and never from the product: burn of each lane, phases of waiting, the fault.

It knows the table of kinds. It refuses to know counters, ledgers and rules: a miss here is an instant on the wire
compared with a threshold. `burn.py` knows how fast misses must follow each other for a page.

Each lane and objective belongs to one of four classes. It *must page* by the windows of `burn.Tiers`, over all its pods
or, if only some of the pods are at fault, over one of these alone. It *burns* without being owed a page if, for a
minute, it had at least ten misses and 70 % of the share that must page: a page is welcome, and its absence counts as
missed in S1 and S2, but not in the lenient grade. It *may page* if it came near that for a shorter time: a page is then
neither owed nor false. In all other lanes a page is false.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.incidents.burn import SPARSE_PER_MINUTE, Tiers, Verdict, tiers_of
from bench.incidents.engines import BUCKETS, EngineConfig
from bench.incidents.kinds import Kind, Labels
from bench.incidents.request import Request, Run, State
from sidecar.objectives.objective import Objective, Objectives
from sidecar.timeline.outcome import Outcome


QUIET_SECONDS = 60.0
KV_FULL = 0.95
KV_FULL_SHARE = 0.10
"""The KV pool ran full if it was full, while requests waited, in this share of the incident's readings of one pod."""


@dataclass(frozen=True, slots=True)
class LaneTruth:
    """The truth of one lane and objective in one run."""

    root: Labels
    """Right by the lenient grade."""
    strict: Labels
    """Right by S1."""
    phases: Labels
    """Right by S2: the phases of the injected causes, the same for every objective."""
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
    burns: bool = False
    """It burned for a minute (see the head of this file), whether it must page or not."""
    bad_pods: tuple[int, ...] = ()
    """Pods at fault that must page by themselves, of a fleet with others that are not at fault."""


Key = tuple[str, str]
"""Lane and objective."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The truth of one run."""

    lanes: dict[Key, LaneTruth]
    quiet_at: float
    """Instant from which on the fault's consequences no longer burn: a page that begins later is false."""
    heals_at: float
    """Instant at which the fault ends; the queue that it left behind may still have to drain."""
    pods: int = 1
    at_fault: tuple[int, ...] = (0,)


def truth_of(engine: EngineConfig, kinds: Sequence[Kind], run: Run, pair: Run) -> Truth:
    """The truth of each lane and objective with a threshold. `kinds`: the kinds of the incident."""
    objectives = engine.objectives()
    told = verdicts(run, objectives)
    waited, usual = _phases(run, objectives), _phases(pair, objectives)
    full = _kv_ran_full(run)
    phases = frozenset[str]().union(*(kind.phases for kind in kinds))
    found, quiet_at = {}, run.recovers_at
    for load in engine.lanes:
        for objective in Objective:
            aim = load.aims.aim(objective)
            key = (load.lane, objective.value)
            if aim is None or key not in told:
                continue
            tiers, bad_pods = _tiers(told[key], aim.allowed_misses, run, sparse=_is_sparse(told[key], run.fault_at))
            quiet_at = max(quiet_at, tiers.quiet_at)
            during = [each for each in told[key] if run.fault_at <= each.at]
            found[key] = LaneTruth(
                root=frozenset[str]().union(*(kind.root(*key, kv_ran_full=full) for kind in kinds)),
                strict=frozenset[str]().union(*(kind.strict(*key, kv_ran_full=full) for kind in kinds)),
                phases=phases,
                proximate=_most_in_excess(waited.get(key, []), usual.get(key, [])),
                must_page=tiers.must_page,
                may_page=tiers.may_page,
                must_ticket=tiers.must_ticket and not tiers.may_page,
                may_ticket=tiers.may_ticket,
                burns_at=tiers.burns_at,
                misses=sum(each.missed for each in during),
                requests=len(during),
                burns=tiers.burns,
                bad_pods=bad_pods,
            )
    return Truth(found, min(run.ends_at, quiet_at + QUIET_SECONDS), run.recovers_at, run.pods, tuple(run.at_fault))


def _tiers(told: Sequence[Verdict], allowed: float, run: Run, *, sparse: bool) -> tuple[Tiers, tuple[int, ...]]:
    """Tiers of the lane, and the pods at fault that must page by themselves."""
    tiers = tiers_of(told, allowed, run.fault_at, run.ends_at, sparse=sparse)
    if len(run.at_fault) == run.pods:
        return tiers, ()
    others, bad_pods = [each for each in told if each.pod not in run.at_fault], []
    for pod in run.at_fault:
        own = [each for each in told if each.pod == pod]
        alone = tiers_of(own, allowed, run.fault_at, run.ends_at, others=others)
        tiers.join(alone)
        if alone.must_page:
            bad_pods.append(pod)
    return tiers, tuple(bad_pods)


def _is_sparse(told: Sequence[Verdict], fault_at: float) -> bool:
    """Whether few requests per minute were judged by this objective before the fault."""
    before = sum(each.at < fault_at for each in told)
    return before * 60.0 < SPARSE_PER_MINUTE * fault_at


def verdicts(run: Run, objectives: Objectives) -> dict[Key, list[Verdict]]:
    """Lane and objective to its verdicts, in order of their instants."""
    found: dict[Key, list[Verdict]] = defaultdict(list)
    for request in run.requests:
        aims = objectives.aims(request.lane, BUCKETS.bucket_of(request.prompt_tokens))
        for objective in Objective:
            aim = aims.aim(objective)
            verdict = None if aim is None else _verdict(request, objective, aim.threshold_seconds, run.ends_at)
            if verdict is not None and verdict.at <= run.ends_at:
                found[request.lane, objective.value].append(verdict._replace(pod=request.pod))
    for each in found.values():
        each.sort()
    return found


def _verdict(request: Request, objective: Objective, threshold: float, ends_at: float) -> Verdict | None:
    if request.streaming == (objective is Objective.E2E):
        return None
    first, ended = request.first_token_at, request.ended_at
    if objective is Objective.STALL:
        return _stall(request, threshold, ends_at)
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


def _stall(request: Request, threshold: float, ends_at: float) -> Verdict | None:
    """A miss once a stream has stood still for longer than the threshold, while its client read; else its good end decides."""
    ended = ends_at if request.ended_at is None else request.ended_at
    for last, following in pairwise([*request.reads, ended]):
        stands, since = 0.0, last
        for paused_at, resumed_at in [*request.pauses, (following, following)]:
            began_at = min(max(paused_at, last), following)
            stands += max(0.0, began_at - since)
            if stands > threshold:
                return Verdict(began_at - (stands - threshold), missed=True)
            since = max(since, min(resumed_at, following))
    good = request.reads and request.ended_at is not None and request.outcome is Outcome.OK
    return Verdict(ended, missed=False) if good else None


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
    """Whether the KV pool of a pod at fault ran full."""
    during = [state for state in run.states if run.fault_at <= state.at < run.recovers_at]
    return any(_pool_ran_full([state for state in during if state.pod == pod]) for pod in run.at_fault)


def _pool_ran_full(states: Sequence[State]) -> bool:
    full = sum(state.kv_usage >= KV_FULL and state.waiting > 0 for state in states)
    return full >= KV_FULL_SHARE * max(1, len(states))
