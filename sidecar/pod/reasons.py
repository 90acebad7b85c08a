"""The reasons to believe in each cause, in the life of one miss: each a chance from 0 to 1. Pure.

Each cause has reasons of its own. One is there or not in the life of this miss: what is true of the whole pod (something has grown, the KV
cache is full) counts only as far as it may have held up this miss. Nothing is a reason because nothing else was found. Where no cause has
one, the miss is `unattributed`.

It knows the facts of a miss and the signs of its pod. It refuses to know how much a reason counts (`weigh.py`).
"""

from collections.abc import Callable
from enum import StrEnum

from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import PHASE_OF, WORTH_NAMING, Cause, Root
from sidecar.pod.costs.step_model import WORST_RESIDUAL
from sidecar.pod.factor import Factor, between, chance, chance_grown
from sidecar.pod.lateness import explained_by
from sidecar.pod.life import Facts, Failed
from sidecar.pod.signs import Signs


LIKELY = 0.9
"""The chance of a reason that suggests a cause while the request still runs, and may turn out otherwise at its end."""
COLLECTED = 1 / 3
"""Share of the threshold of a miss that must be collected in one read: the last read of an answer holds fewer events."""
TOGETHER_FROM = 1.5
"""Events per read, over the usual number, from which on something collects tokens."""
COMPUTES = 0.65, 0.9
"""Shares of the time in which requests waited: if the engine computes prompts in less than the first, they wait for
something else; in more than the second, for that."""
MOST_CACHED = 0.75
"""Share of the usual prompt tokens that a cache which is not seen may hold: most of long conversations."""
MOST_WAIT = 0.5
"""Share of the pod's recent misses, above which a miss whose ledger is still open is taken to wait as they did."""
CLEARLY = 0.8, 0.975
"""Chances that a cause has grown: below the first it takes nothing from what the request itself shows; the second is that of
an interval which begins at the threshold."""
MAYBE_HANGS = 0.5
"""The chance that an engine hangs which sends no output and is busy with a request whose output is not seen."""


class Reason(StrEnum):
    """One reason to believe in a cause."""

    GROWN = "grown"
    """Its quantity is well above the usual."""
    COLD = "cold"
    """A new process began in its life, and all work costs more than usually."""
    FAULT = "fault"
    """Another fault of the engine overlaps its life."""
    STOOD = "stood"
    """This stream stood still for longer than its work explains."""
    LEDGER = "ledger"
    """The ledger of the request has the time in a phase that no other cause has."""
    IN_FRONT = "in_front"
    """Requests wait in front of an engine that has room."""
    MERGED = "merged"
    """Reads hold more events than usually, for long enough to matter to this miss."""
    TRANSFERRED = "transferred"
    """Most of the excess lies between the first output and the second."""
    LATE = "late"
    """The sidecar's own loop was late, and can have delayed what was measured."""
    LONG_PROMPT = "long_prompt"
    """A prompt that is unusually long for its lane held it up."""
    OWN_PROMPT = "own_prompt"
    """The engine reported that its own prompt took the time, and nothing has grown."""
    FEWER_SLOTS = "fewer_slots"
    """Fewer requests run at once than usually at most, and others wait in the engine."""
    LIMITED = "limited"
    """Requests wait in the engine for a place in its batch, and neither cost has grown: dearer work fills a batch too, and so does the backlog
    that an incident left behind.
    """
    KV_FULL = "kv_full"
    """The KV cache is full while requests wait."""
    PREEMPTS = "preempts"
    """Running requests lose their blocks."""
    BACKLOG = "backlog"
    """It waited in the backlog that this cause left behind."""
    LEADS = "leads"
    """Earlier misses of the open incident showed this cause, and it has a reason of its own in this one too."""


OF_INCIDENT = (Reason.BACKLOG, Reason.LEADS)
"""Reasons that the incident gives, and not the miss: they are no votes for its lead."""


Reasons = dict[Cause, dict[Reason, float]]
_Say = Callable[[Cause, Reason, float], None]
_OF_PROMPTS = (Cause.PREFILL_COST, Cause.UNCACHED, Cause.PROMPT_MIX)
_WITHOUT_BACKLOG = (Cause.REJECTED, Cause.ERRORS, Cause.CLIENT, Cause.HOP, Cause.SIDECAR_BUDGET)
"""Leads that leave no backlog: who was let in, and answered, waited for something else."""
_EITHER = 0.5


def stated(facts: Facts) -> Cause | None:
    """The cause that the answer itself states; None if it states none."""
    if facts.failed is None:
        return Cause.REJECTED if facts.turned_away and facts.fault is None else None
    if facts.failed is Failed.SIDECAR:
        return Cause.SIDECAR_BUDGET
    return Cause.DOWN if facts.failed is Failed.UNREACHABLE or facts.fault is Cause.DOWN else Cause.ERRORS


