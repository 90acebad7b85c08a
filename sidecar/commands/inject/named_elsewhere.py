"""Objects of others that name the engine's port: a mesh's, a load balancer's, a monitor's, another project's policy. Each is told, and stays.

No list of kinds would be whole. So every object is walked but those that name ports of a Service: it names the port by its number or its name
below a key with `port`, or by an address of the pod itself, unless it chooses other pods. What has such a Service as its target is told too.
Annotations of the pod that list ports, as a mesh reads them, are followed: its pods are made anew anyway.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from sidecar.commands.inject.edited_object import Edited
from sidecar.commands.inject.manifest_text import Object
from sidecar.commands.inject.pod_with_sidecar import ADMIN, ATTACHED
from sidecar.commands.inject.ways_to_pods import Route, called, is_policy, is_service
from sidecar.commands.inject.workload_kinds import Path, kind_of, spec_of_pods


_NO_PORT_OF_PODS = re.compile(
    r"Service|InferencePool|ConfigMap|Secret|CustomResourceDefinition|Ingress|.*Gateway|VirtualService|.*Route"
)
"""Kinds whose ports are a Service's or a gateway's, and texts. Their annotations may name a pod's."""
_TARGETS = ("Service", "InferencePool")
_CHOOSES_PODS = ("selector", "podSelector", "workloadSelector", "endpointSelector")
_KEY_OF_PORT = re.compile(r"(?<![A-Za-z])ports?(?![a-z])|Port")
_OF_THE_POD = re.compile(r"(?:127\.0\.0\.1|0\.0\.0\.0|localhost|\[::1?\]|):(\d+)")
_RATIO = re.compile(r'"type": "(?:Resource|cpu|memory)"')
"""A metric of an HPA, or a trigger of KEDA, that is the use of what pods ask for."""
_LETS_IN = re.compile(r"(?:NetworkPolicy|AuthorizationPolicy)$")
_OTHER_PROTOCOL = re.compile(r"(?:kubernetes\.io/)?(?:h2c?|http2|grpc|https|tls|wss)(?:-.*)?")


def followed(edited: Edited, annotations: Path, was: int, now: int) -> Iterator[str]:
    """Add the sidecar's port where an annotation of the pod lists the engine's, and tell one that is a single port."""
    for key, value in dict(edited.get(annotations) or {}).items():
        ranges = [
            (int(first), int(last or first)) for first, last in re.findall(r"(\d{1,9})(?:-(\d{1,9}))?", str(value))
        ]
        if not _KEY_OF_PORT.search(key) or not any(first <= was <= last for first, last in ranges):
            continue
        if not (key.lower().endswith("ports") and re.fullmatch(r"[\d\s,-]+", str(value))):
            yield f"annotation {key} of its pods names port {was}, and stays: traffic comes to {now}, and what scrapes to {ADMIN}"
            continue
        if not any(first <= now <= last for first, last in ranges):
            edited.set((*annotations, key), f"{value},{now}")
        yield f"annotation {key} of its pods lists port {now}, which is the sidecar's"


def places(
    objects: Sequence[Object], labels: Mapping[str, object], routes: Sequence[Route], tokens: Collection[str]
) -> Iterator[tuple[Object, str, str]]:
    """The objects that name one of these tokens, with the token and its place; or with "" and the Service of `routes` that they are about."""
    of_routes = [each.one.get("metadata") or {} for each in routes]
    led = {str(each.get("name")): each.get("labels") or {} for each in of_routes}
    for one in objects:
        spec: Object = one["spec"] if isinstance(one.get("spec"), dict) else {}
        refs = spec.get("targetRefs")
        refs = [spec.get("targetRef"), *(refs if isinstance(refs, list) else ())]
        targets = {str(each.get("name")) for each in refs if isinstance(each, dict) and each.get("kind") in _TARGETS}
        targets |= {str(spec["host"]).split(".", 1)[0]} if spec.get("host") else set()  # a DestinationRule's
        chosen = led.values() if one.get("kind") == "ServiceMonitor" else [labels]
        is_here = any(all(_may_choose(spec.get(key), each) for key in _CHOOSES_PODS) for each in chosen)
        if not is_here or (targets and not targets & led.keys()):
            continue
        if _NO_PORT_OF_PODS.fullmatch(str(one.get("kind"))) or is_policy(one) or kind_of(one, {}) or spec_of_pods(one):
            spec, targets = {}, set()
        stated = (one.get("metadata") or {}).get("annotations") or {}
        theirs = {key: value for key, value in stated.items() if not key.startswith(f"{ATTACHED}/")}
        named = dict(
            each for at, said in (("annotations", theirs), ("spec", spec)) for each in _named(said, at, tokens)
        )
        if targets and not named:
            named = {"": " and ".join(sorted(targets))}
        yield from ((one, token, at) for token, at in named.items())


