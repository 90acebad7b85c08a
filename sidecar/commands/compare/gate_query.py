"""The canary's gate as one PromQL expression: the arithmetic of `sequential.py` over counters of both versions.

It knows PromQL and which counters hold what is bad. It refuses to know who asks: selectors come as label matchers, so
that Argo Rollouts, Flagger, a dashboard and `sidecar compare` write the same expression around their own words.

Counters are read at the ends of blocks, and their differences are exact: `increase()` would extrapolate. `irate()` of a
subquery with two readings is their difference, and counts from 0 after a restart; that it is per second changes nothing but
the half request, because the p value has no unit. Nothing tells the expression when the rollout began: it looks at the minutes in which
both versions had requests. It needs no recording rule, and scrapes every minute or more often.
"""

from enum import StrEnum
from math import floor
from typing import NamedTuple

from sidecar.commands.compare.sequential import BLOCK_MINUTES, HALF_A_REQUEST, LEAST, MOST_SHARE, NO_EVIDENCE
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


ERRORS = 'outcome=~"engine_.*|rejected|sidecar_error"'
"""Outcomes that are failures of the version. Cancels and client errors are not; a late cancel is a miss."""

ANSWERED = 'outcome!="accepted"'
"""All but receipts for work in the background: they are no answers."""

_HALF_AS_RATE = f"{HALF_A_REQUEST:g} / {60 * BLOCK_MINUTES}"
"""Half a request as `irate()` of a block tells it."""


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
FAILED_OF_INNOCENT = 0.01
"""All questions together fail at most this share of innocent rollouts, however often they are asked."""
FAILS_BELOW = floor(1e4 * FAILED_OF_INNOCENT / len(GATE_QUESTIONS)) / 1e4
"""A canary is failed at a p value below this, of any question."""

CUT_QUESTION = _finished(Finish.LENGTH)
"""Asked in the same form. Whether a longer or shorter answer is worse depends on the change, so that a person judges, and the
limit of the gate stays that of its own questions."""


class Versions(NamedTuple):
    """Label matchers, without braces: of both versions' pods, and of the canary's. `common`: of namespace, lane, ..."""

    both: str
    canary: str
    common: str = ""


def gate_query(question: Question, versions: Versions, window: str, by: str = "") -> str:
    """One expression: the always-valid p value for each combination of the labels `by`; one series without labels if "".

    `window`: a duration at least as long as the rollout. No answer if the versions had no requests in the same minutes.
    """
    canary, both = ((*((versions.common,) if versions.common else ()), one) for one in (versions.canary, versions.both))
    grown, over = Grown(by), f"[{window}:{BLOCK_MINUTES}m]"
    share = f"({grown.sum(question.of, canary)} / {grown.sum(question.of, both)} > 0 <= {MOST_SHARE:g})"
    counted = grown.sum(question.counted, canary)
    its_share = f"{grown.sum(question.counted, both)} * {share}"
    # If the others are the bad ones, the excess of good ones is missing among them. This form is short enough for an address.
    due = its_share if question.more_is_worse else f"({grown.sum(question.of, canary)} - {its_share})"
    excess = f"({counted} - {its_share})" if question.more_is_worse else f"({its_share} - {counted})"
    explained = (
        f"clamp_min(sum_over_time({excess}{over}) - {_HALF_AS_RATE}, 0) ^ 2 / clamp_min(sum_over_time(({due}){over})"
        f" * sum_over_time(({excess} ^ 2 / ({due} > {LEAST:g})){over}), {LEAST:g})"
    )
    informative = f"sum_over_time(({due} > bool {LEAST:g}){over})"
    left = f"(1 - {explained} / (1 + 1 / {informative}))"
    p = f"clamp_max({NO_EVIDENCE:g} * sqrt((1 + {informative}) * {left} ^ {informative}), 1)"
    # Without a bad request there is no spread, and no p value by it.
    return f"{p} or sum_over_time({share}{over}) * 0 + {NO_EVIDENCE:g}"


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
