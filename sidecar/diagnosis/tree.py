"""The diagnostic tree: from the numbers of a lane to the phase at fault and the fixes. Pure, but for texts read from files.

It asks in this order: do the numbers allow an answer; is each of the two latencies met, near its threshold or broken now;
which one is to be repaired first; which root do its misses have; what is second; which fixes help, which do not, and which
answers would change their order. The root is read from the misses of the window, each decided on its pod. A lane without an
objective, or numbers that a person gave, have no decided misses: there the parts of the time name the phase.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from traceback import extract_tb

from sidecar.diagnosis import asked, bound, trust, why
from sidecar.diagnosis.case_signs import ALL_SLOTS, FULL_BATCH_KV, signs
from sidecar.diagnosis.findings import Diagnosis, Missing, Number, Outcome, Second, State, Step
from sidecar.diagnosis.interventions import (
    CHAPTERS,
    Case,
    Intervention,
    Unhelpful,
    chapters,
    ordered,
    possible_causes,
    titles,
)
from sidecar.diagnosis.judging import judged
from sidecar.diagnosis.levers import LoadLevel, Sign
from sidecar.diagnosis.measured import Latency, Measured
from sidecar.diagnosis.verdict import RootPhase, Verdict, top
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import TTFT_SHARES, Objective
from sidecar.objectives.presets import INTERACTIVE
from sidecar.pod.causes import Cause, is_worth_naming
from sidecar.pod.pod import KV_FULL_RATIO


SMALL_BATCH = 8.0
"""Running requests of one engine below which its batch is small: a step mostly reads the weights."""
FIRST_STEPS = 4
"""Steps of a phase that a person reads first: none of them excludes another."""
A_DRAW = 1.5
"""Numbers by hand are quantiles that a fifth more or less of traffic moves: of two broken ones, time between tokens comes first only if it is
so many times as far above its threshold. Otherwise the time to first token does, because most of what helps the tokens lengthens it."""
DEFERRED = "the time to first token is within its threshold: until then decode work is deferred"
CANDIDATES: Mapping[Objective, tuple[Blame, ...]] = {
    Objective.TTFT: (Blame.QUEUE, Blame.PREFILL),
    Objective.TPOT: (Blame.DECODE, Blame.STREAM),
    Objective.E2E: (Blame.QUEUE, Blame.PREFILL, Blame.DECODE),
    Objective.STALL: (Blame.ENGINE, Blame.STREAM),
}
"""Objective to the phases in which unattributed time is mostly spent, where no root is a candidate."""
_SHARES = {Blame(phase.value): share for phase, share in TTFT_SHARES.items()}


def contained(told: Measured, failed: Callable[[Measured, Exception], None] = lambda _told, _error: None) -> Diagnosis:
    """The diagnosis of one lane. If it raises an exception, the answer is a refusal that says so; other lanes are unaffected.

    `failed` is called with the lane and the exception.
    """
    try:
        return diagnose(told)
    except Exception as error:  # noqa: BLE001  the other lanes still have an answer
        failed(told, error)
        place = extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
        # Only the names are kept: any number may have caused the failure, and would cause it again when it is written.
        who = Measured(
            source=told.source,
            namespace=told.namespace,
            model=told.model,
            lane=told.lane,
            window_seconds=told.window_seconds,
        )
        unknown = Number(Latency(), State.UNKNOWN, None)
        return Diagnosis(
            measured=who,
            outcome=Outcome.REFUSED,
            ttft=unknown,
            inter_token=unknown,
            missing=(
                Missing(
                    f"The diagnosis of this lane failed: {what}",
                    "a mistake in the sidecar, not in your engine: please report this line",
                ),
            ),
        )


def diagnose(told: Measured) -> Diagnosis:
    """The diagnosis of one lane. The first call reads the texts from files."""
    m = _with_thresholds(told)
    # The time between tokens is judged when the answer ends, all else at its deadline.
    numbers = {
        Objective.TTFT: judged(m.ttft),
        Objective.TPOT: judged(m.inter_token, unfinished=bool(m.load.lane_streaming)),
        Objective.E2E: judged(m.e2e) if m.source != "hand" else Number(m.e2e, State.UNKNOWN, None),
        Objective.STALL: judged(m.stall),
    }
    ttft, inter_token = numbers[Objective.TTFT], numbers[Objective.TPOT]
    first = _first(m, numbers)
    verdict = None if first is None else m.verdicts.get(first)
    missed = first is not None and _has_objective(m, first)
    lacking = asked.missing(m, verdict, missed=missed)
    if lacking:
        return Diagnosis(
            measured=m,
            outcome=Outcome.REFUSED,
            ttft=ttft,
            inter_token=inter_token,
            evidence=tuple(why.healed(m)),
            missing=lacking,
        )
    if first is None:
        return Diagnosis(
            measured=m,
            outcome=Outcome.WELL,
            ttft=ttft,
            inter_token=inter_token,
            evidence=(*why.rejections(m), *why.healed(m), *why.state(m)),
            changes=tuple(why.changes(m)),
        )
    phase, candidates = _phase(m, first)
    cause = _cause(m, phase, verdict)
    second = _second(m, numbers, first)
    confidence, because = trust.confidence(m, first, phase, verdict)
    return Diagnosis(
        measured=m,
        outcome=Outcome.VERDICT,
        ttft=ttft,
        inter_token=inter_token,
        first=first,
        phase=phase,
        candidates=candidates,
        cause=cause,
        reason=None if verdict is None else verdict.reason,
        size=None if verdict is None else verdict.size,
        since_at=None if verdict is None else verdict.since_at,
        shown_at=None if verdict is None else verdict.shown_at,
        evidence=(
            *(
                why.of_verdict(m, first, verdict)
                if verdict is not None
                else why.without_verdict(m, first, numbers[first], phase)
            ),
            *why.healed(m),
        ),
        changes=tuple(why.changes(m, cause)),
        second=second,
        regime=m.regime,
        steps=tuple(_steps(m, signs(m, numbers), _phases_to_repair(m, phase, candidates), cause, second)),
        not_to_do=_not_to_do(candidates or (phase,)),
        questions=asked.open_questions(m, first, phase, cause, numbers),
        confidence=confidence,
        because=because,
    )


# --- the two latencies ---------------------------------------------------------------------------------------------------


def _with_thresholds(m: Measured) -> Measured:
    """The measurement with the thresholds of the preset `interactive` for latencies without one, by the size of the model where it is known;
    they are marked as assumed.
    """
    size = m.machine.parameters
    preset = INTERACTIVE.for_size(None if size is None else size / 1e9)
    return replace(
        m, ttft=_assumed(m.ttft, preset.ttft_seconds), inter_token=_assumed(m.inter_token, preset.tpot_seconds)
    )


def _assumed(latency: Latency, seconds: float | None) -> Latency:
    if latency.threshold_seconds is not None:
        return latency
    return replace(latency, threshold_seconds=seconds, threshold_assumed=True)


def _first(m: Measured, numbers: Mapping[Objective, Number]) -> Objective | None:
    """The broken objective to be repaired first: one whose root is the engine, else the worst; at a draw TTFT."""
    broken = [of for of in Objective if numbers[of].state is State.BROKEN]
    ahead = A_DRAW if m.source == "hand" else 1.0

    def worse(of: Objective) -> tuple[bool, float]:
        return _phase(m, of)[0] == Blame.ENGINE, (numbers[of].over or 0.0) * (ahead if of is Objective.TTFT else 1.0)

    return max(broken, key=worse, default=None)


def _has_objective(m: Measured, of: Objective) -> bool:
    return why.latency_of(m, of).misses is not None


# --- the phase -----------------------------------------------------------------------------------------------------------


def _phase(m: Measured, first: Objective) -> tuple[RootPhase, tuple[RootPhase, ...]]:
    """The phase of the root and, if it is unattributed, its candidates.

    Where no miss can be decided, the parts of the time to first token name the phase in which it is lost.
    """
    verdict = m.verdicts.get(first)
    if verdict is not None:
        phase = verdict.phase
    elif _has_objective(m, first):
        phase = Blame.UNATTRIBUTED
    elif first is Objective.TPOT:
        phase = Blame.DECODE
    else:
        phase = _by_parts(m) if first is Objective.TTFT else Blame.UNATTRIBUTED
    if phase != Blame.UNATTRIBUTED:
        return phase, ()
    candidates = (() if verdict is None else verdict.candidates) or CANDIDATES[first]
    return phase, tuple(one for one in candidates if not (m.by_spans and one == Blame.STREAM))  # no span tells of it


def _by_parts(m: Measured) -> Blame:
    """The part with the largest excess over its share of the threshold. The unexplained rest of the whole counts as one part."""
    by_hand = m.source == "hand"
    parts = {
        of: seconds
        for of in _SHARES
        if (time := m.phases.get(of)) and (seconds := time.p99_seconds if by_hand else time.mean_seconds) is not None
    }
    waiting = why.queue_by_state(m)
    if waiting is not None and Blame.QUEUE not in parts:
        parts[Blame.QUEUE] = waiting
    whole = m.ttft.p99_seconds if by_hand else m.ttft.mean_seconds
    if not parts or whole is None:
        return Blame.UNATTRIBUTED
    meant = min(m.ttft.threshold_seconds or whole, whole)
    over = {of: seconds - _SHARES[of] * meant for of, seconds in parts.items()}
    untold = [of for of in _SHARES if of not in parts]
    rest = whole - sum(parts.values()) - sum(_SHARES[of] for of in untold) * meant
    worst = max(over, key=over.__getitem__)
    if not untold or over[worst] >= rest:
        return worst
    return untold[0]


def _cause(m: Measured, phase: RootPhase, verdict: Verdict | None) -> Cause | None:
    if verdict is not None:
        return verdict.cause
    grown = top(m.ratios, phase)
    if grown is not None:
        return grown
    if phase in (Blame.QUEUE, Blame.UNATTRIBUTED):
        return _cause_by_state(m, queued=phase == Blame.QUEUE)
    return None


def _cause_by_state(m: Measured, *, queued: bool) -> Cause | None:
    """The cause of a wait by the engine's own state. `queued`: the wait is known to be in the queue, and not only before the first token."""
    load = m.load
    kv = load.kv_usage
    if kv is not None and kv >= (KV_FULL_RATIO if queued else FULL_BATCH_KV):
        return Cause.PREEMPTION if load.preempted or load.preemptions_per_second else Cause.KV
    if queued and load.slots is not None and load.running is not None:
        return Cause.SLOTS if load.running >= ALL_SLOTS * load.slots else None
    if queued and kv is not None:
        return Cause.SLOTS
    return Cause.LOAD if _overfull(m) else None


