"""The wait for a place at the worker of a decode, within the seconds that an engine states for the KV cache's move. Pure.

Dynamo states one number from the first token of the prefill's worker to that of the decode's. In it are the cache's move and, where the worker
of the decode has no place, the wait for one: a queue, for which more workers help, while a slow move wants a look at the network. The number
alone does not tell them apart. Two things together do:

- Meanwhile as many streams ran as ever have. Else there was a place, and the move itself was slow.
- Other requests were moved as usual a moment ago. Where hardly any is, either every request waits or every move is slow, and nothing tells
  which: then the number stays as it is stated, an upper bound of the move.

Then what the move took beyond the usual (`PromptCosts.behind`) is the wait, an estimate. Refuses to take more than the stated move: what else
came before the first token (a front end, a hop) is none.
"""

from collections import deque

from sidecar.engines.estimator import UNQUEUED
from sidecar.ledger.account import Estimate
from sidecar.ledger.report import EngineReport


RECENT_MOVES, FEWEST_USUAL = 20, 2
"""So many of the last so many moves must have been as usual."""
USUAL_RATIO, USUAL_SECONDS = 1.25, 0.01
"""A move is as usual up to this factor and this time more."""


def may_hold_a_wait(estimate: Estimate | None, *, moved: bool) -> bool:
    """Whether the time behind a prefill may hold such a wait, and so tells not what is usual. `moved`: between two workers. While no usual time is
    known, any is better than none.
    """
    return moved and estimate is not None and estimate.met_full and estimate.behind_seconds > 0.0


class Admissions:
    """The waits at one engine. A call takes a few us."""

    def __init__(self) -> None:
        self._usual: deque[bool] = deque(maxlen=RECENT_MOVES)
        """Whether each of the last moves was as usual."""

    def seconds(self, known: EngineReport, estimate: Estimate, behind_seconds: float) -> float:
        """Seconds of the stated move that are taken for a wait: 0 where there was none, and where none is told from the move, which then stays as
        it is stated. Remembers whether this move was as usual. `behind_seconds`: from queue and prefill to the first token.
        """
        usual = estimate.behind_seconds
        if not usual or known.kv_transfer_seconds is None:
            return 0.0
        moved = min(known.kv_transfer_seconds, behind_seconds)
        self._usual.append(moved <= USUAL_RATIO * usual + USUAL_SECONDS)
        if not estimate.met_full or estimate.basis in UNQUEUED or sum(self._usual) < FEWEST_USUAL:
            return 0.0
        return max(0.0, moved - usual)
