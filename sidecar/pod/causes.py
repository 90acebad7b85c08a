"""The closed table of what can break: each cause with its phase, and each phase with its receivers.

Every part of the product that names a fault asks this table, so that a page, its runbook, its route and the bench mean
the same. It refuses to know evidence: which cause it was is decided elsewhere.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from sidecar.objectives.attribution import SIDECAR, Blame


class Cause(StrEnum):
    """A fault on a pod: the closed set of the causes of a root (design section 7)."""

    LOAD = "load"
    """More work arrives than before; steps are as dear as they were."""
    SLOTS = "slots"
    """Requests wait although the KV cache has room: the batch limit is reached."""
    KV = "kv"
    """Requests wait for KV blocks."""
    PREEMPTION = "preemption"
    """Running requests lose their KV blocks and are computed again."""
    LONGER_OUTPUTS = "longer_outputs"
    """Answers are longer, so that each keeps its slot and its blocks for longer."""
    REJECTED = "rejected"
    """The engine, or a limit of the sidecar, turns requests away: 429, 503 or 529. Why there is no room for them is another question."""
    PREFILL_COST = "prefill_cost"
    """The same uncached prompt tokens take longer to compute."""
    UNCACHED = "uncached"
    """More of the same prompts has to be computed, because less of them is cached."""
    PROMPT_MIX = "prompt_mix"
    """Prompts are longer than they were."""
    FRONT_END = "front_end"
    """Requests wait while slots are free: tokeniser, template, API server, network to the engine."""
    DECODE_COST = "decode_cost"
    """A step of the same sequences and contexts takes longer."""
    KV_TRANSFER = "kv_transfer"
    """The KV cache takes longer from the prefill worker to the decode worker."""
    HOP = "hop"
    """Something between the engine and the sidecar collects tokens."""
    CLIENT = "client"
    """Clients read more slowly than tokens come."""
    DOWN = "down"
    """The engine's process is gone, or refuses connections."""
    RESTART = "restart"
    """A new process warms up: its cache is empty, its kernels are compiled."""
    SILENCE = "silence"
    """The engine is up and sends nothing, to one stream or to all, and its work does not explain that."""
    ERRORS = "errors"
    """The engine answers with errors, or breaks off answers."""
    SIDECAR_LATE = "sidecar_late"
    """The sidecar itself ran late: it lacked CPU."""
    SIDECAR_BUDGET = "sidecar_budget"
    """A limit of the sidecar was reached: files, memory, connections."""


class Per(StrEnum):
    """The unit of the work of which a size says how many times its usual value it is."""

    SECOND = "second"
    REQUEST = "request"
    TOKEN = "token"  # noqa: S105  a token of text
    STEP = "step"
    """A step of the engine, where nothing tells how many tokens it gives."""


SIZED_PER: Mapping[Cause, tuple[Per, ...]] = {
    Cause.LOAD: (Per.SECOND,),
    Cause.PROMPT_MIX: (Per.REQUEST,),
    Cause.UNCACHED: (Per.REQUEST,),
    Cause.LONGER_OUTPUTS: (Per.REQUEST,),
    Cause.PREFILL_COST: (Per.TOKEN,),
    Cause.DECODE_COST: (Per.TOKEN, Per.STEP),
}
"""Each cause that is a ratio to a usual value, with the units of it."""


WORTH_NAMING: Mapping[Cause, float] = {
    Cause.LOAD: 1.15,
    Cause.PROMPT_MIX: 1.12,
    Cause.UNCACHED: 1.15,
    Cause.LONGER_OUTPUTS: 1.2,
    Cause.PREFILL_COST: 1.2,
    Cause.DECODE_COST: 1.2,
}
"""A cause below this many times its usual value explains no miss. Lengths are counted, and costs are estimated from
models with errors of their own."""
DEARER = 1.2
"""The same for a cost, whatever it is needed for."""


def is_worth_naming(cause: Cause, ratio: float) -> bool:
    """Whether a cause with this number over its usual one may be named. One that is not in `WORTH_NAMING` has no such number."""
    return ratio > WORTH_NAMING.get(cause, 0.0)


NO_CAUSE = "none"
"""Value of the label `cause` where nothing stands out."""


class Unknown(StrEnum):
    """Reasons for which a miss has no root: the causes of `unattributed`."""

    YOUNG = "young"
    """There is no baseline yet to compare the present with."""
    UNCLEAR = "unclear"
    """There is evidence for nothing, or for several causes alike."""


CAUSES_BY_PHASE: Mapping[str, tuple[Cause, ...]] = {
    Blame.QUEUE: (Cause.LOAD, Cause.SLOTS, Cause.KV, Cause.PREEMPTION, Cause.LONGER_OUTPUTS, Cause.REJECTED),
    Blame.PREFILL: (Cause.PREFILL_COST, Cause.UNCACHED, Cause.PROMPT_MIX),
    Blame.FIRST_TOKEN: (Cause.FRONT_END,),
    Blame.DECODE: (Cause.DECODE_COST, Cause.KV_TRANSFER),
    Blame.STREAM: (Cause.HOP, Cause.CLIENT),
    Blame.ENGINE: (Cause.DOWN, Cause.RESTART, Cause.SILENCE, Cause.ERRORS),
    SIDECAR: (Cause.SIDECAR_LATE, Cause.SIDECAR_BUDGET),
}
"""Phase of a root to its causes. A TPOT miss of wide steps that are not dearer is `load`: the capacity team's.
`unattributed` has no cause: it is the phase of a fault that is not known."""

PHASE_OF: Mapping[Cause, str] = {cause: phase for phase, causes in CAUSES_BY_PHASE.items() for cause in causes}

SIZED_ROOTS = tuple((str(PHASE_OF[cause]), str(cause), str(per)) for cause, units in SIZED_PER.items() for per in units)
"""Every phase, cause and unit that a size can have."""

ROOT_PHASES = (*(blame.value for blame in Blame), SIDECAR)
"""The closed set of the label `phase` of roots: seven phases of a fault, and `unattributed`."""
ROOTS = (
    *((str(phase), str(cause)) for phase, causes in CAUSES_BY_PHASE.items() for cause in causes),
    *((Blame.UNATTRIBUTED.value, str(reason)) for reason in Unknown),
)
"""Every phase and cause that a miss can be decided for."""


class Root(NamedTuple):
    """Phase and cause, both label values."""

    phase: str
    cause: str


def root_of(cause: Cause) -> Root:
    """The root with this cause."""
    return Root(str(PHASE_OF[cause]), str(cause))


def unknown(reason: Unknown) -> Root:
    """The root of a miss that cannot be told, for this reason."""
    return Root(Blame.UNATTRIBUTED.value, str(reason))


def receiver(phase: str, severity: str) -> str:
    """Name of the Alertmanager receiver of this phase. `severity`: `page` or `ticket`."""
    return f"{phase}-{severity}"
