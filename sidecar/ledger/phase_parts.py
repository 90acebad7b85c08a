"""The parts of a phase, as an engine states them: a router's wait within the queue, the move of a KV cache before the first token.

A closed set, each part in one phase. One is estimated, the wait for a decode worker (`observe/admissions.py`). What is stated is never stretched: the rest of its phase stays the rest, so that parts and rest add up to
the phase. Parts that are together longer than their phase contradict it, and of that phase none is known. Pure; it knows no engine.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from sidecar.ledger.account import Phase, PhasePart, Share


class Part(StrEnum):
    """The parts that a metric and the log name."""

    ROUTER = "router"
    """In front of the workers: until the request was sent to one."""
    PREFILL_QUEUE = "prefill_queue"
    """At the worker of the prefill, until its engine began."""
    DECODE_ADMISSION = "decode_admission"
    """At the worker of the decode, until it had room for the request."""
    COMPUTE = "compute"
    """The prompt's own computation."""
    KV_TRANSFER = "kv_transfer"
    """The KV cache's move from the worker of the prefill to that of the decode."""


REST = "rest"
"""The time of a phase that no stated part covers."""
PHASE_OF_PART: Mapping[Part, Phase] = {
    Part.ROUTER: Phase.QUEUE,
    Part.PREFILL_QUEUE: Phase.QUEUE,
    Part.DECODE_ADMISSION: Phase.QUEUE,
    Part.COMPUTE: Phase.PREFILL,
    Part.KV_TRANSFER: Phase.FIRST_TOKEN,
}
PARTED = tuple(dict.fromkeys(PHASE_OF_PART.values()))
"""The phases that have parts."""
ROUNDED_SECONDS, ROUNDED_RATIO = 0.002, 0.01
"""Parts may exceed their phase by the larger of both: so far may a report exceed the wire, and its phases are then cut to fit."""


class StatedPart(NamedTuple):
    """A part as a report states it."""

    part: Part
    seconds: float


def parts_of(shares: Sequence[Share], stated: Sequence[StatedPart]) -> tuple[PhasePart, ...]:
    """The stated parts of the phases in a ledger, and of each of these phases the rest. `stated`: finite seconds, at least 0."""
    found: list[PhasePart] = []
    for phase in PARTED:
        own = [part for part in stated if PHASE_OF_PART[part.part] is phase]
        share = next((share.seconds for share in shares if share.phase is phase), None)
        if not own or share is None:
            continue
        excess = sum(part.seconds for part in own) - share
        if excess > max(ROUNDED_SECONDS, ROUNDED_RATIO * share):
            continue
        left = max(0.0, share)
        for part in own:
            seconds = min(part.seconds, left)
            left -= seconds
            found.append(PhasePart(phase, part.part.value, seconds))
        found.append(PhasePart(phase, REST, left))
    return tuple(found)
