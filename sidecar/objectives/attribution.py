"""The vote of one request that missed an objective: the phase that the miss is attributed to (design section 7).

Arithmetic on one closed ledger. The vote says where the request spent its time. It does not say what broke: its root
does (`pod/`). Refuses to guess: a ledger without a split votes `unattributed`.
"""

from collections.abc import Mapping
from enum import StrEnum
from math import inf
from typing import NamedTuple

from sidecar.ledger.account import Ledger, Phase
from sidecar.objectives.objective import TPOT, TTFT, Aims, Objective
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome


class Blame(StrEnum):
    """The closed set of the label `phase` of votes, verdicts, alerts and routes: the ledger's phases, and the engine itself."""

    QUEUE = "queue"
    PREFILL = "prefill"
    FIRST_TOKEN = "first_token"  # noqa: S105  a phase, not a secret
    UNATTRIBUTED = "unattributed"
    DECODE = "decode"
    STREAM = "stream"
    ENGINE = "engine"
    """The engine failed or went silent; this is not a phase of a request that it served."""


_QUEUE = Phase.QUEUE
_BLAME_OF = {phase: Blame(phase.value) for phase in Phase}
"""Both are read for each request that missed: Python 3.11 takes ten times as long to find a member by its name or value."""

SIDECAR = "sidecar"
"""One further value of an alert's `phase`: the alert is about the sidecar itself."""

VOTES: Mapping[Objective, tuple[Blame, ...]] = {
    Objective.TTFT: (
        *(Blame.QUEUE, Blame.PREFILL, Blame.FIRST_TOKEN, Blame.UNATTRIBUTED),
        *(Blame.STREAM, Blame.ENGINE),
    ),
    Objective.TPOT: (Blame.DECODE, Blame.STREAM, Blame.UNATTRIBUTED, Blame.ENGINE),
    Objective.E2E: (*(Blame.QUEUE, Blame.PREFILL, Blame.DECODE, Blame.UNATTRIBUTED), Blame.ENGINE),
    Objective.STALL: (Blame.DECODE, Blame.STREAM, Blame.UNATTRIBUTED, Blame.ENGINE),
}
"""Votes that a miss of each objective can cast. Their counter children exist from the start, at 0."""

E2E_SHARES: Mapping[Phase, float] = {
    Phase.QUEUE: 0.10,
    Phase.PREFILL: 0.20,
    Phase.DECODE: 0.65,
    Phase.UNATTRIBUTED: 0.05,
}
"""Share of an e2e threshold that each phase may use (ratio). Decoding takes most of a whole answer. The remaining work
(front end, network) is no phase of a non-streamed request: `unattributed` holds it."""

FEWEST_FOR_TRANSFER = 8
"""Output tokens of an answer from which on the gap before its second output is told from any other gap."""
FEWEST_PASSED_BY = 3.0
"""Events of each other stream in that gap from which on the answer waited alone. Without a transfer there is about one."""


class SecondOutput(NamedTuple):
    """The second output of an answer."""

    after_seconds: float
    """Seconds since the first one."""
    passed_by: float | None
    """Events that each other stream had in between; None if there was no other."""


_SPOILED = {
    Outcome.REJECTED: Blame.QUEUE,
    Outcome.ENGINE_ERROR: Blame.ENGINE,
    Outcome.ENGINE_UNREACHABLE: Blame.ENGINE,
    Outcome.ENGINE_TIMEOUT: Blame.ENGINE,
    Outcome.ENGINE_TRUNCATED: Blame.ENGINE,
}


def blame_of_outcome(outcome: Outcome) -> Blame:
    """The vote of a request that did not end well. It has no ledger: no report comes after its client gave up."""
    return _SPOILED.get(outcome, Blame.UNATTRIBUTED)


def blame_of_ledger(objective: Objective, ledger: Ledger | None, marks: Marks, aims: Aims) -> Blame:
    """The vote of a request that ended well and missed this objective; `aims` holds its threshold. A stall has votes of its own
    (`stall.py`), because no ledger holds a gap.
    """
    aim = aims.aim(objective)
    if ledger is None or aim is None:
        return Blame.UNATTRIBUTED
    if objective is TPOT:
        return _tpot(ledger, marks, aim.threshold_seconds)
    # An answer that was a stream after all has further phases, which have no share of an e2e threshold.
    shares = aims.shares if objective is TTFT else E2E_SHARES
    blamed, most, is_split = _QUEUE, -inf, False
    for part in ledger.shares:  # in the order of a request's life: of equals, the first one is blamed
        phase = part.phase
        share = shares.get(phase)
        if phase is _QUEUE:
            is_split = True
        if share is not None and (over := part.seconds - share * aim.threshold_seconds) > most:
            blamed, most = phase, over
    if not is_split:
        return Blame.UNATTRIBUTED
    # Output that was held back is part of the ledger's stream phase, which has no share of the threshold.
    return Blame.STREAM if objective is TTFT and ledger.held_seconds > most else _BLAME_OF[blamed]


def client_held(marks: Marks, aims: Aims) -> bool:
    """Whether a TPOT was missed because its client did not read: known at the end, before the ledger is closed."""
    if aims.tpot is None:
        return False
    return _held(marks, aims.tpot.threshold_seconds, marks.paused_seconds) is True


def waited_between(marks: Marks, aims: Aims, second: SecondOutput) -> bool:
    """Whether at least half of the excess of a TPOT lies between its first output and its second, as where the KV cache
    is handed from one worker to another. A long step, with a prompt of another request in it, holds up all streams alike:
    that is no transfer.
    """
    if aims.tpot is None or marks.usage is None or (marks.usage.completion_tokens or 0) < FEWEST_FOR_TRANSFER:
        return False
    if second.passed_by is not None and second.passed_by < FEWEST_PASSED_BY:
        return False
    held = second.after_seconds - aims.tpot.threshold_seconds
    return _held(marks, aims.tpot.threshold_seconds, held) is True


def _tpot(ledger: Ledger, marks: Marks, threshold_seconds: float) -> Blame:
    """`stream` if the client or a hop held output back for at least half of the excess, else `decode`."""
    held = _held(marks, threshold_seconds, marks.paused_seconds + ledger.held_seconds)
    if held is None:
        return Blame.UNATTRIBUTED
    return Blame.STREAM if held else Blame.DECODE


def _held(marks: Marks, threshold_seconds: float, held_seconds: float) -> bool | None:
    """Whether these seconds are at least half of the excess of a TPOT; None if that is unknown."""
    tokens = None if marks.usage is None else marks.usage.completion_tokens
    if marks.first_token_at is None or marks.last_token_at is None or tokens is None:
        return None
    excess = marks.last_token_at - marks.first_token_at - threshold_seconds * (tokens - 1)
    return held_seconds > 0 and held_seconds >= 0.5 * excess