def _second(m: Measured, numbers: Mapping[Objective, Number], first: Objective) -> Second | None:
    for of in (Objective.TTFT, Objective.TPOT):
        state = numbers[of].state
        if of is not first and state in (State.BROKEN, State.NEAR):
            return Second(of, _phase(m, of)[0], state)
    return None


# --- what to do ----------------------------------------------------------------------------------------------------------


def _phases_to_repair(m: Measured, phase: RootPhase, candidates: tuple[RootPhase, ...]) -> tuple[RootPhase, ...]:
    # A person who gives numbers may have no sidecar: its set-up is no step, and the missing split is asked for instead.
    return candidates if m.source == "hand" and candidates else (phase, *candidates)


def _steps(
    m: Measured, shown: frozenset[str], phases: tuple[RootPhase, ...], cause: Cause | None, second: Second | None
) -> list[Step]:
    steps = _compatible_first(_ranked(m, phases, _wanted(m, phases, cause), shown, load=load_level(m)))
    if second is not None and second.phase not in phases:
        deferred = second.phase in (Blame.DECODE, Blame.STREAM) and Blame.ENGINE not in phases
        its_cause = _cause(m, second.phase, m.verdicts.get(second.objective))
        wanted = _wanted(m, (second.phase,), its_cause)
        # Deferred work begins when the load of now is over, so that load does not rank it, and when the first steps have done theirs.
        load = None if deferred else load_level(m)
        done = {target for step in steps[:FIRST_STEPS] for target in step.what.targets}
        left = {one: weight for one, weight in wanted.items() if not deferred or one not in done}
        waits = (DEFERRED,) if deferred else ()
        later = _ranked(m, (second.phase,), left or wanted, shown, load=load, waits=waits)
        steps += _compatible_first(later, steps)
    return steps


