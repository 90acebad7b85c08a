"""Judges what is attached: the manifests, or what kubectl prints of a cluster. Pure."""

from sidecar.commands.doctor.gathered import Read
from sidecar.commands.doctor.links import Chain, Finding, Link, broken, not_asked, ok


FROM_A_CLUSTER = "kubectl get deployments,statefulsets,daemonsets,services -o yaml"
_TOLD = 3
"""Faults that one line tells."""


def attached(read: Read, chain: Chain) -> Finding:
    del chain  # no server is asked, so that nothing stands before it
    found = read.evidence.attached
    if found is None:
        return not_asked(Link.ATTACHED, f"--manifests=FILE, such as what `{FROM_A_CLUSTER}` prints")
    if found.faults:
        more = len(found.faults) - _TOLD
        said = "; ".join(said for said, _ in found.faults[:_TOLD]) + (f"; and {more} more" if more > 0 else "")
        return broken(Link.ATTACHED, said, "; ".join(dict.fromkeys(do for _, do in found.faults[:_TOLD])))
    if not found.attached:
        have = f"{len(found.without)} with an engine are" if found.without else "none with an engine is"
        return broken(
            Link.ATTACHED,
            f"no workload has a sidecar; {have} in these manifests",
            "attach them: `sidecar inject --help`",
        )
    rest = f"; without one: {', '.join(found.without)}" if found.without else ""
    if found.pods is None:  # a number of pods that is not stated is not guessed
        many, of_all, what = len(found.attached), len(found.attached) + len(found.without), "workloads"
    else:
        many, of_all, what = found.pods_attached or 0, found.pods, "pods"
    return ok(Link.ATTACHED, f"{many} of {of_all} {what} with an engine have a sidecar{rest}")
