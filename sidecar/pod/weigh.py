"""The root of one miss: how much speaks for each cause, as weights that add up to 1. Pure.

In order: what the request itself shows (its engine failed, it was turned away, its output was held back or stood still), what happened on its pod during its
life (a fault of the engine, a sidecar that was late), then what has grown on the pod, the most grown first. Where requests wait and
nothing has become dearer, it is a limit, or the load if that has grown, as far as anything tells what the engine's work costs. What is not decided goes to the incident that is open on the pod, or to `unattributed`.

It knows the signs of a pod (`signs.py`) and the facts of one miss. It refuses to know counters and the order of misses.
"""

from collections.abc import Mapping
from enum import Enum, auto
from math import log, prod
from typing import NamedTuple

from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import PHASE_OF, Cause, Unknown
from sidecar.pod.costs.step_model import WORST_RESIDUAL
from sidecar.pod.factor import Factor, between, chance, chance_grown
from sidecar.pod.lateness import explained_by
from sidecar.pod.signs import Signs


class Root(NamedTuple):
    """Phase and cause, both label values."""

    phase: str
    cause: str


class Failed(Enum):
    """How a request failed on the server side."""

    ERROR = auto()
    UNREACHABLE = auto()
    SIDECAR = auto()
    """The sidecar itself could not serve it."""


class Facts(NamedTuple):
    """All that the root of a miss may depend on. Two misses with equal facts have the same root at the same instant."""

    waited_in: Blame | None = None
    """The phase in which it waited, once its ledger is closed."""
    failed: Failed | None = None
    paused: bool = False
    """Its client did not read for a part of its life."""
    fault: Cause | None = None
    """A fault of the engine that its life overlaps."""
    behind_long_prompt: bool = False
    """Prompts that are longer than the usual ones of their lane were most of the work while it waited."""
    tpot: bool = False
    """It is a miss of the pace between tokens, not of a wait."""
    whole: bool = False
    """Its answer is not streamed: it comes in one piece, and how its reads hold events says nothing."""
    held_too_shortly: bool = False
    """The events of a read come within a small part of its threshold: that they are merged does not explain it."""
    turned_away: bool = False
    """It was refused for lack of room."""
    transferred: bool = False
    """Most of its excess lies between its first output and its second."""
    left_behind: bool = False
    """It waited in a backlog that the open incident left behind."""
    evicted: float | None = None
    """So many times the usual share of the prompt tokens was not cached because of a fault that is over, and in whose backlog
    it waited; None for another miss."""
    stalled: bool = False
    """It is a stream that stood still for many times as long as it usually takes to its next output."""
    alone: bool = False
    """Other streams had output while it stood still."""
    explained: bool = False
    """The prompts that were pending explain for how long no stream had output."""
    late_ratio: float = 0.0
    """Share of its time until it was missed, or of the last seconds if that is more, by which the sidecar's own loop was
    late; 0 if it stood still too shortly at once to delay what was missed."""


WORTH_NAMING = {
    Cause.LOAD: 1.15,
    Cause.PROMPT_MIX: 1.12,
    Cause.UNCACHED: 1.15,
    Cause.LONGER_OUTPUTS: 1.2,
    Cause.PREFILL_COST: 1.2,
    Cause.DECODE_COST: 1.2,
}
"""A cause below this many times its usual value explains no miss. Lengths are counted, and costs are estimated from
models with errors of their own."""


def is_worth_naming(cause: Cause, ratio: float) -> bool:
    """Whether a cause with this number over its usual one may be named. One that is not in `WORTH_NAMING` has no such number."""
    return ratio > WORTH_NAMING.get(cause, 0.0)


