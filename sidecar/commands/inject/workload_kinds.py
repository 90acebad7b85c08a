"""Every kind that makes pods: where its pod template stands, and who leads traffic to those pods.

KServe's operator makes the Service of an InferenceService in Standard mode: to the first port of the predictor's first container, else to
8080 (createDefaultSvc of service_reconciler.go at 00217d18). Dynamo's operator makes that of a frontend, to port 8000 (as
its graph agg.yaml at 04521f47 says). A revision of Knative has one port, and runs no init containers unless a flag of the cluster allows it
(pkg/apis/serving/fieldmask.go at 0299664a). The paths were read in Argo Rollouts' pkg/apis/rollouts/v1alpha1/types.go at 009ba6ba, OpenKruise's
apis/apps/v1alpha1/cloneset_types.go at 02e91aeb, Knative's pkg/apis/serving/v1/revision_types.go at 00204e7b and
api/leaderworkerset/v1/leaderworkerset_types.go of lws at 024af084; no operator was run. A kind that is not here is named by `--pod-spec-path`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sidecar.commands.inject.manifest_text import Object


Path = tuple[str | int, ...]


class Led(Enum):
    """The one who leads traffic to a pod."""

    BY_SERVICES = "Services and InferencePools that select its labels"
    BY_OPERATOR = "a Service that an operator makes from the pod's ports"
    BY_ADDRESS = "no Service: its clients know the pod's own address and port"
    BY_REVISION = "Knative, to the one port of the revision"


BY_CONTROLLER = "by its controller, in its own order"


@dataclass(frozen=True, slots=True)
class PodKind:
    """A kind of one API group. `template`: path of the pod template, which has `metadata` and `spec` unless `inline`."""

    group: str
    kind: str
    template: Path
    led: Led = Led.BY_SERVICES
    inline: bool = False
    """The pod's spec stands at the path itself, and its labels and annotations beside it, as `labels` and `annotations`."""
    otherwise: Path = ()
    """Path of the template that counts where the first one is absent."""
    known_port: int | None = None
    """The port at which its operator asks, unless the first container states one."""
    renewed: str = BY_CONTROLLER
    """The one who makes its pods anew when the template has changed."""
    status: str = ""
    """The command of kubectl that ends when all its pods are new and ready, with its `{name}`; "" if there is none."""