def told_elsewhere(
    objects: Sequence[Object], labels: Mapping[str, object], routes: Sequence[Route], leads: Mapping[str, int], now: int
) -> Iterator[str]:
    """A line for each. `leads`: the port's number and names, with the port to which each leads in new pods; `now`: the sidecar's."""
    for one, token, at in places(objects, labels, routes, leads):
        ours, moved = "which is the sidecar's now", f"and stays: clients' traffic comes to port {now} now"
        is_closed = _LETS_IN.search(str(one["kind"])) and not any(_named(one.get("spec"), "spec", (str(ADMIN),)))
        scraped = f"; {ADMIN}, which is scraped, it does not name" if is_closed else ""
        names = f"names port {token} ({at}), {ours if leads.get(token) == now else moved}{scraped}"
        yield f"{called(one)} {names if token else f'is about {at}, and stays: it meets the sidecar there now'}"
    for one, path in ((each.one, path) for each in routes if is_service(each.one) for path in each.ports):
        entry = one["spec"]["ports"][path[2]]
        if _OTHER_PROTOCOL.fullmatch(said := str(entry.get("appProtocol") or entry.get("name"))):
            spoken = "and the sidecar speaks HTTP/1.1 without TLS: let it say http where a mesh or a gateway goes by it"
            yield f"{called(one)} calls this port {said}, {spoken}"


def counting(objects: Sequence[Object], pods: Object, resources: Object) -> Iterator[str]:
    """A line for each object that bounds or counts the CPU and memory of these pods, and so the sidecar's."""
    for one in objects:
        words = json.dumps(one.get("spec"), default=str)
        target = [Edited(one).get(("spec", "scaleTargetRef", name)) for name in ("kind", "name")]
        scales = target == [pods.get("kind"), Edited(pods).get(("metadata", "name"))] and _RATIO.search(words)
        if scales or (one.get("kind") in ("LimitRange", "ResourceQuota") and re.search("cpu|memory", words)):
            yield f"{called(one)} counts the sidecar too, with {json.dumps(resources)}: --cpu and --memory say others"


def _may_choose(selector: object, labels: Mapping[str, object]) -> bool:
    if not isinstance(selector, dict):
        return True
    equal = selector.get("matchLabels") or selector.get("labels") or selector
    stated = equal.items() if isinstance(equal, dict) else ()
    names = {str(name).removeprefix("k8s:"): value for name, value in stated if isinstance(value, str)}  # Cilium's
    return all(labels.get(name) == value for name, value in names.items() if not name.startswith("io."))


def _named(value: object, at: str, tokens: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each token that stands there, and its place."""
    here = bool(_KEY_OF_PORT.search(at))
    if isinstance(value, dict):
        yield from ((str(key), at) for key in value if here and str(key) in tokens)
        value = [(each, f"{at}.{key}") for key, each in value.items()]
    elif isinstance(value, list):
        value = [(each, at) for each in value]
    else:
        address = _OF_THE_POD.fullmatch(str(value))
        words = re.findall(r"[\w-]+", str(value)) if here else [address[1]] if address else []
        yield from ((word, at) for word in words if word in tokens)
        return
    for each, below in value:
        yield from _named(each, below, tokens)
