"""Objects that name the engine's port and are no Service: each is followed or told, one line each, and what is about other pods is not."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli import main
from sidecar.commands.inject.manifest_text import read
from tests.support.kustomize import IMAGE


Injecting = Callable[..., tuple[Any, list[str]]]
LABELS = {"app": "llm"}
SELECTED, OTHERS = {"matchLabels": LABELS}, {"matchLabels": {"app": "redis"}}


def one(kind: str, group: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


WAYS = ("a name", "a number", "in steps")
"""The ways of traffic: a name that becomes the sidecar's, the engine's port that the sidecar takes, and a Service that is turned afterwards."""


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def injected(way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Injecting:
    """The pod template that `sidecar inject` makes, and the lines that it says."""

    def of(*objects: Any, annotations: dict[str, str] | None = None, **port: Any) -> tuple[Any, list[str]]:
        starts = {"command": ["/serve.sh"]} if way == "in steps" else {"args": ["--port=8000"]}
        engine = {
            "name": "e",
            "image": "vllm/vllm-openai",
            "ports": [{"name": "http", "containerPort": 8000}],
            **starts,
        }
        template = {"metadata": {"labels": LABELS, "annotations": annotations or {}}, "spec": {"containers": [engine]}}
        deployment = one("Deployment", "apps", selector=SELECTED, template=template)
        asked = {"port": 80, "targetPort": "http" if way == "a name" else 8000}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "llm", "labels": {"s": "llm"}}}
        service["spec"] = {"selector": LABELS, "ports": [{**asked, **port}]}
        file, out = tmp_path / "all.yaml", tmp_path / "out"
        file.write_text("---\n".join(json.dumps(each) + "\n" for each in (deployment, service, *objects)))
        shutil.rmtree(out, ignore_errors=True)
        assert main(["inject", "--all", IMAGE, *([f"--out={out}"] if way == "in steps" else []), str(file)]) == 0
        said = capsys.readouterr()
        text = (out / "1-pods/manifests.yaml").read_text() if way == "in steps" else said.out
        written = [each for document in read(text, "x") for each in document.objects]
        lines = " ".join(said.err.split()).split("sidecar inject: ")
        return written[0]["spec"]["template"], [line.strip() for line in lines if "/out" not in line]

    return of


NAMING = {
    "PeerAuthentication": one("PeerAuthentication", "security.istio.io", selector=SELECTED, portLevelMtls={"8000": {"mode": "PERMISSIVE"}}),
    "Sidecar": one("Sidecar", "networking.istio.io", workloadSelector={"labels": LABELS}, ingress=[{"port": {"number": 9}, "defaultEndpoint": "127.0.0.1:8000"}]),
    "Server": one("Server", "policy.linkerd.io", podSelector=SELECTED, port=8000, proxyProtocol="HTTP/1"),
    "AuthorizationPolicy": one("AuthorizationPolicy", "security.istio.io", selector=SELECTED, rules=[{"to": [{"operation": {"ports": ["8000"]}}]}]),
    "EnvoyFilter": one("EnvoyFilter", "networking.istio.io", configPatches=[{"match": {"listener": {"portNumber": 8000}}}]),
    "DestinationRule": one("DestinationRule", "networking.istio.io", host="llm.default.svc", trafficPolicy={"portLevelSettings": [{"port": {"number": 8000}}]}),
    "CiliumNetworkPolicy": one("CiliumNetworkPolicy", "cilium.io", endpointSelector={"matchLabels": {"k8s:app": "llm", "k8s:io.kubernetes.pod.namespace": "x"}},
                               ingress=[{"toPorts": [{"ports": [{"port": "8000"}]}]}]),
    "NetworkPolicy": one("NetworkPolicy", "crd.projectcalico.org", selector="app == 'llm'", ingress=[{"destination": {"ports": [8000]}}]),
    "BackendConfig": one("BackendConfig", "cloud.google.com", healthCheck={"port": 8000}),
    "HealthCheckPolicy": one("HealthCheckPolicy", "networking.gke.io", targetRef={"kind": "Service", "name": "llm"}, default={"config": {"httpHealthCheck": {"port": 8000}}}),
    "PodMonitor": one("PodMonitor", "monitoring.coreos.com", selector=SELECTED, podMetricsEndpoints=[{"targetPort": 8000}]),
    "ServiceMonitor": one("ServiceMonitor", "monitoring.coreos.com", selector={"matchLabels": {"s": "llm"}}, endpoints=[{"targetPort": 8000}]),
    "Ingress": {**one("Ingress", "networking.k8s.io"), "metadata": {"name": "x", "annotations": {"alb.ingress.kubernetes.io/healthcheck-port": "8000"}}},
}  # fmt: skip


@pytest.mark.parametrize("kind", NAMING)
def test_what_names_the_port_is_told_in_one_line(kind: str, way: str, injected: Injecting) -> None:
    """A kind may be any, and its port stand anywhere: no list of kinds is whole."""
    _, lines = injected(NAMING[kind])
    told = [line for line in lines if line.startswith(f"{kind} x names port 8000 (")]

    assert len(told) == 1
    assert ("and stays: clients' traffic comes to port 8900 now" in told[0]) == (way == "in steps")
    assert ("which is the sidecar's now" in told[0]) == (way != "in steps")
    assert ("9901, which is scraped, it does not name" in told[0]) == (
        kind.endswith(("NetworkPolicy", "AuthorizationPolicy"))
    )


@pytest.mark.parametrize(
    "other",
    [
        one("PeerAuthentication", "security.istio.io", selector=OTHERS, portLevelMtls={"8000": {"mode": "STRICT"}}),
        one("Sidecar", "networking.istio.io", workloadSelector={"labels": {"app": "redis"}}, ingress=[{"port": {"number": 8000}}]),
        one("DestinationRule", "networking.istio.io", host="redis", trafficPolicy={"portLevelSettings": [{"port": {"number": 8000}}]}),
        one("HealthCheckPolicy", "networking.gke.io", targetRef={"kind": "Service", "name": "redis"}, default={"port": 8000}),
        one("ServiceMonitor", "monitoring.coreos.com", selector={"matchLabels": {"s": "redis"}}, endpoints=[{"targetPort": 8000}]),
        one("VerticalPodAutoscaler", "autoscaling.k8s.io", targetRef={"kind": "Deployment", "name": "llm"}),
        one("HTTPRoute", "gateway.networking.k8s.io", rules=[{"backendRefs": [{"name": "llm", "port": 8000}]}]),
        one("Job", "example.com", transport={"timeout": 8000}, limit=8000, ports=[80, 18000, "80001"], targetRefs={}),
        {**one("Thing", "example.com"), "spec": ["port", 8000]},
        one("Thing", "example.com", selector={"matchLabels": "app"}),
    ],
    ids=["other pods", "other workloads", "another host", "another Service", "another Service's monitor", "a Deployment", "a Service's port", "other numbers", "an odd spec", "an odd selector"],
)  # fmt: skip
def test_what_is_about_something_else_is_not_told(other: Any, injected: Injecting) -> None:
    assert injected(other)[1] == injected()[1]


def test_what_has_the_service_as_its_target_is_told_although_it_names_no_port(injected: Injecting) -> None:
    _, lines = injected(one("GCPBackendPolicy", "networking.gke.io", targetRef={"kind": "Service", "name": "llm"}))

    assert "GCPBackendPolicy x is about llm, and stays: it meets the sidecar there now" in lines


@pytest.mark.parametrize("value", ["9000,8000", "8000", "7990-8010, 9000"])
@pytest.mark.parametrize(
    "key",
    [
        "traffic.sidecar.istio.io/includeInboundPorts",
        "traffic.sidecar.istio.io/excludeInboundPorts",
        "config.linkerd.io/skip-inbound-ports",
        "config.linkerd.io/opaque-ports",
        "traffic.kuma.io/exclude-inbound-ports",
    ],
)
def test_an_annotation_of_the_pod_that_lists_the_port_is_followed(key: str, value: str, injected: Injecting) -> None:
    """Traffic would go past the mesh, or through it, where it did not before."""
    template, lines = injected(annotations={key: value})
    (listens,) = [
        port["containerPort"] for port in template["spec"]["initContainers"][-1]["ports"] if port["name"] == "traffic"
    ]

    assert template["metadata"]["annotations"][key] == (value if listens == 8000 else f"{value},{listens}")
    assert f"annotation {key} of its pods lists port {listens}, which is the sidecar's" in lines


def test_an_annotation_of_the_pod_with_one_port_is_told(injected: Injecting) -> None:
    _, lines = injected(annotations={"prometheus.io/port": "8000", "example.com/report": "8000"})

    assert [line for line in lines if "prometheus.io/port of its pods names port 8000, and stays" in line] != []
    assert [line for line in lines if "report" in line] == []


@pytest.mark.parametrize(
    "port", [{"appProtocol": "kubernetes.io/h2c"}, {"appProtocol": "https"}, {"name": "grpc-web"}, {"name": "http2"}]
)
def test_a_protocol_that_the_sidecar_does_not_speak_is_told(port: Any, injected: Injecting) -> None:
    (said,) = port.values()

    assert [
        line
        for line in injected(**port)[1]
        if f"Service llm calls this port {said}, and the sidecar speaks HTTP/1.1" in line
    ] != []
    assert [line for line in injected(appProtocol="http", name="http-api")[1] if "HTTP/1.1" in line] == []


def test_a_name_of_the_port_is_told_by_what_it_leads_to(way: str, injected: Injecting) -> None:
    """Its number in the engine's container is the sidecar's, but where a Service is turned to another."""
    lines = injected(one("Server", "policy.linkerd.io", podSelector=SELECTED, port="http"))[1]
    leads = "and stays: clients' traffic comes to port 8900 now" if way == "in steps" else "which is the sidecar's now"

    assert [line for line in lines if "Server" in line] == [f"Server x names port http (spec.port), {leads}"]


def test_what_names_the_number_keeps_it_the_port_of_traffic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name could become the sidecar's, 8900; but a mesh that is told 8000 would let that pass otherwise than it was meant."""
    for objects, listens in (((), 8900), ((NAMING["PeerAuthentication"],), 8000)):
        engine = {"name": "e", "image": "vllm/vllm-openai", "ports": [{"name": "http", "containerPort": 8000}]}
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": [engine]}}
        service: Any = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "llm"}}
        service["spec"] = {"selector": LABELS, "ports": [{"port": 80, "targetPort": "http"}]}
        file = tmp_path / "all.yaml"
        all_of_it = (one("Deployment", "apps", selector=SELECTED, template=template), service, *objects)
        file.write_text("---\n".join(json.dumps(each) + "\n" for each in all_of_it))
        assert main(["inject", "--all", IMAGE, str(file)]) == 0
        (document, *_) = read(capsys.readouterr().out, "x")
        ports = document.objects[0]["spec"]["template"]["spec"]["initContainers"][-1]["ports"]

        assert [each["containerPort"] for each in ports if each["name"] == "traffic"] == [listens]


