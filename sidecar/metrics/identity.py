"""Which labels say whose a series is: those that a scrape gives to all series of one process, from the widest on. A table, and no more.

Prometheus takes an absent label for an empty one, in every grouping and join: so series of a fleet of one cluster need no `cluster`.
Refuses to know the labels of a metric's own.
"""

CLUSTER = "cluster"
"""Absent where there is one cluster, or where each cluster has a Prometheus of its own, which adds it to alerts (`external_labels`)."""
ENGINE = (CLUSTER, "namespace", "job")
"""One job in one namespace of one cluster: its pods are one fleet."""
POD = (*ENGINE, "pod")
PROCESS = (*POD, "instance")