DEARER = 1.2
"""The same for a cost, whatever it is needed for."""
MOST_CACHED = 0.75
"""Share of the usual prompt tokens that a cache which is not seen may hold: most of long conversations."""
SURE = 0.95
"""Weight of direct evidence."""
COLLECTED = 1 / 3
"""Share of the threshold of a miss that must be collected in one read: the last read of an answer holds fewer events."""
TOGETHER_FROM = 1.5
"""Events per read, over the usual number, from which on something collects tokens."""
COMPUTES = 0.65, 0.9
"""Shares of the time in which requests waited: if the engine computes prompts in less than the first, they wait for
something else; in more than the second, for that."""
WAITS = 0.9
"""Weight of the queue where requests are known to wait in it and nothing has grown."""
MAYBE_WAITS = 0.7
"""Weight of a root that the place of the wait suggests, without a sign beside it."""
CLEARLY = 0.8, 0.975
"""Chances that a cause has grown: below the first it takes nothing from what the request itself shows; the second is that of
an interval which begins at the threshold."""
MAYBE_HANGS = 0.5
"""Weight of `unclear` where the engine hangs, or is busy with a request whose output is not seen."""
MOST_WAIT = 0.5
"""Share of the pod's recent misses, above which a miss whose ledger is still open is taken to wait as they did."""


def root_of(cause: Cause) -> Root:
    """The root with this cause."""
    return Root(str(PHASE_OF[cause]), str(cause))


def unknown(reason: Unknown) -> Root:
    """The root of a miss that cannot be told, for this reason."""
    return Root(Blame.UNATTRIBUTED.value, str(reason))


def has_grown(root: Root, signs: Signs) -> bool | None:
    """Whether the cause of this root has grown enough to be named; None: its ratio is not known, or not surely below that."""
    factor = next((factor for cause, factor in signs.grown.items() if cause == root.cause), None)
    if factor is None:
        return None
    return factor.value > WORTH_NAMING[Cause(root.cause)] or (None if root.cause in signs.unsure else False)


class Weighed(NamedTuple):
    """The weights of a miss, which add up to 1."""

    weights: dict[Root, float]
    inherited: float = 0.0
    """Share of the lead's weight that it has only because it leads: no evidence of this miss speaks for it."""


def weigh(facts: Facts, signs: Signs, lead: Root | None = None) -> Weighed:
    """The weights of a miss with these facts. `lead`: the root of the open incident, if misses have shown one."""
    if facts.failed is not None:
        down = facts.failed is Failed.UNREACHABLE or facts.fault is Cause.DOWN
        failed = Cause.SIDECAR_BUDGET if facts.failed is Failed.SIDECAR else Cause.DOWN if down else Cause.ERRORS
        return Weighed({root_of(failed): 1.0})
    given = _Given()
    given.give(Cause.SIDECAR_LATE, SURE * explained_by(facts.late_ratio))
    if facts.fault is not None:
        given.give(facts.fault, SURE * _claims(facts.fault, signs))
    if facts.turned_away:
        given.give(Cause.REJECTED, SURE)
    if signs.maybe_mute and not signs.limited and facts.waited_in is None and not facts.tpot:
        given.give_all({unknown(Unknown.UNCLEAR): MAYBE_HANGS})
    waited_in: Blame | None = facts.waited_in if facts.waited_in is not Blame.UNATTRIBUTED else None
    if waited_in is None and not facts.tpot:
        waited_in = _mostly(signs.waited)
    _give_held(given, waited_in, facts, signs)
    if waited_in is Blame.FIRST_TOKEN or (signs.front_end and waited_in in (None, Blame.QUEUE)):
        given.give(Cause.FRONT_END, SURE if facts.waited_in is Blame.FIRST_TOKEN else WAITS)
    # Costs that the engine does not report are estimated from the instants of its output, which a hop holds back. The mean
    # pace of an answer hardly changes by that.
    costs_first = signs.reports or facts.tpot
    if costs_first:
        _give_grown(given, facts, signs)
    _give_merged(given, waited_in, facts, signs)
    if not costs_first:
        _give_grown(given, facts, signs)
    if facts.waited_in is Blame.PREFILL and not signs.young:
        # Nothing has grown, and its own prompt took the time: it is long for its threshold. A report of the engine says
        # so by itself; an estimate only if the engine computes prompts meanwhile.
        told = 1.0 if _own_prompt(facts, signs) else _computes(signs) * _seen(signs)
        given.give(Cause.PROMPT_MIX, MAYBE_WAITS * told)
    return Weighed(given.weights, _give_rest(given, waited_in, facts, signs, lead))


