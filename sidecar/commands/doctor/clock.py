"""Judges the clocks of sidecar, Prometheus and Alertmanager against each other, by the times that they state.

This machine's clock is only the ruler: it may be wrong itself. Pure.
"""

from itertools import combinations

from sidecar.commands.doctor.gathered import Read
from sidecar.commands.doctor.links import Chain, Finding, Link, broken, ok, unknown


MOST_SKEW_SECONDS = 5.0
"""Machines with NTP differ by far less than a second; Date headers are exact to one. The shortest window of the rules is a minute."""


def clocks(read: Read, _chain: Chain) -> Finding:
    found = _skews(read)
    if len(found) < 2:
        return unknown(
            Link.CLOCK,
            f"only {len(found)} of the servers stated {'its' if len(found) == 1 else 'their'} time",
            "give --prometheus.url and --alertmanager.url",
        )
    apart = [(abs(found[a] - found[b]), a, b) for a, b in combinations(found, 2)]
    worst, first, second = max(apart)
    if worst > MOST_SKEW_SECONDS:
        return broken(
            Link.CLOCK,
            f"the clocks of {first} and {second} differ by {worst:.0f} s",
            "set the clocks by NTP (timedatectl, chronyc tracking) on both machines",
        )
    return ok(Link.CLOCK, f"{', '.join(found)} agree to within {max(1.0, worst):.0f} s")


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
