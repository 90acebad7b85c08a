"""Measures the load at which an engine is full in a given world, and sets objectives that it keeps while it is healthy.

It knows healthy runs: their throughput and their latencies. It refuses to know incidents and rules: no objective is
chosen by what an alert does with it.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bench.incidents.engines import BUCKETS, BY_NAME, EngineConfig, LaneLoad
from bench.incidents.play import healthy
from bench.incidents.request import Request, Run
from bench.incidents.sampling import MODERATE
from bench.incidents.traffic import Day
from bench.incidents.world import World
from sidecar.objectives.objective import Aim, Aims, Objective
from sidecar.timeline.outcome import Outcome


SATURATION_SEED, FAIR_SEED = 7_100_001, 7_100_002
"""Apart from the seeds of all runs: those are below a million."""
PROBE_REQUESTS, OVERLOADED_REQUESTS = 1200, 5000
"""Requests that arrive in the stretch that finds the order of the answer, and in the one that is measured."""
WARM_UP_SHARE = 0.3
"""Share of an overloaded stretch, from its beginning, that is left out: the engine fills up."""
OVERLOAD = 1.3
"""Load of the stretch that is measured, as a share of the one at which the engine is full."""
FULL_BELOW = 0.9
"""The engine was overloaded if it finished less than this share of what arrived."""
PATIENT_SECONDS = 1e6
FAIR_SECONDS = 3600.0
FAIR_SHARE = 1 / 3
"""Share of the allowed misses that a healthy hour may use."""
FAIR_MARGIN = 1.25
LEAST_TTFT_SECONDS = 0.2
LEAST_TPOT_MEDIANS = 1.3
"""No drawn engine promises tokens faster than this multiple of their median."""
UNFINISHED_SECONDS = 60.0
"""Requests of the last minute of a run are not counted: many of them have not ended."""

Key = tuple[str, Objective]
"""Lane and objective."""
_MEASURED: dict[tuple[object, ...], float] = {}
"""Engine, traffic and world to the load factor that was measured, for this process."""


def healthy_run(engine: EngineConfig, seed: int, seconds: float, world: World, factor: float) -> Run:
    """A run of one pod without an incident, at a constant load factor."""
    return healthy(engine, seed, seconds, Day([1.0], seconds), world=alone(world), factor=factor)


def alone(world: World) -> World:
    """The same world with one pod, whose sidecar never restarts, at a load that stays."""
    return replace(world, pods=1, at_fault=1, utilisation=None, sidecar_restarts_after_seconds=None, lunch=False)


def patient(engine: EngineConfig) -> EngineConfig:
    """The same engine with thresholds that no request misses, so that no client gives up."""

    def at_ease(aims: Aims) -> Aims:
        return _changed(aims, {each: _within(aims.aim(each), PATIENT_SECONDS) for each in Objective})

    return replace(
        engine, lanes=tuple(replace(load, aims=at_ease(load.aims), aims_by_bucket={}) for load in engine.lanes)
    )


def _within(aim: Aim | None, threshold_seconds: float) -> Aim | None:
    return None if aim is None else replace(aim, threshold_seconds=threshold_seconds)


def _changed(aims: Aims, to: Mapping[Objective, Aim | None]) -> Aims:
    """The aims with some objectives replaced."""
    return Aims(shares=aims.shares, **{str(each): to.get(each, aims.aim(each)) for each in Objective})


# --- how much ---------------------------------------------------------------------------------------------------------


def saturates_at(engine: EngineConfig, world: World) -> float:
    """Load factor from which on the queue of a pod grows without bound, to within 5 %; measured once per process.

    The engine is overloaded with clients who never give up. What it then finishes in a second is all that it can do,
    and the factor at which as much arrives is the answer. With two models, the one that is full first counts.
    """
    # The way of tokens behind the engine does not change how many it makes.
    inside = World(
        step_noise=world.step_noise,
        length_sigma=world.length_sigma,
        tokens_a_step=world.tokens_a_step,
        topology=world.topology,
    )
    traffic = tuple(
        (load.lane, load.per_second, load.prompt_tokens, load.output_tokens, load.shared_tokens, load.spread)
        for load in engine.lanes
    )
    key = (engine.name, engine.limits, engine.slots, engine.costs, traffic, inside)
    if key not in _MEASURED:
        _MEASURED[key] = _measured(patient(engine), inside)
    return _MEASURED[key]


def _measured(engine: EngineConfig, world: World) -> float:
    factor, found = OVERLOAD * engine.saturates_at, None
    while found is None:
        found = _full_at(engine, world, factor, PROBE_REQUESTS)
        factor *= 2.0
    return (
        _full_at(engine, world, OVERLOAD * found, OVERLOADED_REQUESTS)
        or _full_at(engine, world, 2.0 * OVERLOAD * found, OVERLOADED_REQUESTS)
        or found
    )


def _full_at(engine: EngineConfig, world: World, factor: float, requests: int) -> float | None:
    """Load factor of which the engine finishes all, by a run at this one; None if it was not overloaded."""
    seconds = requests / (factor * sum(load.per_second for load in engine.lanes))
    by_model = defaultdict(list)
    for request in healthy_run(engine, SATURATION_SEED, seconds, world, factor).requests:
        by_model[request.model].append(request)
    shares = [share for each in by_model.values() if (share := _finished_share(each, seconds)) < FULL_BELOW]
    return factor * min(shares) if shares else None


def _finished_share(requests: Sequence[Request], seconds: float) -> float:
    """Seconds of arrivals that were finished in each second, after the warm-up.

    The instants of arrival are counted, not the requests, so that chance in the number of arrivals does not matter.
    """
    finished = sorted(each.ended_at for each in requests if each.ended_at is not None)
    begins = WARM_UP_SHARE * seconds
    before = sum(at < begins for at in finished)
    after = sum(at <= seconds for at in finished)
    if after <= before:
        return 0.0
    return (requests[after - 1].received_at - requests[before].received_at) / (seconds - begins)


# --- how well ---------------------------------------------------------------------------------------------------------


def fair(engine: EngineConfig, world: World, factor: float) -> EngineConfig:
    """The engine with objectives that it keeps in this world at this load factor, while nothing is broken.

    Objectives are the operator's, and no operator promises what a healthy engine cannot keep: its pages would say
    nothing. A healthy hour, with a seed apart from all others, may use a third of the allowed misses of each lane and
    objective. Where it uses more, the threshold rises to the quantile at that third times `FAIR_MARGIN`, rounded up to
    two digits. The engines of `engines.py` never get lower thresholds than their own; a drawn engine has only guesses,
    so all its thresholds come from here, at least 0.2 s of TTFT and 1.3 medians of TPOT.

    They are set for the busiest usual hour: at low factors that is the load to which a set-up may raise it. The
    engine's `saturates_at` becomes the one measured in this world.
    """
    full_at = saturates_at(engine, world)
    busy = max(factor, MODERATE * full_at)
    run = healthy_run(patient(engine), FAIR_SEED, FAIR_SECONDS, world, busy)
    taken: dict[Key, list[tuple[str, float]]] = defaultdict(list)
    for request in run.requests:
        for objective, seconds in latencies(request, run.ends_at):
            taken[request.lane, objective].append((BUCKETS.bucket_of(request.prompt_tokens), seconds))
    keeps_own = engine.name in BY_NAME
    lanes = tuple(_fair_lane(load, taken, keeps_own=keeps_own) for load in engine.lanes)
    return replace(engine, lanes=lanes, saturates_at=full_at)


def latencies(request: Request, ends_at: float) -> Iterator[tuple[Objective, float]]:
    """Each objective that a request has, and its seconds, or its wait so far; none for one of the last minute."""
    if request.received_at > ends_at - UNFINISHED_SECONDS:
        return
    if not request.streaming:
        yield Objective.E2E, (request.flushed_at or ends_at) - request.received_at
        return
    first = request.first_token_at
    yield Objective.TTFT, (first or ends_at) - request.received_at
    if first is not None and request.output_tokens > 1 and request.outcome is Outcome.OK and request.ended_at:
        yield Objective.TPOT, (request.reads[-1] - first) / (request.output_tokens - 1)


def _fair_lane(load: LaneLoad, taken: dict[Key, list[tuple[str, float]]], *, keeps_own: bool) -> LaneLoad:
    """One lane with its new objectives. Buckets with objectives of their own are judged apart from the others."""
    others = [each for each in BUCKETS.labels if each not in load.aims_by_bucket]
    aims = _fair_aims(load.lane, load.aims, taken, others, keeps_own=keeps_own)
    by_bucket, shorter = {}, aims
    for bucket in BUCKETS.labels:
        if bucket in load.aims_by_bucket:
            own = _fair_aims(load.lane, load.aims_by_bucket[bucket], taken, [bucket], keeps_own=keeps_own)
            # A longer prompt never has a lower threshold than a shorter one.
            by_bucket[bucket] = shorter = _at_least(own, shorter)
    return replace(load, aims=aims, aims_by_bucket=by_bucket)


def _fair_aims(
    lane: str, aims: Aims, taken: dict[Key, list[tuple[str, float]]], buckets: Sequence[str], *, keeps_own: bool
) -> Aims:
    """New objectives from the latencies of the requests in these buckets."""
    changed: dict[Objective, Aim | None] = {}
    for objective in Objective:
        aim = aims.aim(objective)
        seconds = sorted(each for bucket, each in taken.get((lane, objective), []) if bucket in buckets)
        if aim is not None and seconds:
            changed[objective] = replace(
                aim, threshold_seconds=_fair_threshold(aim, objective, seconds, keeps_own=keeps_own)
            )
    return _changed(aims, changed)


def _fair_threshold(aim: Aim, objective: Objective, seconds: Sequence[float], *, keeps_own: bool) -> float:
    """`seconds`: latencies in order, at least one."""
    over = FAIR_SHARE * aim.allowed_misses
    if keeps_own and sum(each > aim.threshold_seconds for each in seconds) <= over * len(seconds):
        return aim.threshold_seconds
    slow = seconds[max(0, math.ceil((1.0 - over) * len(seconds)) - 1)]
    least = {
        Objective.TTFT: LEAST_TTFT_SECONDS,
        Objective.TPOT: LEAST_TPOT_MEDIANS * seconds[len(seconds) // 2],
        Objective.E2E: LEAST_TTFT_SECONDS,
    }
    fairly = two_digits_up(max(FAIR_MARGIN * slow, least[objective]))
    return max(fairly, aim.threshold_seconds) if keeps_own else fairly


def _at_least(aims: Aims, others: Aims) -> Aims:
    """Thresholds raised to those of the others."""
    raised: dict[Objective, Aim | None] = {}
    for objective in Objective:
        aim, other = aims.aim(objective), others.aim(objective)
        if aim is not None and other is not None:
            raised[objective] = _within(aim, max(aim.threshold_seconds, other.threshold_seconds))
    return _changed(aims, raised)


def two_digits_up(seconds: float) -> float:
    """The next number of two digits: 0.0331 is 0.034, 12.2 is 13. `seconds` is above 0."""
    digits = 1 - math.floor(math.log10(seconds))
    unit = 10.0**-digits
    return round(math.ceil(round(seconds / unit, 9)) * unit, max(digits, 0))
