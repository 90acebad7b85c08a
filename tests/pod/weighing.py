"""Helpers for stories of a miss's root: a request that waited, ratios with narrow intervals, and the largest weight."""

from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import Root
from sidecar.pod.factor import Factor
from sidecar.pod.life import Facts
from sidecar.pod.signs import Signs
from sidecar.pod.weigh import weigh


def sharp(value: float) -> Factor:
    return Factor(value, value * 0.95, value * 1.05)


def leader(facts: Facts, signs: Signs, lead: Root | None = None) -> Root:
    found = weigh(facts, signs, lead).weights
    return max(found, key=found.__getitem__)


WAITED = Facts(waited_in=Blame.QUEUE)
