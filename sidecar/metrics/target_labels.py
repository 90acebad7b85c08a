"""Which labels say whose a series is: those that a scrape gives to all series of one process, from the widest on. A table, and no more.

Prometheus takes an absent label for an empty one, in every grouping and join: so series of a fleet of one cluster need no `cluster`.
Refuses to know the labels of a metric's own.
"""

CLUSTER = "cluster"
"""Absent where there is one cluster, or where each cluster has a Prometheus of its own, which adds it to alerts (`external_labels`)."""
OTHER_LABEL = "label."
"""A link names a label that a fleet has chosen, in place of `cluster` or beside it, as a parameter that begins so."""
ONE_ENGINE = (CLUSTER, "namespace", "job")
"""One job in one namespace of one cluster: its pods are one fleet."""
ONE_POD = (*ONE_ENGINE, "pod")
ONE_PROCESS = (*ONE_POD, "instance")
