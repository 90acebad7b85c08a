"""The signs of a fault on one pod at one instant: what has grown, what is full, what failed. Pure data.

`pod.py` collects them, and `reasons.py` reads them. It refuses to know requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import WORTH_NAMING, Cause, Root
from sidecar.pod.factor import Factor


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the engine with a beginning and an end. It can only have broken requests that lived during it."""

    cause: Cause
    began_at: float
    ended_at: float = inf

    def overlaps(self, began_at: float, ended_at: float) -> bool:
        """Whether a life from `began_at` to `ended_at` shares an instant with it."""
        return self.began_at <= ended_at and began_at <= self.ended_at


@dataclass(frozen=True, slots=True)
class Signs:
    """All signs of one pod."""

    at: float = 0.0
    grown: Mapping[Cause, Factor] = field(default_factory=dict)
    """Each cause that is a ratio to its usual value, as far as it is known."""
    per_step: bool = False
    """The cost of decode, if it is known, is that of a step: nothing tells how many tokens a step gives."""
    together: Factor | None = None
    """Output events per read, over the usual number: something collects tokens if it is well above 1."""
    collected_seconds: float | None = None
    """Mean time in which the events of one read come at their usual pace: merging held the first one back for no longer."""
    faults: tuple[Fault, ...] = ()
    reports: bool = False
    """The engine reports the phases of most answers."""
    kv_full: bool = False
    """Requests wait in the engine, and its KV cache has no room for them."""
    preempts: bool = False
    """At least one request in twenty is preempted."""
    preempted: bool = False
    """At least one request was preempted in the last minute: that stream stands still, however few there are."""
    front_end: bool = False
    """Requests wait although the engine has free slots and computes no prompt."""
    computes_ratio: float | None = None
    """Share of the time in which requests waited that the engine spent in steps with prompts in them; None: unknown."""
    mute: bool = False
    """Requests wait, and no output came to any for as long as a stall takes: an engine that works off a queue would begin
    some answers."""
    maybe_mute: bool = False
    """Requests wait, and no output came to any for as long as a stall takes, but a request whose output is not seen is in
    flight: the engine is busy with it, or it hangs."""
    limited: bool = False
    """Requests wait in the engine while it could compute more: for a slot, or for KV blocks."""
    fewer_slots: bool = False
    """Requests wait in the engine, and it ran fewer at once than it usually did: its batch limit was lowered. For a minute; for the last seconds
    alone where the engine itself says that requests waited in them, and it computed few prompts.
    """
    waited: Mapping[Blame, float] = field(default_factory=dict)
    """Shares of the phases in which the misses of the last minute waited, of those that are known; they add up to 1."""
    engine_waiting: float | None = None
    """Requests in the engine's own queue; None if unknown."""
    cold: float = 1.0
    """The chance, at most, that all work of the engine costs more than usually: decodes and prompts alike. 1 while no usual values are known.
    """
    unsure: frozenset[Cause] = frozenset()
    """The costs in `grown` that have not grown by a fit of what was learned, and have by another one that explains it as
    well: the present work has a shape that calm times did not have."""
    cache_unseen: bool = False
    """No answer has stated that tokens of its prompt were cached."""
    young: bool = False
    """No usual values are known yet."""

    def has_grown(self, root: Root) -> bool | None:
        """Whether the cause of this root has grown enough to be named; None: its ratio is not known, or not surely below that."""
        factor = next((factor for cause, factor in self.grown.items() if cause == root.cause), None)
        if factor is None:
            return None
        return factor.value > WORTH_NAMING[Cause(root.cause)] or (None if root.cause in self.unsure else False)

    def direct(self, since: float) -> tuple[str, ...]:
        """Names of the signs that are no ratio: those that are there now, and the faults of the time since this instant."""
        names = ("kv_full", "preempts", "front_end", "mute", "maybe_mute", "limited", "fewer_slots", "young")
        return (
            *(name for name in names if getattr(self, name)),
            *(str(each.cause) for each in self.faults if each.overlaps(since, self.at)),
        )