class _Given:
    """The weights that were given, and the share that is left."""

    def __init__(self) -> None:
        self.weights: dict[Root, float] = {}
        self.left = 1.0

    def give(self, cause: Cause, share: float) -> None:
        """Give a cause this share of what is left."""
        self.give_all({root_of(cause): share})

    def give_all(self, shares: Mapping[Root, float]) -> None:
        """Give each root its share of what is left; in sum at most 1."""
        for root, share in shares.items():
            if self.left * share > 0.0:
                self.weights[root] = self.weights.get(root, 0.0) + self.left * share
        self.left *= 1.0 - sum(shares.values())


def _give_held(given: _Given, waited_in: Blame | None, facts: Facts, signs: Signs) -> None:
    """Give what something held back between the engine and the client."""
    # Until usual values are known, such a pause may be normal here, for example while another rank of the same engine
    # computes a long prompt.
    if facts.transferred and facts.waited_in is not Blame.STREAM and not signs.young:
        # A queue before a decode worker stands in the same place. A ratio that scatters about its usual value tells of none.
        queues = {cause: between(each, *CLEARLY) for cause, each in _chances(facts, signs, Blame.QUEUE).items()}
        given.give(Cause.KV_TRANSFER, WAITS * (1.0 - _any(queues)))
    if facts.paused and facts.waited_in is Blame.STREAM:
        given.give(Cause.CLIENT, SURE)
    elif waited_in is Blame.STREAM:
        given.give(Cause.HOP, SURE)
    if facts.stalled:
        _give_stalled(given, facts, signs)


def _give_stalled(given: _Given, facts: Facts, signs: Signs) -> None:
    """Give what a stream shows by standing still: no dearer step and no longer prompt takes so long, unless pending prompts explain it."""
    if facts.alone and signs.preempted:
        given.give(Cause.PREEMPTION, WAITS)
    if facts.alone or not (facts.explained or facts.behind_long_prompt):
        given.give(Cause.SILENCE, WAITS)


def _give_merged(given: _Given, waited_in: Blame | None, facts: Facts, signs: Signs) -> None:
    """Give what is left to something that collects tokens, if reads hold more events than usually, and for long enough.

    That reads are merged is true of the whole pod, and a busy machine merges them too: it is no evidence of one miss.
    """
    if signs.together is not None and _may_be_held(waited_in, facts, signs):
        given.give(Cause.HOP, WAITS * chance(signs.together, TOGETHER_FROM))


def _may_be_held(waited_in: Blame | None, facts: Facts, signs: Signs) -> bool:
    """Whether a miss that shows no such pause itself may have waited for output that was held back. Not if the engine reported
    that it waited before its output, or has no place for more and says that requests wait for one; and no answer that
    comes in one piece.
    """
    reported = signs.reports and waited_in in (Blame.QUEUE, Blame.PREFILL)
    queued = not facts.tpot and signs.limited and (signs.engine_waiting or 0.0) >= 1.0
    return not (facts.whole or facts.held_too_shortly or reported or queued)


def _give_grown(given: _Given, facts: Facts, signs: Signs) -> None:
    grown = _grown(facts, signs)
    if facts.behind_long_prompt and not signs.kv_full:
        # The mean hardly grows by some very long prompts, and each of them holds up all others: the gaps between their
        # tokens too.
        surer = sum(share for cause, share in grown.items() if not (signs.paced and cause is Cause.DECODE_COST))
        given.give(Cause.PROMPT_MIX, WAITS * _computes(signs) * (1.0 - surer))
    given.give_all({root_of(cause): share for cause, share in grown.items()})


def _own_prompt(facts: Facts, signs: Signs) -> bool:
    """Whether the engine reported that the miss waited while its own prompt was computed, and not before."""
    return signs.reports and facts.waited_in is Blame.PREFILL