def reasons(facts: Facts, signs: Signs, lead: Root | None = None) -> Reasons:
    """Each cause with a reason in the life of this miss. `lead`: the root that the misses of the open incident showed; None: none."""
    found: Reasons = {}

    def say(cause: Cause, reason: Reason, value: float) -> None:
        if value > 0.0:
            of_cause = found.setdefault(cause, {})
            of_cause[reason] = max(value, of_cause.get(reason, 0.0))

    chances = grown(facts, signs)
    _of_traffic_and_costs(chances, facts, signs, say)
    _of_limits(chances, facts, signs, say)
    _of_delivery(chances, facts, signs, say)
    _of_faults(facts, signs, say)
    if lead is not None and lead.phase != Blame.UNATTRIBUTED:
        _of_incident(Cause(lead.cause), found, facts, signs, say)
    return found


def grown(facts: Facts, signs: Signs) -> dict[Cause, float]:
    """Each cause that is a ratio to its usual value, with the chance that it has grown and can have held up this miss."""
    chances = {cause: _beyond_load(cause, facts, signs) for cause in signs.grown}
    if not facts.tpot:
        for cause in chances.keys() & set(_OF_PROMPTS):
            # Longer prompts that the cache has no room for wait for blocks, and not for compute.
            if cause is not Cause.PROMPT_MIX or not signs.kv_full:
                chances[cause] *= computes(signs)
    if signs.preempts:
        chances.pop(Cause.PREFILL_COST, None)  # prompts that are computed a second time look like dearer ones
    # However many requests come, and however long their answers are, an engine sends output, and it computes a prompt in the time
    # that the prompt takes.
    for cause in chances.keys() & {each for each, phase in PHASE_OF.items() if phase == Blame.QUEUE}:
        if signs.mute or _own_prompt(facts, signs):
            chances[cause] = 0.0
        elif signs.maybe_mute and not signs.limited and facts.waited_in is None and not facts.tpot:
            chances[cause] *= MAYBE_HANGS
    return chances


def computes(signs: Signs) -> float:
    """The chance that requests wait for prompts to be computed: only if that is what the engine does meanwhile."""
    return 1.0 if signs.computes_ratio is None else between(signs.computes_ratio, *COMPUTES)


def _of_traffic_and_costs(chances: dict[Cause, float], facts: Facts, signs: Signs, say: _Say) -> None:
    for cause, each in chances.items():
        say(Cause.KV if cause is Cause.PROMPT_MIX and signs.kv_full else cause, Reason.GROWN, each)
    if facts.behind_long_prompt and not signs.kv_full:
        # The mean hardly grows by some very long prompts, and each of them holds up all others: the gaps between their tokens too.
        say(Cause.PROMPT_MIX, Reason.LONG_PROMPT, LIKELY * (1.0 if facts.tpot else computes(signs)))
    if _own_prompt(facts, signs) and not signs.young and max(chances.values(), default=0.0) < _EITHER:
        say(Cause.PROMPT_MIX, Reason.OWN_PROMPT, LIKELY)


def _of_limits(chances: dict[Cause, float], facts: Facts, signs: Signs, say: _Say) -> None:
    waited_in = _waited_in(facts, signs)
    if not (signs.mute or facts.tpot) and waited_in in (None, Blame.QUEUE, Blame.UNATTRIBUTED):
        short = Cause.KV if signs.kv_full else Cause.SLOTS
        say(short, Reason.FEWER_SLOTS, LIKELY * signs.fewer_slots)
        usual = 1.0 - max(chances.get(each, _EITHER) for each in (Cause.DECODE_COST, Cause.PREFILL_COST))
        say(short, Reason.LIMITED, LIKELY * usual * (signs.limited and not facts.left_behind))
    say(Cause.KV, Reason.KV_FULL, LIKELY * signs.kv_full)
    say(Cause.PREEMPTION, Reason.PREEMPTS, LIKELY * signs.preempts)
    say(Cause.FRONT_END, Reason.LEDGER, _by_ledger(Blame.FIRST_TOKEN, facts, signs))
    if signs.front_end and waited_in in (None, Blame.QUEUE, Blame.FIRST_TOKEN, Blame.UNATTRIBUTED):
        say(Cause.FRONT_END, Reason.IN_FRONT, LIKELY)


def _of_delivery(chances: dict[Cause, float], facts: Facts, signs: Signs, say: _Say) -> None:
    """Reasons to believe that something held back output between the engine and the client."""
    say(Cause.CLIENT if facts.paused else Cause.HOP, Reason.LEDGER, _by_ledger(Blame.STREAM, facts, signs))
    if signs.together is not None and _may_be_held(facts, signs):
        # That reads are merged is true of the whole pod, and a busy machine merges them too. But costs that the engine does not report
        # are estimated from the instants of its output, which a hop holds back. The mean pace of an answer hardly changes by that.
        costs_first = signs.reports or facts.tpot
        left = 1.0 - max(chances.values(), default=0.0) if costs_first else 1.0
        say(Cause.HOP, Reason.MERGED, LIKELY * left * chance(signs.together, TOGETHER_FROM))
    # Until usual values are known, such a pause may be normal here, for example while another rank of the same engine computes a long
    # prompt. A queue before a decode worker stands in the same place.
    if facts.transferred and facts.waited_in is not Blame.STREAM and not signs.young:
        queues = max((each for cause, each in chances.items() if PHASE_OF[cause] == Blame.QUEUE), default=0.0)
        say(Cause.KV_TRANSFER, Reason.TRANSFERRED, LIKELY * (1.0 - _EITHER * between(queues, *CLEARLY)))


