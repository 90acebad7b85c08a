"""The manifests that guard the admin port: the policy of the network, and the component with TLS and a password."""

import os
from pathlib import Path
from typing import Any

import yaml

from sidecar.cli import main
from sidecar.config.proxy_section import ProxyConfig
from sidecar.config.schema import WebConfig
from tests.support.kustomize import Objects, keyed, made


DEPLOY = Path(__file__).parents[1] / "deploy"
POLICY = yaml.safe_load((DEPLOY / "networkpolicy.yaml").read_text())["spec"]
TRAFFIC, ADMIN = ProxyConfig().address.port, WebConfig().address.port


def committed(name: str) -> Objects:
    return keyed(yaml.safe_load_all((DEPLOY / name).read_text()))


def sidecar_of(objects: Objects) -> dict[str, Any]:
    (container,) = objects["Deployment", "llama"]["spec"]["template"]["spec"]["initContainers"]
    return dict(container)


def hook_of(objects: Objects) -> list[str]:
    """The command that the engine's container waits for before it stops."""
    (engine,) = objects["Deployment", "llama"]["spec"]["template"]["spec"]["containers"]
    return list(engine["lifecycle"]["preStop"]["exec"]["command"])


def test_the_policy_is_for_the_pods_of_the_deployment() -> None:
    pods = committed("kubernetes.yaml")["Deployment", "llama"]["spec"]["template"]["metadata"]["labels"]

    assert POLICY["podSelector"]["matchLabels"].items() <= pods.items()
    assert POLICY["policyTypes"] == ["Ingress"]


def test_the_ports_of_the_sidecar_are_open_and_the_engines_own_is_not() -> None:
    """A request to the engine's own port would bypass the sidecar."""
    container = sidecar_of(committed("kubernetes.yaml"))
    opened = {port["port"] for rule in POLICY["ingress"] for port in rule["ports"]}

    assert opened == {TRAFFIC, ADMIN} == {port["containerPort"] for port in container["ports"]}


def test_only_the_namespace_of_prometheus_reaches_the_admin_port() -> None:
    """Each rule names who may come: one without `from` lets all in."""
    (rule,) = [each for each in POLICY["ingress"] if any(port["port"] == ADMIN for port in each["ports"])]

    assert len(rule["ports"]) == 1
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert all(each.get("from") for each in POLICY["ingress"])


def test_the_kustomization_makes_the_objects_as_they_are_committed() -> None:
    assert made(DEPLOY) == {**committed("kubernetes.yaml"), **committed("networkpolicy.yaml")}


def test_the_component_puts_probes_and_prometheus_on_tls(tmp_path: Path) -> None:
    """And the flag that it adds is one that `serve` knows, with a file from the volume that it mounts."""
    deploy = os.path.relpath(DEPLOY, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(f"resources: [{deploy}]\ncomponents: [{deploy}/admin-tls]\n")
    objects = made(tmp_path)
    container = sidecar_of(objects)
    (endpoint,) = objects["PodMonitor", "llama-sidecar"]["spec"]["podMetricsEndpoints"]
    probes = [container[name]["httpGet"] for name in container if name.endswith("Probe")]
    flag, _, file = container["args"][-1].partition("=")

    assert [probe["scheme"] for probe in probes] == ["HTTPS"] * 3
    assert (endpoint["scheme"], endpoint["path"], set(endpoint["basicAuth"])) == (
        "https",
        "/metrics",
        {"username", "password"},
    )
    assert hook_of(objects) == [
        word.replace("http:", "https:").replace("-sS", "-ksS") for word in hook_of(committed("kubernetes.yaml"))
    ]
    assert Path(file).parent.as_posix() in {mount["mountPath"] for mount in container["volumeMounts"]}
    (tmp_path / "web.yml").write_text("")
    assert main(["check", "--engine.url=http://127.0.0.1:1", f"{flag}={tmp_path / Path(file).name}"]) == 0