def _grown(facts: Facts, signs: Signs) -> dict[Cause, float]:
    """Shares of the causes that have grown; in sum, the chance that any of them has."""
    chances = _chances(facts, signs)
    ratios = dict(signs.grown)
    for cause, unseen, chance_of in (
        (Cause.UNCACHED, True, chance_grown),
        (Cause.PREFILL_COST, signs.cache_unseen, chance),
    ):
        if unseen and cause in chances:
            ratios[cause] = _beyond_load(cause, signs)
            chances[cause] = chance_of(ratios[cause], WORTH_NAMING[cause] * _consequence(cause, facts))
    # A cause that has grown much more than another explains much more of the waiting: queues are not linear.
    size = {cause: chances[cause] * log(max(ratios[cause].value, 1.0)) ** 2 for cause in chances}
    size.update(_costs_by_their_seconds(size, chances, signs))
    total = sum(size.values())
    if total <= 0.0:
        return {}
    any_of_them = _any(chances)
    shares = {cause: any_of_them * each / total for cause, each in size.items()}
    for cause in (Cause.PREFILL_COST, Cause.UNCACHED, Cause.PROMPT_MIX):
        if cause in shares:
            shares[cause] *= _computes(signs)
    if signs.preempts:
        # Prompts that are computed a second time look like dearer ones.
        shares.pop(Cause.PREFILL_COST, None)
    if signs.kv_full and Cause.PROMPT_MIX in shares:
        # Longer prompts that the cache has no room for wait for blocks, and not for compute.
        shares[Cause.KV] = shares.pop(Cause.PROMPT_MIX)
    return shares


def _chances(facts: Facts, signs: Signs, phase: Blame | None = None) -> dict[Cause, float]:
    """Each cause that may have grown, with the chance that it has; `phase`: those of this phase alone."""
    return {
        cause: chance_grown(factor, WORTH_NAMING[cause] * _consequence(cause, facts))
        for cause, factor in signs.grown.items()
        # However many requests come, and however long their answers are, an engine sends output, and it computes a
        # prompt in the time that the prompt takes.
        if not ((signs.mute or _own_prompt(facts, signs)) and PHASE_OF[cause] == Blame.QUEUE)
        and phase in (None, PHASE_OF[cause])
    }


def _consequence(cause: Cause, facts: Facts) -> float:
    """So many times its usual value a cause of prompts may show in the backlog of a fault that is over; else 1.

    The cost of prompts is estimated there from steps that hold many of them, as calm times never do: it may be wrong by as
    much as a model may that still speaks.
    """
    if facts.evicted is None:
        return 1.0
    return {Cause.UNCACHED: facts.evicted, Cause.PREFILL_COST: 1.0 + WORST_RESIDUAL}.get(cause, 1.0)


def _any(chances: Mapping[Cause, float]) -> float:
    """The chance that any of them has grown."""
    return 1.0 - prod(1.0 - each for each in chances.values())


def _costs_by_their_seconds(
    size: Mapping[Cause, float], chances: Mapping[Cause, float], signs: Signs
) -> dict[Cause, float]:
    """The sizes of both costs, divided anew where both have grown: by the seconds that each adds to the engine's steps.

    A slower engine makes decodes and prompts dearer alike. Whose factor comes out a little larger is chance, and where
    the steps hold hardly a prompt, dear prompts hold up no request.
    """
    share = signs.decode_share
    if share is None or not {Cause.DECODE_COST, Cause.PREFILL_COST} <= size.keys():
        return {}
    more = {
        cause: chances[cause] * max(0.0, signs.grown[cause].value - 1.0) * part
        for cause, part in ((Cause.DECODE_COST, share), (Cause.PREFILL_COST, 1.0 - share))
    }
    total, both = sum(more.values()), sum(size[cause] for cause in more)
    return {cause: both * each / total for cause, each in more.items()} if total > 0.0 else {}


def _beyond_load(cause: Cause, signs: Signs) -> Factor:
    """The ratio of this cause beyond what the load explains.

    Prompts that come on top may have nothing in the cache, as those of a pod that was scaled in, while `MOST_CACHED` of the usual ones
    is. At a load of L a mean over prompts then is (1 + (L - 1) / (1 - MOST_CACHED)) / L times the usual: the uncached share and, where no
    cache is seen, the cost of a prompt.
    """
    load = signs.grown.get(Cause.LOAD)
    more = 0.0 if load is None else max(0.0, load.value - 1.0) * chance_grown(load, 1.0)
    explained = (1.0 + more / (1.0 - MOST_CACHED)) / (1.0 + more)
    return Factor(*(each / explained for each in signs.grown[cause]))