def _of_faults(facts: Facts, signs: Signs, say: _Say) -> None:
    if facts.fault is Cause.RESTART:
        # A new process breaks those that wait only while it is cold, and then all its work costs more: one cost, an empty cache or
        # fewer slots alone are what changed with it, such as a setting.
        say(Cause.RESTART, Reason.COLD, signs.cold)
        say(Cause.REJECTED, Reason.FAULT, facts.turned_away * (1.0 - signs.cold))
    elif facts.fault is not None:
        say(facts.fault, Reason.FAULT, 1.0)
    if facts.stalled:
        # No dearer step and no longer prompt takes so long, unless pending prompts explain it.
        say(Cause.PREEMPTION, Reason.STOOD, LIKELY * (facts.alone and signs.preempted))
        explained = facts.explained or facts.behind_long_prompt
        stood = not signs.preempted if facts.alone else not explained
        say(Cause.SILENCE, Reason.STOOD, LIKELY * stood)
    say(Cause.SIDECAR_LATE, Reason.LATE, explained_by(facts.late_ratio))


def _of_incident(lead: Cause, found: Reasons, facts: Facts, signs: Signs, say: _Say) -> None:
    if lead in found:
        say(lead, Reason.LEADS, max(found[lead].values()))
    # A queue of requests is no reason where none gets output.
    mute = signs.mute and PHASE_OF[lead] == Blame.QUEUE
    say(lead, Reason.BACKLOG, LIKELY * (facts.left_behind and not mute and lead not in _WITHOUT_BACKLOG))


def _waited_in(facts: Facts, signs: Signs) -> Blame | None:
    """The phase in which it waited: by its ledger or, while that is open, as most misses of the last minute did."""
    if facts.waited_in not in (None, Blame.UNATTRIBUTED) or facts.tpot:
        return facts.waited_in
    phase = max(signs.waited, key=signs.waited.__getitem__, default=None)
    return phase if phase is not None and signs.waited[phase] > MOST_WAIT else None


def _by_ledger(phase: Blame, facts: Facts, signs: Signs) -> float:
    """Whether it waited in this phase by its own ledger; while that is open, as far as the ledgers of the last minute agree."""
    if _waited_in(facts, signs) is not phase:
        return 0.0
    return 1.0 if facts.waited_in is phase else signs.waited[phase]


def _may_be_held(facts: Facts, signs: Signs) -> bool:
    """Whether a miss that shows no such pause itself may have waited for output that was held back. Not if the engine reported
    that it waited before its output, or has no place for more and says that requests wait for one; and no answer that
    comes in one piece.
    """
    reported = signs.reports and _waited_in(facts, signs) in (Blame.QUEUE, Blame.PREFILL)
    full = signs.limited or signs.kv_full or signs.computes_ratio is None
    queued = not facts.tpot and full and (signs.engine_waiting or 0.0) >= 1.0
    return not (facts.whole or facts.held_too_shortly or reported or queued)


def _own_prompt(facts: Facts, signs: Signs) -> bool:
    """Whether the engine reported that the miss waited while its own prompt was computed, and not before."""
    return signs.reports and facts.waited_in is Blame.PREFILL


def _consequence(cause: Cause, facts: Facts) -> float:
    """So many times its usual value a cause of prompts may show in the backlog of a fault that is over; else 1.

    The cost of prompts is estimated there from steps that hold many of them, as calm times never do: it may be wrong by as
    much as a model may that still speaks.
    """
    if facts.evicted is None:
        return 1.0
    return {Cause.UNCACHED: facts.evicted, Cause.PREFILL_COST: 1.0 + WORST_RESIDUAL}.get(cause, 1.0)


def _beyond_load(cause: Cause, facts: Facts, signs: Signs) -> float:
    """The chance that this cause has grown beyond what the load explains, as far as load has grown.

    Prompts that come on top may have nothing in the cache, as those of a pod that was scaled in, while `MOST_CACHED` of the usual ones
    is. At a load of L a mean over prompts then is (1 + (L - 1) / (1 - MOST_CACHED)) / L times the usual: the uncached share and, where no
    cache is seen, the cost of a prompt.
    """
    factor, load, worth = (
        signs.grown[cause],
        signs.grown.get(Cause.LOAD),
        WORTH_NAMING[cause] * _consequence(cause, facts),
    )
    alone = chance_grown(factor, worth)
    if (
        load is None
        or load.value <= 1.0
        or not (cause is Cause.UNCACHED or (cause is Cause.PREFILL_COST and signs.cache_unseen))
    ):
        return alone
    explained = (1.0 + (load.value - 1.0) / (1.0 - MOST_CACHED)) / load.value
    loaded = chance_grown(load, 1.0)
    return loaded * chance_grown(Factor(*(each / explained for each in factor)), worth) + (1.0 - loaded) * alone