def _compatible_first(steps: Iterable[Step], before: Sequence[Step] = ()) -> list[Step]:
    """The steps in their order, but those that exclude one of the first, or one of the first of `before`, at the end; none of them is among
    the first. A later one excludes nothing: it may never be taken.
    """
    kept: list[Step] = []
    excluded: list[Step] = []
    for step in steps:
        firsts = (*before[:FIRST_STEPS], *kept[:FIRST_STEPS])
        conflicts = any(step.what.name in other.what.conflicts for other in firsts)
        (excluded if conflicts else kept).append(step)
    return kept + excluded if len(kept) >= FIRST_STEPS else kept


def _ranked(
    m: Measured,
    phases: tuple[RootPhase, ...],
    wanted: Mapping[str, float],
    shown: frozenset[str],
    *,
    load: LoadLevel | None,
    waits: tuple[str, ...] = (),
) -> list[Step]:
    """The fixes of these phases that this engine can do, each once, as steps; best first."""
    of_phase: dict[str, RootPhase] = {}
    fixes: dict[str, Intervention] = {}
    for phase in phases:
        for fix in chapters()[CHAPTERS[phase]].fixes:
            if fix.known_to(m.engine):
                of_phase.setdefault(fix.name, phase)
                fixes.setdefault(fix.name, fix)
    known = {*shown, *(wanted if len(wanted) == 1 and 1.0 in wanted.values() else ())}
    case = Case(
        wanted=wanted,
        phase=str(phases[0]) if len(phases) == 1 else None,
        regime=m.regime,
        load=load,
        not_grown=_not_grown(m),
        shown=known | {str(of) for of, ratio in m.ratios.items() if is_worth_naming(of, ratio)},
    )
    found = ordered(fixes.values(), case)
    if [*wanted.values()] == [1.0]:
        # A fix against other causes than the known one is no step.
        found = [fix for fix in found if case.is_aimed(fix)] or found
    return [_step(m, fix, of_phase[fix.name], wanted, waits) for fix in found]


