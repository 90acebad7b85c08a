"""The canary's gate as one PromQL expression: the arithmetic of `gate_arithmetic.py` over counters of both versions.

It refuses to know who asks: selectors come as label matchers, so that Argo Rollouts, Flagger and a dashboard write the same expression
around their own words.

That `irate()` is per second changes nothing but the half request, because the p value has no unit. Nothing tells the expression when the
rollout began: it looks at the minutes in which both versions had requests.
"""

from math import floor
from typing import NamedTuple

from grafana.gate_arithmetic import HALF_A_REQUEST, LEAST, MOST_SHARE, NO_EVIDENCE
from sidecar.commands.compare.gate_questions import BLOCK_MINUTES, GATE_QUESTIONS, Grown, Question


_HALF_AS_RATE = f"{HALF_A_REQUEST:g} / {60 * BLOCK_MINUTES}"
"""Half a request as `irate()` of a block tells it."""
FAILED_OF_INNOCENT = 0.01
"""All questions together fail at most this share of innocent rollouts, however often they are asked."""
FAILS_BELOW = floor(1e4 * FAILED_OF_INNOCENT / len(GATE_QUESTIONS)) / 1e4
"""A canary is failed at a p value below this, of any question."""


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
