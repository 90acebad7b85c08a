"""Which phase a miss is blamed on: the vote of the very request that missed (design section 7).

Arithmetic on one closed ledger. It says where the request waited; what broke is the verdict's business, made of many votes
and of what the whole engine shows (`alert_rules/`). Refuses to guess: a ledger that cannot be split votes `unattributed`.
"""

from collections.abc import Mapping
from enum import StrEnum

from sidecar.ledger.account import Ledger, Phase
from sidecar.slo.objective import Aims, Objective
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
    """It failed, or went silent: no phase of a request that it served."""


SIDECAR = "sidecar"
"""The one more value that an alert's `phase` has, where the alert is about the sidecar itself."""

VOTES: Mapping[Objective, tuple[Blame, ...]] = {
    Objective.TTFT: (
        *(Blame.QUEUE, Blame.PREFILL, Blame.FIRST_TOKEN, Blame.UNATTRIBUTED),
        *(Blame.STREAM, Blame.ENGINE),
    ),
    Objective.TPOT: (Blame.DECODE, Blame.STREAM, Blame.UNATTRIBUTED, Blame.ENGINE),
    Objective.E2E: (*(Blame.QUEUE, Blame.PREFILL, Blame.DECODE, Blame.UNATTRIBUTED), Blame.ENGINE),
}
"""What a miss of each objective can be blamed on: the children that stand at 0 from the start."""

E2E_SHARES: Mapping[Phase, float] = {
    Phase.QUEUE: 0.10,
    Phase.PREFILL: 0.20,
    Phase.DECODE: 0.65,
    Phase.UNATTRIBUTED: 0.05,
}
"""How an e2e threshold is meant to be spent: of a whole answer, decoding is most. The rest (front end, network) has no phase there."""

_SPOILED = {
    Outcome.REJECTED: Blame.QUEUE,
    Outcome.ENGINE_ERROR: Blame.ENGINE,
    Outcome.ENGINE_UNREACHABLE: Blame.ENGINE,
    Outcome.ENGINE_TIMEOUT: Blame.ENGINE,
    Outcome.ENGINE_TRUNCATED: Blame.ENGINE,
}


def blame_of_outcome(outcome: Outcome) -> Blame:
    """The vote of a request that did not end well and so has no ledger: whoever gave up waiting never gets a report."""
    return _SPOILED.get(outcome, Blame.UNATTRIBUTED)


def blame_of_ledger(objective: Objective, ledger: Ledger | None, marks: Marks, aims: Aims) -> Blame:
    """The vote of a request that ended well and missed this objective, of which `aims` has a promise."""
    aim = aims.aim(objective)
    if ledger is None or aim is None:
        return Blame.UNATTRIBUTED
    if objective is Objective.TPOT:
        return _tpot(ledger, marks, aim.threshold_seconds)
    seconds = {share.phase: share.seconds for share in ledger.shares}
    if Phase.QUEUE not in seconds:
        return Blame.UNATTRIBUTED
    if objective is Objective.TTFT:
        spent = {phase: seconds[phase] for phase in aims.shares if phase in seconds}
        # What was held back stands in the ledger's stream; nothing of the threshold is meant for it.
        return _most_over({**spent, Phase.STREAM: ledger.held_seconds}, aims.shares, aim.threshold_seconds)
    # An answer that was a stream after all has phases besides, for which nothing of an e2e threshold is meant.
    spent = {phase: seconds[phase] for phase in E2E_SHARES if phase in seconds}
    return _most_over(spent, E2E_SHARES, aim.threshold_seconds)


def _most_over(spent: Mapping[Phase, float], shares: Mapping[Phase, float], threshold_seconds: float) -> Blame:
    over = {phase: seconds - shares.get(phase, 0.0) * threshold_seconds for phase, seconds in spent.items()}
    return Blame(max(over, key=over.__getitem__).value)


def _tpot(ledger: Ledger, marks: Marks, threshold_seconds: float) -> Blame:
    """`stream` if what the client or a hop held back is at least half of the excess, else `decode`."""
    tokens = None if marks.usage is None else marks.usage.completion_tokens
    if marks.first_token_at is None or marks.last_token_at is None or tokens is None:
        return Blame.UNATTRIBUTED
    excess = marks.last_token_at - marks.first_token_at - threshold_seconds * (tokens - 1)
    held_back = marks.paused_seconds + ledger.held_seconds
    return Blame.STREAM if held_back > 0 and held_back >= 0.5 * excess else Blame.DECODE
