"""The sidecar's container in pods of each kind: its user, its resources, and what they change for the pod."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli import main
from sidecar.commands.inject.workload_kinds import containers_in, kind_of, pods_of
from tests.support.attached import EVERY, again, flat, given
from tests.support.dockerfile import stages
from tests.support.kustomize import IMAGE, MANIFESTS


USER = int(stages()[-1].all("USER")[0].partition(":")[0])
"""The image's, a number."""
Streams = pytest.CaptureFixture[str]
Injecting = Callable[..., tuple[Any, Any, str]]
FULL = {"limits": {"cpu": "8", "memory": "64Gi"}}
EQUAL = {"limits": {"cpu": 8, "memory": "64Gi"}, "requests": {"cpu": "8000m", "memory": "65536Mi"}}
LESS = {"limits": {"cpu": "8", "memory": "64Gi"}, "requests": {"cpu": "4"}}
GPU = {"limits": {"nvidia.com/gpu": 1}}


@pytest.fixture
def injected(tmp_path: Path, capsys: Streams) -> Injecting:
    """`inject` below, in a folder of its own."""
    return partial(inject, tmp_path, capsys)


def inject(folder: Path, capsys: Streams, spec: dict[str, Any], flags: Sequence[str] = ()) -> tuple[Any, Any, str]:
    """The pod template and the sidecar's container that `sidecar inject` makes of a Deployment, and what it says, on one line."""
    engine = {"name": "vllm", "image": "vllm/vllm-openai", "args": ["--model=m"]}
    containers = [{**engine, **spec.pop("engine", {})}, *spec.pop("others", [])]
    annotations = spec.pop("annotations", None)
    metadata = {"labels": {"app": "a"}, **({"annotations": annotations} if annotations else {})}
    template = {"metadata": metadata, "spec": {"containers": containers, **spec}}
    one = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": template}}
    (folder / "d.json").write_text(json.dumps(one))
    assert main(["inject", "--all", IMAGE, *flags, str(folder / "d.json")]) == 0
    said = capsys.readouterr()
    template = json.loads(said.out)["spec"]["template"]
    return template, template["spec"]["initContainers"][-1], " ".join(said.err.replace("sidecar inject:", "").split())


@pytest.mark.parametrize(
    ("spec", "flags", "resources", "told"),
    [
        ({"engine": {"resources": GPU}}, [], ("500m", "128Mi", None, "1Gi"), ["its QoS class becomes Burstable"]),
        ({"engine": {"resources": LESS}}, [], ("500m", "128Mi", None, "1Gi"), ["500m CPU and 128Mi of memory more; by what is stated here its QoS class stays Burstable", "where a ResourceQuota counts limits.cpu, the pod is refused; --cpu=500m:1 states one"]),
        ({"engine": {"resources": LESS}}, ["--cpu=500m:1"], ("500m", "128Mi", "1", "1Gi"), ["stays Burstable"]),
        ({"engine": {"resources": LESS}, "others": [{"name": "x", "image": "x"}]}, [], ("500m", "128Mi", None, "1Gi"), ["stays Burstable"]),
        ({"engine": {"resources": FULL}}, [], ("1", "1Gi", "1", "1Gi"), ["stays Guaranteed", "above 1 CPU it is throttled, which delays every token"]),
        ({"engine": {"resources": EQUAL}}, ["--cpu=2", "--memory=2Gi"], ("2", "2Gi", "2", "2Gi"), ["asks for 2 CPU and 2Gi of memory more; its QoS class stays Guaranteed"]),
        ({"engine": {"resources": FULL}}, ["--cpu=250m", "--memory=512Mi:768Mi"], ("1", "768Mi", "1", "768Mi"), ["stays Guaranteed"]),
        ({"engine": {"resources": FULL}, "others": [{"name": "x", "image": "x", "resources": LESS}]}, [], ("500m", "128Mi", None, "1Gi"), ["stays Burstable", "where a ResourceQuota counts"]),
        ({"engine": {"resources": FULL}, "initContainers": [{"name": "x", "image": "x"}]}, [], ("500m", "128Mi", None, "1Gi"), ["stays Burstable"]),
        ({"engine": {"resources": GPU}}, ["--cpu=1.5", "--memory=2Gi"], ("1.5", "2Gi", None, "2Gi"), ["asks for 1.5 CPU and 2Gi of memory more"]),
        ({"resources": FULL}, [], ("500m", "128Mi", None, "1Gi"), ["which must fit into the resources that the pod states for all of its containers together"]),
    ],
    ids=["best effort", "limits of CPU", "a limit of CPU for the sidecar", "a container without", "guaranteed", "guaranteed in other units", "guaranteed and less than a core",
         "one of two", "an init container", "by flags", "of the pod"],
)  # fmt: skip
def test_the_resources_suit_the_pods_class_and_each_change_is_told(
    spec: dict[str, Any], flags: list[str], resources: Any, told: list[str], injected: Injecting
) -> None:
    """Guaranteed pods stay so, or the engine loses the cores that are its own; no other pod has a CPU limit of ours unasked."""
    _, sidecar, said = injected(spec, flags)
    requests, limits = sidecar["resources"]["requests"], sidecar["resources"]["limits"]

    assert (requests["cpu"], requests["memory"], limits.get("cpu"), limits["memory"]) == resources
    assert [each for each in told if each not in said] == []
    assert ("ResourceQuota" in said) == any("ResourceQuota" in each for each in told)


