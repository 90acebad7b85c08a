"""The numbers that the canary's gate asks for, and how the growth of their counters is asked for, block by block.

It knows PromQL and which counters hold what is bad. `grafana/gate_query.py` makes the gate's query of it, for Argo Rollouts, Flagger and
the dashboard; `sidecar compare` sets the same numbers beside each other. Selectors come as label matchers.

Counters are read at the ends of blocks, and their differences are exact: `increase()` would extrapolate. `irate()` of a
subquery with two readings is their difference, and counts from 0 after a restart. It needs no recording rule, and scrapes every minute
or more often.
"""

from enum import StrEnum
from typing import NamedTuple

from sidecar.metrics.catalogue import (
    ANSWERS_TOTAL,
    EMPTY_ANSWERS_TOTAL,
    GOOD_REQUESTS_TOTAL,
    REQUESTS_TOTAL,
    SLO_MISSES_TOTAL,
    SLO_REQUESTS_TOTAL,
)
from sidecar.metrics.histogram_forms import of_any_form
from sidecar.objectives.objective import Objective
from sidecar.timeline.finish import Finish


BLOCK_MINUTES = 2
"""Length of a block in minutes. Longer blocks catch longer clumps, and leave fewer of them for the spread:
`python -m bench.canary` prints what 1, 2, 3 and 5 minutes do."""
ERRORS = 'outcome=~"engine_.*|rejected|sidecar_error"'
"""Outcomes that are failures of the version. Cancels and client errors are not; a late cancel is a miss."""

ANSWERED = 'outcome!="accepted"'
"""All but receipts for work in the background: they are no answers."""


class Counted(NamedTuple):
    """A counter, or the sum or count of a histogram, and the label matchers of the part of it that is meant, without braces."""

    metric: str
    matchers: str = ""


class Question(NamedTuple):
    """Which requests are counted, of which requests, and whether more of them are worse; else the bad ones are the others."""

    counted: Counted
    of: Counted
    more_is_worse: bool = True


class Asked(StrEnum):
    """The gate's questions, by the name that rollouts and texts use."""

    TTFT_MISSES = "ttft-misses"
    TPOT_MISSES = "tpot-misses"
    E2E_MISSES = "e2e-misses"
    ERRORS = "errors"
    GOODPUT = "goodput"
    EMPTY_ANSWERS = "empty-answers"
    REPEATED_ANSWERS = "repeated-answers"


CUT_ANSWERS = "cut-answers"
"""The question beside the gate, by the name that texts use. It fails no rollout."""


def _misses(objective: Objective) -> Question:
    matchers = f'objective="{objective}"'
    return Question(Counted(SLO_MISSES_TOTAL.name, matchers), Counted(SLO_REQUESTS_TOTAL.name, matchers))


def _finished(reason: Finish) -> Question:
    """Answers with this finish reason, of all answers."""
    return Question(Counted(ANSWERS_TOTAL.name, f'finish_reason="{reason}"'), Counted(ANSWERS_TOTAL.name))


OBJECTIVE_OF = {
    Asked.TTFT_MISSES: Objective.TTFT,
    Asked.TPOT_MISSES: Objective.TPOT,
    Asked.E2E_MISSES: Objective.E2E,
}
"""The questions that only a lane with this objective can answer."""
STALL_MISSES, STALL_QUESTION = "stall-misses", _misses(Objective.STALL)
"""A question beside the gate as well: an answer that stood still is no good one, so that goodput fails such a rollout."""
GATE_QUESTIONS = {
    **{asked: _misses(objective) for asked, objective in OBJECTIVE_OF.items()},
    Asked.ERRORS: Question(Counted(REQUESTS_TOTAL.name, ERRORS), Counted(REQUESTS_TOTAL.name, ANSWERED)),
    Asked.GOODPUT: Question(
        Counted(GOOD_REQUESTS_TOTAL.name), Counted(REQUESTS_TOTAL.name, ANSWERED), more_is_worse=False
    ),
    # Faster but worse is no better: an answer that says nothing is quick, and one that repeats itself is cut short.
    Asked.EMPTY_ANSWERS: Question(Counted(EMPTY_ANSWERS_TOTAL.name), Counted(ANSWERS_TOTAL.name)),
    Asked.REPEATED_ANSWERS: _finished(Finish.REPETITION),
}
CUT_QUESTION = _finished(Finish.LENGTH)
"""Asked in the same form. Whether a longer or shorter answer is worse depends on the change, so that a person judges, and the
limit of the gate stays that of its own questions."""


class Grown(NamedTuple):
    """Writes sums of counters by these labels, ", " between them; "" for one sum without labels."""

    by: str

    def sum(self, counted: Counted, matchers: tuple[str, ...]) -> str:
        """By how much a sum of counters grew within a block, per second; where blocks end at multiples of their length.

        The subquery is longer by 1 ms, because Prometheus 3 leaves out a reading at its very beginning, and 2 does not.
        """
        inside = ",".join((*matchers, *((counted.matchers,) if counted.matchers else ())))
        by = f" by ({self.by}) " if self.by else ""
        plain = f"{counted.metric}{{{inside}}}"
        read = plain if (either := of_any_form(plain)) == plain else f"({either})"
        return f"sum{by}(irate({read}[{BLOCK_MINUTES}m1ms:{BLOCK_MINUTES}m]))"