SCALED = {"kind": "Deployment", "name": "x"}
COUNTING = {
    "LimitRange": one("LimitRange", "", limits=[{"type": "Container", "default": {"cpu": "200m"}}]),
    "ResourceQuota": one("ResourceQuota", "", hard={"requests.memory": "1Gi"}),
    "HorizontalPodAutoscaler": one("HorizontalPodAutoscaler", "autoscaling", scaleTargetRef=SCALED, metrics=[{"type": "Resource", "resource": {"name": "cpu"}}]),
    "ScaledObject": one("ScaledObject", "keda.sh", scaleTargetRef=SCALED, triggers=[{"type": "memory"}]),
}  # fmt: skip


@pytest.mark.parametrize("kind", COUNTING)
def test_what_counts_the_cpu_and_memory_of_the_pods_is_told(kind: str, injected: Injecting) -> None:
    """A LimitRange may refuse the pod, and a use of CPU is divided by more."""
    counts = f"{kind} x counts the sidecar too, with "

    assert [line.startswith(counts) for line in injected(COUNTING[kind])[1]].count(True) == 1


@pytest.mark.parametrize(
    "other",
    [
        one("ResourceQuota", "", hard={"pods": 3}),
        {**COUNTING["ScaledObject"], "spec": {**COUNTING["ScaledObject"]["spec"], "scaleTargetRef": {"kind": "Deployment", "name": "y"}}},
        one("HorizontalPodAutoscaler", "autoscaling", scaleTargetRef="x"),
    ],
    ids=["pods alone", "another workload", "an odd target"],
)  # fmt: skip
def test_what_counts_something_else_is_not_told(other: Any, injected: Injecting) -> None:
    assert injected(other)[1] == injected()[1]


def test_an_object_does_not_name_the_port_of_its_own_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its kind may be one that the user names."""
    server = one("ModelServer", "x.io", pod={"containers": [{"name": "e", "image": "vllm/vllm-openai", "ports": [{"containerPort": 8000}]}]})  # fmt: skip
    (tmp_path / "x.yaml").write_text(json.dumps(server))

    assert main(["inject", "--all", IMAGE, "--pod-spec-path=ModelServer=spec.pod", str(tmp_path / "x.yaml")]) == 0
    assert "names port" not in capsys.readouterr().err