def _wanted(m: Measured, phases: tuple[RootPhase, ...], cause: Cause | None) -> dict[str, float]:
    """The causes that the steps are to work against, with weights: the known one; else all that are possible, each phase alike."""
    if cause is not None:
        return {str(cause): 1.0}
    wanted: dict[str, float] = {}
    for phase in phases:
        possible = _suspects(m, phase)
        for one in possible:
            wanted[one] = wanted.get(one, 0.0) + 1.0 / len(possible) / len(phases)
    return wanted


def _not_grown(m: Measured) -> frozenset[str]:
    """Causes whose number has not grown; with any number also the transfer between GPUs, which most engines do not have."""
    still = {str(cause) for cause, ratio in m.ratios.items() if ratio > 0 and not is_worth_naming(cause, ratio)}
    return frozenset({*still, str(Cause.KV_TRANSFER)} if still else ())


def _suspects(m: Measured, phase: RootPhase) -> tuple[str, ...]:
    """Candidate causes of a phase, if none is known; empty if there is a baseline, because then none of them has grown.

    Where requests were rejected, they are counted.
    """
    if phase == Blame.UNATTRIBUTED:
        return (str(phase),)
    if m.ratios and m.source != "hand":
        return ()
    counted = (Cause.REJECTED,) if phase == Blame.QUEUE and m.rejected else ()
    return tuple(map(str, (*possible_causes(phase), *counted)))


def _overfull(m: Measured) -> bool:
    return (bound.load(m) or 0.0) > 1.0


def load_level(m: Measured) -> LoadLevel | None:
    """The load level: whether the batch is small or full; None if it is unknown, or neither.

    No source states the engine's batch limit, but a KV cache that is 95 % full has no room for another request. The batch is small below `SMALL_BATCH` running requests; a person's rate, answer
    length and time between tokens stand in for them (Little's law). It is full if it is not small and requests wait, or the KV
    cache is full. A Prometheus sums over pods: its sum says that each batch is small, and never that one is full.
    """
    if _overfull(m) or ((m.load.kv_usage or 0.0) >= FULL_BATCH_KV and m.source != "prometheus"):
        return LoadLevel.HIGH
    batch = m.load.running
    if batch is None and m.source == "hand":
        rate, tokens, seconds = m.load.arrivals_per_second, m.load.output_mean_tokens, m.inter_token.p99_seconds
        batch = None if rate is None or tokens is None or seconds is None else rate * tokens * seconds
    if batch is None:
        return None
    if batch < SMALL_BATCH:
        return LoadLevel.LOW
    full = (m.load.waiting or 0.0) >= 1.0 or (m.load.kv_usage or 0.0) >= KV_FULL_RATIO
    return LoadLevel.HIGH if full and m.source != "prometheus" else None


def _not_to_do(phases: tuple[RootPhase, ...]) -> tuple[Unhelpful, ...]:
    """The unhelpful fixes of all phases, one of each in turn, so that a short list covers every phase."""
    lists = [chapters()[CHAPTERS[phase]].not_to_do for phase in phases]
    return tuple(item for turn in zip_longest(*lists) for item in turn if item is not None)


def _step(
    m: Measured, fix: Intervention, phase: RootPhase, wanted: Mapping[str, float], waits: tuple[str, ...] = ()
) -> Step:
    own = () if fix.after is None else (fix.after,)
    told = bound.ceiling(m) if Sign.OVERFULL in fix.only_if else None
    not_with = tuple(dict.fromkeys(titles()[name] for name in fix.conflicts))
    return Step(fix, phase, fix.flags.get(m.engine or ""), (*waits, *own), told, not_with, fix.gain(wanted))