@pytest.mark.parametrize(
    "flag", ["--cpu=-1", "--cpu=0", "--cpu=2:1", "--cpu=1:2:3", "--cpu=one", "--memory=1Gi:", "--memory=1 Gi"]
)
def test_what_is_no_quantity_is_refused(flag: str, capsys: Streams) -> None:
    assert main(["inject", "--all", IMAGE, flag, str(MANIFESTS / "deployment.yaml")]) == 2
    said = capsys.readouterr()

    assert (said.out, flag.replace("=", " ").split(":")[0] in said.err) == ("", True)


VOLUMES, ALL = (
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
)


@pytest.mark.parametrize(
    ("annotations", "after"),
    [
        (None, {VOLUMES: "sidecar-state"}),
        ({VOLUMES: "cache,tmp"}, {VOLUMES: "cache,tmp,sidecar-state"}),
        ({ALL: "true"}, {ALL: "true"}),
        ({ALL: "false"}, {ALL: "false"}),
    ],
)
def test_no_volume_of_ours_keeps_a_node_up(annotations: Any, after: Any, injected: Injecting) -> None:
    """cluster-autoscaler removes no node with a pod that has an emptyDir on its disk, unless the pod names the volume."""
    template, _, said = injected({"annotations": annotations})
    on_disk = [
        each["name"]
        for each in template["spec"]["volumes"]
        if "emptyDir" in each and each["emptyDir"].get("medium") != "Memory"
    ]

    assert template["metadata"]["annotations"] == after
    assert (f"{VOLUMES} names its volume sidecar-state" in said) == (VOLUMES in after)
    assert on_disk == ["sidecar-state"]


RANGE = range(1_000_660_000, 1_000_670_000)
"""Users of a namespace of OpenShift, as its annotation openshift.io/sa.scc.uid-range gives them."""


def outside(user: int | None) -> bool:
    """Whether a stated number is refused; one that is not stated is given."""
    return user is not None and user not in RANGE


def refusals(spec: Any) -> list[str]:
    """The reasons for which OpenShift's restricted-v2 refuses a pod (its manifest in openshift/apiserver-library-go and cluster-kube-apiserver-operator, 4.16)."""
    of_pod = spec.get("securityContext") or {}
    found = [f"{key}: true" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    found += [f"runAsUser {of_pod['runAsUser']}"] if outside(of_pod.get("runAsUser")) else []
    found += [f"fsGroup {of_pod['fsGroup']}"] if outside(of_pod.get("fsGroup")) else []
    kinds = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    found += [f"volume {each['name']}" for each in spec.get("volumes") or () if not each.keys() & kinds]
    for each in [one for _, one in containers_in(spec)] + list(spec.get("initContainers") or ()):
        context = each.get("securityContext") or {}
        found += [key for key in ("allowPrivilegeEscalation", "privileged") if context.get(key)]
        found += [f"runAsUser {context['runAsUser']}"] if outside(context.get("runAsUser")) else []
        found += [
            f"adds {one}" for one in (context.get("capabilities") or {}).get("add") or () if one != "NET_BIND_SERVICE"
        ]
        seccomp = (context.get("seccompProfile") or of_pod.get("seccompProfile") or {}).get("type", "RuntimeDefault")
        found += [] if seccomp == "RuntimeDefault" else [f"seccomp {seccomp}"]
        found += [f"hostPort {port['hostPort']}" for port in each.get("ports") or () if port.get("hostPort")]
    return found


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_restricted_v2_admits_with_us_what_it_admits_without(path: Path) -> None:
    """Every manifest of the table; and where it refuses, it refuses for nothing of ours."""
    before, after = specs(flat(given(path))), specs(flat(again(path)))

    assert before
    assert [refusals(spec) for spec in after] == [refusals(spec) for spec in before]


def specs(objects: Sequence[Any]) -> list[Any]:
    return [
        place.spec_in(one) for one in objects if (kind := kind_of(one, {})) is not None for place in pods_of(one, kind)
    ]


@pytest.mark.parametrize(
    ("of_pod", "user"),
    [
        (None, None),
        ({}, None),
        ({"runAsUser": 1000}, None),
        ({"runAsUser": RANGE[7]}, None),
        ({"runAsNonRoot": True}, None),
        ({"runAsUser": 0}, USER),
        ({"runAsUser": 0, "runAsNonRoot": True}, USER),
    ],
)
def test_it_runs_as_the_images_or_the_clusters_user_and_never_as_root(
    of_pod: Any, user: int | None, injected: Injecting
) -> None:
    """The kubelet refuses a container with `runAsNonRoot` whose user is 0: its own, else the pod's, else the image's, which must be a number."""
    given = {} if of_pod is None else {"securityContext": of_pod}
    _, sidecar, _ = injected(given)
    context = sidecar["securityContext"]
    effective = context.get("runAsUser", (of_pod or {}).get("runAsUser", USER))

    assert (context["runAsNonRoot"], context.get("runAsUser")) == (True, user)
    assert effective > 0
