"""The limits that alert rules, dashboards, pages and diagnosis share: when a short window burns, and when a root is named. Pure.

A verdict adds up the misses that each sidecar has decided. Adding them leaves two questions: whether the last two
minutes alone say that an objective is being missed, and whether one root has enough of the misses to be named. Both answers are
the same in a rule of Prometheus and in a sidecar, because both take them from here.
"""

LEAST_CONFIDENCE = 0.6
"""Share of the decided misses, 0 to 1, that a root needs to be named; below it the phase is `unattributed`."""
FEWEST_DECIDED = 3.0
"""Decided misses from which the roots of the shorter window count, if it burns."""
BURNS_TIMES = 6.0
"""Misses over the allowed ones from which the shorter window burns."""
BURNS_RATIO = 0.25
"""Misses over the requests, 0 to 1, from which the shorter window burns, whatever the target."""