_TEMPLATE: Path = ("spec", "template")
_REPLACED = "by you: `kubectl replace --force`, since Kubernetes changes no template of it"
POD_KINDS = (
    *(
        PodKind("apps", kind, _TEMPLATE, status=f"rollout status {kind.lower()}/{{name}}")
        for kind in ("Deployment", "StatefulSet", "DaemonSet")
    ),
    *(
        PodKind(group, kind, _TEMPLATE, renewed="by you: delete them one by one")
        for group, kind in (("apps", "ReplicaSet"), ("", "ReplicationController"))
    ),
    PodKind("", "Pod", (), Led.BY_ADDRESS, renewed=_REPLACED),
    PodKind("batch", "Job", _TEMPLATE, Led.BY_ADDRESS, renewed=_REPLACED),
    PodKind(
        "batch", "CronJob", ("spec", "jobTemplate", "spec", "template"), Led.BY_ADDRESS, renewed="with its next run"
    ),
    PodKind("argoproj.io", "Rollout", _TEMPLATE, status="argo rollouts status {name}"),
    PodKind("apps.kruise.io", "CloneSet", _TEMPLATE),
    # The leader serves for its group of pods. It is made from the workers' template where it has none of its own.
    PodKind(
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        otherwise=("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
    PodKind(
        "serving.kserve.io", "InferenceService", ("spec", "predictor"), Led.BY_OPERATOR, inline=True, known_port=8080
    ),
    PodKind("serving.knative.dev", "Service", _TEMPLATE, Led.BY_REVISION),
)
DYNAMO = PodKind("nvidia.com", "DynamoGraphDeployment", (), Led.BY_OPERATOR, known_port=8000)
"""Its path depends on the names of its components (`pods_of`)."""


def group_of(one: Object) -> str:
    """The API group, empty for Kubernetes' core."""
    group, slash, _ = str(one.get("apiVersion", "")).partition("/")
    return group if slash else ""


def kind_of(one: Object, further: Mapping[str, Path]) -> PodKind | None:
    """The kind, if it makes pods. `further`: kind to the path of a pod's spec, as `--pod-spec-path` gives it; it outranks the table."""
    kind, group = str(one.get("kind")), group_of(one)
    if kind in further:
        path = further[kind]
        if path[-1:] == ("spec",):
            return PodKind(group, kind, path[:-1])
        return PodKind(group, kind, path, inline=True)
    if (kind, group) == (DYNAMO.kind, DYNAMO.group):
        return DYNAMO
    return next((each for each in POD_KINDS if (each.group, each.kind) == (group, kind)), None)


@dataclass(frozen=True, slots=True)
class PodPlace:
    """The place of a pod in an object: the path of its spec, and of the map with its labels and annotations."""

    spec: Path
    metadata: Path

    def spec_in(self, one: Object) -> Object:
        """The pod's spec."""
        return _at(one, self.spec)  # type: ignore[no-any-return]

    def metadata_in(self, one: Object) -> Object:
        """The map with the labels and annotations of its pods; empty if there is none."""
        found = _at(one, self.metadata)
        return found if isinstance(found, dict) else {}

    def labels_in(self, one: Object) -> Mapping[str, str]:
        """The labels that its pods carry, those that their controller adds among them, as far as they are the same for all."""
        return {**(_at(one, (*self.metadata, "labels")) or {}), **_added_labels(one, self.spec)}


def _added_labels(one: Object, spec: Path) -> dict[str, str]:
    name = str((one.get("metadata") or {}).get("name", ""))
    match one.get("kind"):
        case "LeaderWorkerSet":
            is_leader = "leaderTemplate" in spec or (_has_no_leader(one) and not is_of_all(one))
            leads = {"leaderworkerset.sigs.k8s.io/worker-index": "0"} if is_leader else {}
            return {"leaderworkerset.sigs.k8s.io/name": name, **leads}
        case "Job":
            return {"job-name": name, "batch.kubernetes.io/job-name": name}
        case "InferenceService":
            return {"serving.kserve.io/inferenceservice": name, "component": "predictor"}
        case _:
            return {}


def pods_of(one: Object, kind: PodKind) -> list[PodPlace]:
    """The pods of this object that may serve; empty if it describes none, as a Rollout that only names a Deployment."""
    if kind is DYNAMO:
        return list(_frontends(one))
    return _described(one, kind)[:1]


def pods_behind(one: Object, kind: PodKind) -> list[PodPlace]:
    """The workers behind a leader. They serve too if something leads to them."""
    return _described(one, kind)[1:]


def _described(one: Object, kind: PodKind) -> list[PodPlace]:
    found = []
    for path in (kind.template, *((kind.otherwise,) if kind.otherwise else ())):
        there = _at(one, path)
        if isinstance(there, dict) and (kind.inline or isinstance(there.get("spec"), dict)):
            # Labels of a template that is a pod's spec itself stand beside it: WorkloadSpec of KServe's LLMInferenceService
            # (pkg/apis/serving/v1alpha1/llm_inference_service_types.go at 01bfd238).
            own = path[:-1] if path[-1:] == _TEMPLATE[-1:] else path
            found.append(PodPlace(path, own) if kind.inline else PodPlace((*path, "spec"), (*path, "metadata")))
    return found


def is_of_all(one: Object) -> bool:
    """Whether one template makes the leader and its workers, of which there are some."""
    size = _at(one, ("spec", "leaderWorkerTemplate", "size"))
    return one.get("kind") == "LeaderWorkerSet" and _has_no_leader(one) and isinstance(size, int) and size > 1


def _has_no_leader(one: Object) -> bool:
    return _at(one, ("spec", "leaderWorkerTemplate", "leaderTemplate")) is None


def unknown_pods(one: Object) -> PodPlace | None:
    """The pods of a kind that is not in the table, where they stand as nearly every controller has them; None if it has none there."""
    place = PodPlace((*_TEMPLATE, "spec"), (*_TEMPLATE, "metadata"))
    return place if isinstance(place.metadata_in(one).get("labels"), dict) else None


def spec_of_pods(one: Object) -> str:
    """The path at which an object has the spec of a pod, as `--pod-spec-path` takes it; empty if no map of it has containers."""
    rest: list[tuple[Path, Object]] = [((), one)]
    for path, node in rest:
        if isinstance(node.get("containers"), list):
            return ".".join(map(str, path))
        rest += [((*path, name), each) for name, each in node.items() if isinstance(each, dict)]
    return ""


def containers_in(spec: Object) -> list[tuple[Path, Object]]:
    """The containers that run in a pod, each with its path below the spec: those of an operator's forms too.

    KServe's predictor may have a `model`, whose container its runtime describes; the frontend of Dynamo's v1alpha1 has a `mainContainer`.
    """
    listed = spec.get("containers")
    found: list[tuple[Path, Object]] = [
        (("containers", at), each)
        for at, each in enumerate(listed if isinstance(listed, list) else ())
        if isinstance(each, dict)
    ]
    return [*(((form,), spec[form]) for form in ("model", "mainContainer") if isinstance(spec.get(form), dict)), *found]


def _frontends(one: Object) -> Iterator[PodPlace]:
    services = _at(one, ("spec", "services"))
    for name, service in services.items() if isinstance(services, dict) else ():
        serves = isinstance(service, dict) and (service.get("componentType") == "frontend" or name == "Frontend")
        if serves and isinstance(service.get("extraPodSpec"), dict):
            yield PodPlace(("spec", "services", name, "extraPodSpec"), ("spec", "services", name, "extraPodMetadata"))
    components = _at(one, ("spec", "components"))
    for at, component in enumerate(components if isinstance(components, list) else ()):
        if isinstance(component, dict) and "frontend" in (
            component.get("type"),
            str(component.get("name", "")).lower(),
        ):
            template = ("spec", "components", at, "podTemplate")
            if not isinstance(_at(one, (*template, "spec")), dict):
                continue
            yield PodPlace((*template, "spec"), (*template, "metadata"))


def _at(one: Any, path: Path) -> Any:
    for step in path:
        if isinstance(one, dict):
            one = one.get(step)
        elif isinstance(one, list) and isinstance(step, int) and step < len(one):
            one = one[step]
        else:
            return None
    return one


def replicas_of(one: Object, pods: Path = ("spec",), objects: Sequence[Object] = ()) -> int | None:
    """The fewest pods that are stated on the way to `pods`, the place of their spec, and by the autoscalers among `objects`; 1 for a Pod; None
    where no number is stated, as under an autoscaler that is not here.
    """
    stated = 1 if one.get("kind") == "Pod" else None
    for depth in range(1, len(pods) + 1):
        at = _at(one, pods[:depth])
        for name in ("replicas", "minReplicas", "minReplicaCount") if isinstance(at, dict) else ():
            stated = at[name] if type(at.get(name)) is int else stated
    for each in objects:
        target, metadata = _at(each, ("spec", "scaleTargetRef")), one.get("metadata") or {}
        if (
            isinstance(target, dict)
            and (target.get("kind", "Deployment"), target.get("name")) == (one.get("kind"), metadata.get("name"))
            and _at(each, ("metadata", "namespace")) == metadata.get("namespace")
        ):
            return replicas_of(each) or 1
    return stated
