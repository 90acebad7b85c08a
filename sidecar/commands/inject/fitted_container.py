"""The sidecar's container beside what its pod says: its user and its resources, and what they change for the pod.

A pod's QoS class is Guaranteed where each of its containers, init containers among them, has limits of CPU and memory that equal its requests
(without requests they are the limits), and BestEffort where none has either (ComputePodQOS of Kubernetes' pkg/apis/core/v1/helper/qos/qos.go).
A pod that is Guaranteed may have cores of its own, and stays so. The user is the image's, or the one that the cluster gives: OpenShift's
restricted-v2 admits no number outside of the namespace's range. A pod that states user 0 for all is the exception: there it would be 0.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.commands.inject.manifest_text import Object
from sidecar.commands.inject.workload_kinds import containers_in


_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti|)")
"""The quantities of Kubernetes that people write: 500m, 1.5, 1Gi."""
_QUANTITY_UNITS = {"m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} | {
    f"{each}i": 2.0 ** (10 * at) for at, each in enumerate("KMGT", 1)
}
_OF_QOS = ("cpu", "memory")
_LEAST_GUARANTEED_CPU = "1"
_GUARANTEED, _BEST_EFFORT = "Guaranteed", "BestEffort"


def is_range(stated: str) -> bool:
    """Whether this is REQUEST or REQUEST:LIMIT, each a quantity above 0, and the limit not below the request."""
    amounts = [_amount(each) for each in stated.split(":")]
    return len(amounts) <= 2 and 0 < amounts[0] <= amounts[-1]


def fit(container: Object, spec: Object, cpu: str, memory: str) -> list[str]:
    """Give the container the user and the resources that suit this pod. Returns what they change, a line each.

    `cpu`, `memory`: REQUEST or REQUEST:LIMIT; "" for those of the container. Memory has a limit in any case.
    """
    if (spec.get("securityContext") or {}).get("runAsUser") != 0:
        container["securityContext"] = {
            key: value for key, value in container["securityContext"].items() if key != "runAsUser"
        }
    requests, limits = dict(container["resources"]["requests"]), dict(container["resources"]["limits"])
    for name, stated in zip(_OF_QOS, (cpu, memory), strict=True):
        request, _, limit = stated.partition(":")
        if request:
            requests[name] = request
        if limit or (request and name in limits):
            limits[name] = limit or request
    others = [each for _, each in containers_in(spec)] + list(spec.get("initContainers") or ())
    of_all = bool(spec.get("resources"))
    was = "" if of_all else _class(others)
    if was == _GUARANTEED:
        limits["cpu"] = max(limits.get("cpu", requests["cpu"]), _LEAST_GUARANTEED_CPU, key=_amount)
        requests = dict(limits)
    container["resources"] = {"requests": requests, "limits": limits}
    asked = f"each of its pods asks for {requests['cpu']} CPU and {requests['memory']} of memory more"
    if of_all:
        return [f"{asked}, which must fit into the resources that the pod states for all of its containers together"]
    if was == _GUARANTEED:
        throttled = f"above {limits['cpu']} CPU it is throttled, which delays every token (--cpu gives it more)"
        return [f"{asked}; its QoS class stays Guaranteed, so these are the sidecar's limits too: {throttled}"]
    lines = [f"{asked}; its QoS class {'becomes Burstable' if was == _BEST_EFFORT else 'stays Burstable'}"]
    if "cpu" not in limits and all("cpu" in _stated(each, "limits") for each in others):
        lines.append(
            "each container has a CPU limit, and the sidecar none, since throttling delays every token: where a ResourceQuota counts"
            f" limits.cpu, the pod is refused; --cpu={requests['cpu']}:1 states one"
        )
    return lines


def _stated(container: Object, which: str) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get(which) or {}


def _class(containers: Sequence[Object]) -> str:
    """Guaranteed, BestEffort, or empty for Burstable."""
    limits = [_stated(each, "limits") for each in containers]
    requests = [{**most, **_stated(each, "requests")} for most, each in zip(limits, containers, strict=True)]
    if not any(name in each for each in requests for name in _OF_QOS):
        return _BEST_EFFORT
    equal = all(
        name in most and _amount(most[name]) == _amount(least[name])
        for most, least in zip(limits, requests, strict=True)
        for name in _OF_QOS
    )
    return _GUARANTEED if equal else ""


def _amount(stated: object) -> float:
    """In cores or bytes; not a number, which equals nothing, for what is no quantity or a rare one."""
    found = _QUANTITY.fullmatch(str(stated))
    return float(found[1]) * _QUANTITY_UNITS[found[2]] if found else float("nan")