def _give_rest(given: _Given, waited_in: Blame | None, facts: Facts, signs: Signs, lead: Root | None) -> float:
    """Give what is not decided to the open incident, to the queue or to `unattributed`. Returns the incident's part."""
    inherited = 0.0
    waits_inside = (signs.engine_waiting or 0.0) >= 1.0
    if lead is not None and not _may_lead(lead, waited_in, facts, signs):
        lead = None
    if signs.mute and lead is None:
        given.give_all({unknown(Unknown.UNCLEAR): 1.0})
        return 0.0
    limited = signs.limited or signs.fewer_slots
    if limited and (lead is None or not facts.left_behind or _outlasts(lead, signs)):
        root, share = root_of(Cause.KV if signs.kv_full else Cause.SLOTS), WAITS
    elif lead is not None:
        # A queue that nothing tells from dearer work is a guess for each miss, also while it leads.
        guessed = lead.phase == Blame.QUEUE and not facts.left_behind
        root, share = lead, WAITS * (_seen(signs) if guessed else 1.0)
        inherited = given.left * share
    elif signs.preempts or signs.kv_full:
        root, share = root_of(Cause.PREEMPTION if signs.preempts else Cause.KV), WAITS
    elif signs.young:
        given.give_all({unknown(Unknown.YOUNG): 1.0})
        return 0.0
    elif waits_inside or _load_has_grown(signs):
        root = root_of(Cause.SLOTS if waits_inside else Cause.LOAD)
        share = (WAITS if waits_inside or waited_in is Blame.QUEUE else MAYBE_WAITS) * _seen(signs)
    else:
        given.give_all({unknown(Unknown.UNCLEAR): 1.0})
        return 0.0
    given.give_all({root: share, unknown(Unknown.UNCLEAR): 1.0 - share})
    return inherited


def _load_has_grown(signs: Signs) -> bool:
    load = signs.grown.get(Cause.LOAD)
    return load is not None and chance_grown(load, WORTH_NAMING[Cause.LOAD]) > 0.5


def _may_lead(lead: Root, waited_in: Blame | None, facts: Facts, signs: Signs) -> bool:
    """Whether the open incident can explain this wait too: dear or long prompts cannot where few are computed, unless they
    left a backlog behind, a queue cannot where no request gets output, and a delivery cannot where it held nothing back.
    """
    if lead.cause == Cause.REJECTED:
        return False  # who was let in waited for something else
    if lead.phase == Blame.STREAM:
        return _may_be_held(waited_in, facts, signs)
    if lead.phase == Blame.QUEUE:
        return not signs.mute
    if lead.phase == Blame.PREFILL:
        return facts.left_behind or _computes(signs) > 0.0
    return lead.phase != Blame.UNATTRIBUTED


def _claims(fault: Cause, signs: Signs) -> float:
    """The chance that a fault broke the requests whose life it overlaps. A new process breaks those that wait only while it is cold, and then
    all its work costs more: one cost, an empty cache or fewer slots alone are what changed with it, such as a setting.
    """
    return signs.cold if fault is Cause.RESTART else 1.0


def _outlasts(lead: Root, signs: Signs) -> bool:
    """Whether the backlog outlasts what began it. After a surge of load, once the load is as usual, it would drain; after a
    fault of the engine, it would unless the engine now has fewer slots.
    """
    if lead.phase == Blame.ENGINE:
        return signs.fewer_slots
    return signs.stands and lead == root_of(Cause.LOAD) and has_grown(lead, signs) is False


def _seen(signs: Signs) -> float:
    """The chance that nothing unseen has grown: each cost that nothing tells may be the reason as well."""
    return 1.0 / (1.0 + signs.costs_unseen)


def _computes(signs: Signs) -> float:
    """The chance that requests wait for prompts to be computed: only if that is what the engine does meanwhile."""
    return 1.0 if signs.computes_ratio is None else between(signs.computes_ratio, *COMPUTES)


def _mostly(waited: Mapping[Blame, float]) -> Blame | None:
    phase = max(waited, key=waited.__getitem__, default=None)
    return phase if phase is not None and waited[phase] > MOST_WAIT else None
