"""The sidecar's container beside what its pod says: its user and its resources, and what they change for the pod.

A pod's QoS class is Guaranteed where each container, init containers among them, has limits of CPU and memory that equal its requests (its
limits, where it states none), and BestEffort where none has either (ComputePodQOS of Kubernetes' pkg/apis/core/v1/helper/qos/qos.go). A Guaranteed
pod may have cores of its own, and stays so. The user is the image's, or the one that the cluster gives: OpenShift's restricted-v2 admits no
number outside of the namespace's range. In a pod that states user 0 for all it would be 0: there it is stated.
"""

import re
from collections.abc import Sequence

from sidecar.commands.inject.manifest_text import Object
from sidecar.commands.inject.workload_kinds import containers_in


_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|[kMGT]|[KMGT]i|)")
"""The quantities of Kubernetes that people write: 500m, 1.5, 1Gi."""
_OF_QOS = ("cpu", "memory")


def is_range(stated: str) -> bool:
    """Whether this is REQUEST or REQUEST:LIMIT, each a quantity above 0, and the limit not below the request."""
    amounts = [_amount(each) for each in stated.split(":")]
    return len(amounts) <= 2 and 0 < amounts[0] <= amounts[-1]


def fit(container: Object, spec: Object, cpu: str, memory: str) -> list[str]:
    """Give the container the user and the resources that suit this pod. Returns what they change, a line each.

    `cpu`, `memory`: REQUEST or REQUEST:LIMIT; "" for those of the container. Memory has a limit in any case.
    """
    container["securityContext"] = dict(container["securityContext"])
    if (spec.get("securityContext") or {}).get("runAsUser") != 0:
        del container["securityContext"]["runAsUser"]
    requests, limits = (dict(container["resources"][which]) for which in ("requests", "limits"))
    for name, (request, _, limit) in (
        (name, said.partition(":")) for name, said in zip(_OF_QOS, (cpu, memory), strict=True)
    ):
        requests |= {name: request} if request else {}
        limits |= {name: limit or request} if limit or (request and name in limits) else {}
    others = [each for _, each in containers_in(spec)] + list(spec.get("initContainers") or ())
    was = "" if spec.get("resources") else _class(others)
    if was == "Guaranteed":
        limits["cpu"] = max(limits.get("cpu", requests["cpu"]), "1", key=_amount)
        requests = dict(limits)
    container["resources"] = {"requests": requests, "limits": limits}
    asked = f"each of its pods asks for {requests['cpu']} CPU and {requests['memory']} of memory more"
    if spec.get("resources"):
        return [f"{asked}, which must fit into the resources that the pod states for all of its containers together"]
    if was == "Guaranteed":
        throttled = f"above {limits['cpu']} CPU it is throttled, which delays every token (--cpu gives it more)"
        return [f"{asked}; its QoS class stays Guaranteed, so these are the sidecar's limits too: {throttled}"]
    lines = [f"{asked}; by what is stated here its QoS class {'becomes' if was == 'BestEffort' else 'stays'} Burstable"]
    if "cpu" not in limits and all("cpu" in _resources(each)[1] for each in others):
        refused = "each container has a CPU limit, and the sidecar none, since throttling delays every token: where a ResourceQuota counts"
        lines.append(f"{refused} limits.cpu, the pod is refused; --cpu={requests['cpu']}:1 states one")
    return lines


def _resources(container: Object) -> tuple[Object, Object]:
    """Its requests and its limits, as Kubernetes completes them."""
    stated = container.get("resources") or {}
    limits = stated.get("limits") or {}
    return {**limits, **(stated.get("requests") or {})}, limits


def _class(containers: Sequence[Object]) -> str:
    pairs = [_resources(each) for each in containers]
    if not any(name in requests for requests, _ in pairs for name in _OF_QOS):
        return "BestEffort"
    equal = all(_amount(least.get(name)) == _amount(most.get(name)) for least, most in pairs for name in _OF_QOS)
    return "Guaranteed" if equal else "Burstable"


def _amount(stated: object) -> float:
    """In cores or bytes; not a number, which equals nothing, for what is no quantity or a rare one."""
    found = _QUANTITY.fullmatch(str(stated))
    if found is None:
        return float("nan")
    base, power = (1024, "KMGT") if found[2].endswith("i") else (1000, "kMGT")
    return float(found[1]) * (0.001 if found[2] == "m" else base ** (power.find(found[2][:1] or "-") + 1))
