"""Judges the clocks of all pods, Prometheus and Alertmanager against each other, by the times that they state.

This machine's clock is only the ruler: it may be wrong itself. Pure.
"""

from itertools import combinations

from sidecar.commands.doctor.gathered import Read
from sidecar.commands.doctor.links import Chain, Finding, Link, broken, ok, unknown, unread


MOST_SKEW_SECONDS = 5.0
"""Machines with NTP differ by far less than a second; Date headers are exact to one. The shortest window of the rules is a minute."""


def clocks(read: Read, _chain: Chain) -> Finding:
    found = _skews(read)
    apart = [(abs(found[a] - found[b]), a, b) for a, b in combinations(found, 2)]
    worst, first, second = max(apart, default=(0.0, "", ""))
    if worst > MOST_SKEW_SECONDS:
        return broken(
            Link.CLOCK,
            f"the clocks of {first} and {second} differ by {worst:.0f} s",
            "set the clocks by NTP (timedatectl, chronyc tracking) on both machines",
        )
    reply = read.evidence.prometheus.get("ahead")
    if reply is not None and (missing := unread(Link.CLOCK, [reply])):
        return missing
    pods = (
        [] if reply is None else [(ahead, labels.get("pod") or labels["instance"]) for labels, ahead in reply.samples]
    )
    off = sorted((pod for pod in pods if abs(pod[0]) > MOST_SKEW_SECONDS), key=lambda pod: -abs(pod[0]))
    if off:
        more = f", and those of {len(off) - 1} others are off" if off[1:] else ""
        return broken(
            Link.CLOCK,
            f"the clock of {off[0][1]} is {abs(off[0][0]):.0f} s {'behind' if off[0][0] < 0 else 'ahead of'} Prometheus'{more}",
            "set the clock of its node by NTP (timedatectl, chronyc tracking)",
        )
    if not apart:
        return unknown(
            Link.CLOCK,
            f"only {len(found)} of the servers stated {'its' if found else 'their'} time",
            "give --prometheus.url and --alertmanager.url",
        )
    of_pods = f", and the clocks of {len(pods)} pods fit Prometheus'" if pods else ""
    return ok(Link.CLOCK, f"{', '.join(found)} agree to within {max(1.0, worst):.0f} s{of_pods}")


def _skews(read: Read) -> dict[str, float]:
    """Server to the seconds by which it is ahead of this machine; without those that did not answer."""
    evidence, found = read.evidence, {}
    replies = {"sidecar": evidence.healthy, "Alertmanager": evidence.alertmanager.get("status")}
    for name, reply in replies.items():
        skew = None if reply is None or reply.status is None else reply.skew_seconds
        if skew is not None:
            found[name] = skew
    now = evidence.prometheus.get("now")
    if now is not None and now.good:
        found["Prometheus"] = read.prometheus_now - now.at
    return found
