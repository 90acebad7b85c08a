"""The components that guard the admin port: the policy of the network, TLS and a password."""

import re
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.config.quick_yaml import read_yaml
from sidecar.config.schema import ProxyConfig, WebConfig
from tests.support.imports import CHECKOUT
from tests.support.kustomize import DEPLOY, DOCUMENTED, attached, documented
from tests.support.manifests import pod_of


USERS = DOCUMENTED["vllm"]
POLICY = read_yaml((DEPLOY / "components/network-policy/network-policy.yaml").read_text())["spec"]
TRAFFIC, ADMIN = ProxyConfig().address.port, WebConfig().address.port


def test_the_policy_is_for_the_pods_with_a_sidecar(tmp_path: Path) -> None:
    objects = attached(tmp_path, USERS, ["network-policy"])

    assert objects["NetworkPolicy", "llm-phase-sidecar"]["spec"] == POLICY
    assert POLICY["podSelector"]["matchLabels"].items() <= pod_of(objects).labels.items()
    assert POLICY["policyTypes"] == ["Ingress"]


@pytest.mark.parametrize("engine", ["vllm", "dynamo"])
def test_the_ports_of_the_sidecar_are_open_and_the_engines_own_is_not(engine: str) -> None:
    """A request to the engine's own port would bypass the sidecar, which has taken the port that the engine had."""
    pod = pod_of(documented(engine))
    ports = {port["containerPort"] for port in pod.sidecar["ports"]}
    opened = {port["port"] for rule in POLICY["ingress"] for port in rule["ports"]}

    assert ports | {TRAFFIC} == opened == {TRAFFIC, ADMIN, 8000}
    assert int(pod.flags["--engine.url"].rpartition(":")[2]) not in opened


def test_only_the_namespace_of_prometheus_reaches_the_admin_port() -> None:
    """Each rule names who may come: one without `from` lets all in."""
    (rule,) = [each for each in POLICY["ingress"] if any(port["port"] == ADMIN for port in each["ports"])]

    assert len(rule["ports"]) == 1
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert all(each.get("from") for each in POLICY["ingress"])


def test_the_line_of_the_guide_lets_browsers_in_through_the_ingress_that_clients_use() -> None:
    """Without it a link of a page gets no answer outside of the namespace of Prometheus. The guide says where it belongs."""
    section = (CHECKOUT / "docs/attach.md").read_text().partition("### A browser and the links of a page")[2]
    (line,) = re.findall(r"```yaml\n(- namespaceSelector: .*?)```", section, re.DOTALL)
    *clients, last = POLICY["ingress"]

    assert [port["port"] for port in last["ports"]] == [ADMIN]
    assert "the last `from`" in section
    assert read_yaml(line)[0] in [one for rule in clients for one in rule["from"]]
    assert read_yaml(line)[0] not in last["from"]


def test_no_policy_comes_unasked() -> None:
    """It would cut off clients in namespaces that it does not name."""
    assert "NetworkPolicy" not in {kind for kind, _ in documented("vllm")}


def test_the_component_puts_probes_hook_and_prometheus_on_tls(tmp_path: Path) -> None:
    """And the flag that it adds is one that `serve` knows, with a file from the volume that it mounts."""
    objects = attached(tmp_path, USERS, ["monitoring", "admin-tls"])
    pod, plain = pod_of(objects), pod_of(documented("vllm"))
    (endpoint,) = objects["PodMonitor", "llm-phase-sidecar"]["spec"]["podMetricsEndpoints"]
    probes = [pod.sidecar[name]["httpGet"] for name in pod.sidecar if name.endswith("Probe")]
    flag = "--web.config.file"
    file = Path(pod.flags[flag])

    assert [probe["scheme"] for probe in probes] == ["HTTPS"] * 3
    assert (endpoint["scheme"], endpoint["path"], set(endpoint["basicAuth"])) == (
        "https",
        "/metrics",
        {"username", "password"},
    )
    assert pod.hook == [word.replace("http:", "https:").replace("-sS", "-ksS") for word in plain.hook]
    assert file.parent.as_posix() in {mount["mountPath"] for mount in pod.sidecar["volumeMounts"]}
    (tmp_path / "web.yml").write_text("")
    assert main(["check", "--engine.url=http://127.0.0.1:1", f"{flag}={tmp_path / file.name}"]) == 0
