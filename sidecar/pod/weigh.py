"""The root of one miss: how much speaks for each cause, as weights that add up to 1. Pure.

Reasons (`reasons.py`) are chances. That no cause has one is the product of what each leaves, and so much of the miss is `unattributed`:

    left = product of (1 - the largest reason of a cause) over all causes

The causes share the rest by their odds, `exp(sum of weight x reason) - 1`: 0 without a reason, and each further one multiplies them. The
weight of a reason is data (`WEIGHTS`): it says how direct the reason is. What the request or a fault of its engine shows counts for more than
what has grown or is full on the pod at the same time. The weights come from a trial of the fit that `python -m bench.roots fit`
makes, to drawn faults that no score plays; weights of one cause each fitted faults that were left out no better, and so each reason has one
weight, whatever it speaks for.

It refuses to know how a reason is found, and the order of misses.
"""

from collections.abc import Mapping
from math import exp, prod
from typing import NamedTuple

from sidecar.pod.causes import Cause, Root, Unknown, root_of, unknown
from sidecar.pod.life import Facts
from sidecar.pod.reasons import Reason, Reasons, reasons, stated
from sidecar.pod.signs import Signs


Weights = Mapping[Reason, float]
WEIGHTS: Weights = {
    Reason.LATE: 8.6,
    Reason.MERGED: 7.1,
    Reason.LEDGER: 6.4,
    Reason.FAULT: 4.6,
    Reason.COLD: 3.6,
    Reason.PREEMPTS: 3.4,
    Reason.TRANSFERRED: 3.0,
    Reason.STOOD: 2.8,
    Reason.OWN_PROMPT: 2.7,
    Reason.GROWN: 2.4,
    Reason.KV_FULL: 1.0,
    Reason.LONG_PROMPT: 0.7,
    Reason.FEWER_SLOTS: 0.6,
    Reason.LEADS: 0.6,
    Reason.BACKLOG: 0.5,
    Reason.IN_FRONT: 0.5,
    Reason.LIMITED: 0.5,
}
"""The logarithm by which each reason multiplies the odds of its cause. Set by hand, because hardly a fitted run has them: STOOD, LEADS, BACKLOG,
IN_FRONT and LIMITED.
"""
SURE = 0.98
"""No reason leaves less than the rest of this to `unattributed`."""


class Weighed(NamedTuple):
    """The weights of a miss, which add up to 1."""

    weights: dict[Root, float]
    own: dict[Root, float]
    """The same from reasons of the miss's own alone, without those that the incident gives: its votes."""


def weigh(facts: Facts, signs: Signs, lead: Root | None = None, weights: Weights = WEIGHTS) -> Weighed:
    """The weights of a miss with these facts. `lead`: the root of the open incident, if misses have shown one.

    A reason that is not in `weights` counts as if it were not there.
    """
    cause = stated(facts)
    if cause is not None:
        return Weighed({root_of(cause): 1.0}, {root_of(cause): 1.0})
    rest = unknown(Unknown.YOUNG if signs.young else Unknown.UNCLEAR)
    own = _shares(reasons(facts, signs), rest, weights)
    return Weighed(own if lead is None else _shares(reasons(facts, signs, lead), rest, weights), own)


def _shares(found: Reasons, rest: Root, weights: Weights) -> dict[Root, float]:
    given, left = chances(found, weights)
    return {root_of(cause): share for cause, share in given.items()} | ({rest: left} if left > 0.0 else {})


def odds(of: Mapping[Reason, float], weights: Weights = WEIGHTS) -> float:
    """The odds of a cause with these reasons: 0 without one."""
    return exp(sum(weights.get(reason, 0.0) * value for reason, value in of.items())) - 1.0


def chances(found: Reasons, weights: Weights = WEIGHTS) -> tuple[dict[Cause, float], float]:
    """The chance of each cause that has a reason, and that of none."""
    each = {cause: one for cause, of in found.items() if (one := odds(of, weights)) > 0.0}
    left = prod(
        1.0 - min(SURE, max(value for reason, value in found[cause].items() if reason in weights)) for cause in each
    )
    total = sum(each.values())
    return {cause: (1.0 - left) * one / total for cause, one in each.items()}, left
