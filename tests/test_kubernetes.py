"""The objects that `sidecar inject` and deploy/ make agree with the program: ports, paths, probes, flags and labels; a change that does not is found."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sidecar import __version__
from sidecar.cli import main
from sidecar.commands.export.rules.annotations import RUNBOOKS
from sidecar.config.quick_yaml import read_yaml
from sidecar.config.schema import MetricsConfig
from tests.support.imports import CHECKOUT
from tests.support.kustomize import DOCUMENTED, WITH_CONFIG, Objects, attached, documented
from tests.support.manifests import ADMIN, SELECTED_BY_DEFAULT, config_file, config_of, mismatches, pod_of
from tools import sizing_tables


USERS = DOCUMENTED["vllm"]
ENGINE = "mistral-7b"
OURS = "llm-phase-sidecar"
Change = Callable[[Objects], object]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_engine_agrees_with_the_program(name: str, tmp_path: Path) -> None:
    assert mismatches(documented(name), tmp_path) == []


def sidecar(objects: Objects) -> Any:
    return pod_of(objects).sidecar


MISTAKES: dict[str, Change] = {
    "ports of the container": lambda made: sidecar(made)["ports"][1].update(containerPort=9902),
    f"Service {ENGINE}: target port 18000": lambda made: made["Service", ENGINE]["spec"]["ports"][0].update(
        targetPort=18000
    ),
    f"Service {OURS}": lambda made: made["Service", OURS]["spec"]["ports"][0].update(targetPort=8900),
    "engine.url: port 8001": lambda made: sidecar(made)["args"].append("--engine.url=http://127.0.0.1:8001"),
    "PodMonitor: port traffic": lambda made: made["PodMonitor", OURS]["spec"]["podMetricsEndpoints"][0].update(
        port="traffic"
    ),
    "GET /-/health: status 404": lambda made: sidecar(made)["livenessProbe"]["httpGet"].update(path="/-/health"),
    "livenessProbe: port traffic": lambda made: sidecar(made)["livenessProbe"]["httpGet"].update(port="traffic"),
    "startupProbe: it waits": lambda made: sidecar(made)["startupProbe"]["httpGet"].update(path="/-/ready"),
    "flag --engine-url": lambda made: sidecar(made)["args"].append("--engine-url=http://127.0.0.1:8000"),
    "flag --config.file: its folder": lambda made: sidecar(made)["volumeMounts"].pop(0),
    "volume sidecar-state": lambda made: (
        pod_of(made)
        .spec["volumes"]
        .remove(next(each for each in pod_of(made).spec["volumes"] if each["name"] == "sidecar-state"))
    ),
    "PodMonitor: selects": lambda made: made["PodMonitor", OURS]["spec"]["selector"]["matchLabels"].update(app="llm"),
    "admin Service: selects": lambda made: pod_of(made).labels.pop(OURS),
    f"PodMonitor {OURS}: no default": lambda made: made["PodMonitor", OURS]["metadata"]["labels"].pop("release"),
    f"PrometheusRule {OURS}: no default": lambda made: made["PrometheusRule", OURS]["metadata"]["labels"].update(
        release="kps"
    ),
    "preStop: asks": lambda made: pod_of(made).engine["lifecycle"]["preStop"]["exec"]["command"].append("/-/drain"),
    "preStop: gives up": lambda made: (
        pod_of(made)
        .engine["lifecycle"]["preStop"]["exec"]
        .update(command=[word.replace("65", "30") for word in pod_of(made).hook])
    ),
    "terminationGracePeriodSeconds": lambda made: pod_of(made).spec.update(terminationGracePeriodSeconds=30),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_deliberate_mismatch_is_found(mistake: str, tmp_path: Path) -> None:
    objects = documented("vllm")
    MISTAKES[mistake](objects)

    assert [found for found in mismatches(objects, tmp_path) if found.startswith(mistake)] != []


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_config_of_every_engine_is_accepted(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sidecar check` with the container's own arguments, the file of the ConfigMap and a directory in place of those mounted."""
    monkeypatch.setenv("SIDECAR__STATE__DIRECTORY", str(tmp_path))
    objects = documented(name)
    file = config_file(objects, tmp_path)
    arguments = [
        f"--config.file={file}" if arg.startswith("--config.file=") else arg for arg in sidecar(objects)["args"]
    ]

    assert (main(["check", *arguments]), capsys.readouterr().err) == (0, "")


# --- the pod ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_sidecar_is_native_and_starts_before_all_others(name: str) -> None:
    pod = pod_of(documented(name))

    others = [container["name"] for container in pod.spec.get("containers", ())]

    assert (pod.spec["initContainers"][0]["name"], pod.sidecar["restartPolicy"]) == ("sidecar", "Always")
    assert "sidecar" not in others
    assert pod.spec["enableServiceLinks"] is False


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_sidecar_has_rights_and_resources_that_an_admission_controller_accepts(name: str) -> None:
    """And no token of the pod's account: Kubernetes mounts none where a volume is mounted already."""
    container = sidecar(documented(name))

    assert container["securityContext"] == {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    # KServe's example is Guaranteed by what it states, and stays so.
    assert container["resources"]["limits"].keys() == {"memory", *(["cpu"] if name == "kserve" else [])}
    assert "/var/run/secrets/kubernetes.io/serviceaccount" in {
        mount["mountPath"] for mount in container["volumeMounts"]
    }


def test_the_memory_that_the_sidecar_asks_for_is_above_what_was_measured() -> None:
    """The column of the performance page with the resident memory at 300 streams, in MB."""
    page = (CHECKOUT / "docs/evidence/performance.md").read_text()
    head = next(line for line in page.splitlines() if "at 300 streams, MB" in line).split("|")
    column = next(at for at, name in enumerate(head) if name.strip() == "at 300 streams, MB")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| sidecar")]
    measured = [float(row[column].split()[0]) for row in rows if len(row) == len(head) and row[column].strip() != "-"]
    requested = sidecar(documented("vllm"))["resources"]["requests"]["memory"]

    assert len(measured) >= 2
    assert requested.endswith("Mi")
    assert max(measured) * 1e6 < int(requested[:-2]) * 2**20


def test_the_cpu_that_the_sidecar_asks_for_is_above_what_was_measured() -> None:
    """The cores of the most streams on docs/sizing.md."""
    costs = sizing_tables.costs()
    most = max(costs)
    cores, _ = costs[most]
    requested = sidecar(documented("vllm"))["resources"]["requests"]["cpu"]
    page = (CHECKOUT / "docs/sizing.md").read_text()

    assert re.search(rf"^\| {most} streams \|.*\| {cores:.2f} \|", page, re.MULTILINE)
    assert requested.endswith("m")
    assert cores < int(requested[:-1]) / 1000


@pytest.mark.parametrize("name", DOCUMENTED)
def test_usual_values_are_kept_in_a_volume_that_may_be_written(name: str, tmp_path: Path) -> None:
    """`state.directory` is a volume of this pod; the root file system is read-only."""
    objects = documented(name)
    pod = pod_of(objects)
    mounts = {mount["mountPath"]: mount for mount in pod.sidecar["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod.spec["volumes"]}

    mount = mounts[config_of(objects, tmp_path).state.directory]

    assert not mount.get("readOnly")
    assert "emptyDir" in volumes[mount["name"]]


def test_every_text_that_names_a_tag_of_the_image_names_this_one() -> None:
    texts = [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md"), *(CHECKOUT / "deploy").rglob("*.*")]
    tags = {
        tag
        for path in texts
        if path.is_file() and path.name != "CHANGELOG.md"
        for tag in re.findall(rf"{OURS}:([\w.-]+)", path.read_text())
    }

    assert tags - {str(ADMIN)} == {__version__}


def test_the_pods_name_namespace_and_node_come_from_kubernetes() -> None:
    variables = [each for each in sidecar(documented("vllm"))["env"] if "valueFrom" in each]
    given = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in variables}

    assert given == {
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "NODE_NAME": "spec.nodeName",
    }


def test_on_an_old_cluster_the_sidecar_is_a_container_behind_the_engine(tmp_path: Path) -> None:
    """The same container without the field that old clusters do not know; the engine stays the first."""
    native = pod_of(documented("vllm"))
    plain = pod_of(attached(tmp_path, USERS, ["monitoring"], chosen=replace(WITH_CONFIG, plain=True)))

    assert [each["name"] for each in plain.spec["containers"]] == [ENGINE, "sidecar"]
    assert plain.spec.get("initContainers", []) == []
    assert plain.sidecar == {key: value for key, value in native.sidecar.items() if key != "restartPolicy"}
    assert plain.engine == native.engine


def test_an_account_without_rights_is_a_line_more(tmp_path: Path) -> None:
    objects = attached(tmp_path, USERS, ["service-account"])
    pod = pod_of(objects)
    account = objects["ServiceAccount", pod.spec["serviceAccountName"]]

    assert (account["automountServiceAccountToken"], pod.spec["automountServiceAccountToken"]) == (False, False)
    assert {kind for kind, _ in objects} & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} == set()


# --- Prometheus, Grafana and the links of a page --------------------------------------------------------------------------------


def test_the_links_of_a_page_lead_to_the_admin_service_also_while_the_engine_is_down() -> None:
    """The name and port are those of the pages' own links; a pod that is not ready is in."""
    address = urlsplit(RUNBOOKS)
    service = documented("vllm")["Service", OURS]["spec"]

    assert (address.hostname, address.port) == (OURS, service["ports"][0]["port"])
    assert service["publishNotReadyAddresses"] is True


def test_the_default_prometheus_gets_everything_and_no_route_that_needs_a_secret(tmp_path: Path) -> None:
    objects = attached(tmp_path, USERS, ["monitoring"])
    dashboards = {name for kind, name in objects if kind == "ConfigMap" and name.startswith("grafana-dashboard-")}

    assert len(dashboards) == len(list((CHECKOUT / "grafana/dashboards").glob("*.json")))
    assert {kind for kind, _ in objects if kind in {"PodMonitor", "PrometheusRule", "AlertmanagerConfig"}} == {
        "PodMonitor",
        "PrometheusRule",
    }
    assert SELECTED_BY_DEFAULT.items() <= objects["PrometheusRule", OURS]["metadata"]["labels"].items()


def test_a_further_namespace_gets_a_pod_monitor_and_no_second_set_of_rules(tmp_path: Path) -> None:
    objects = attached(tmp_path, USERS, ["pod-monitor"])

    assert {kind for kind, _ in objects} == {"ConfigMap", "Deployment", "PodMonitor", "Service"}


def test_with_tls_a_pod_monitor_asks_by_https(tmp_path: Path) -> None:
    """In the order of the guide's table. The other way round it asked an HTTPS port by http, and nothing warned."""
    rows = re.findall(r"^\| `components/(\S+)`", (CHECKOUT / "docs/attach.md").read_text(), re.MULTILINE)
    order = sorted(["pod-monitor", "admin-tls"], key=rows.index)
    (monitor,) = [one for (kind, _), one in attached(tmp_path, USERS, order).items() if kind == "PodMonitor"]

    assert [each["scheme"] for each in monitor["spec"]["podMetricsEndpoints"]] == ["https"]


def test_one_engine_is_one_job_with_and_without_the_operator() -> None:
    """The job is the name of the Deployment: the name of its ReplicaSet without the hash. Both ways have the same rules."""
    (endpoint,) = documented("vllm")["PodMonitor", OURS]["spec"]["podMetricsEndpoints"]
    blocks = re.findall(r"```yaml\n(scrape_configs:.*?)```", (CHECKOUT / "docs/attach.md").read_text(), re.DOTALL)
    (scraped,) = read_yaml(blocks[0])["scrape_configs"]
    ours = [(rule["sourceLabels"], rule["regex"]) for rule in endpoint["relabelings"] if rule["targetLabel"] == "job"]
    theirs = [
        (rule["source_labels"], rule["regex"])
        for rule in scraped["relabel_configs"]
        if rule.get("target_label") == "job"
    ]
    job = None
    for _, regex in ours:
        for name in ("mistral-7b-6f9c7d4b5", "ReplicaSet;mistral-7b-6f9c7d4b5"):
            found = re.fullmatch(regex, name)
            job = found[1] if found and (";" in name) == (";" in regex) else job

    assert ours == theirs
    assert job == ENGINE


def test_what_is_scraped_is_bounded_above_what_the_sidecar_has() -> None:
    assert documented("vllm")["PodMonitor", OURS]["spec"]["sampleLimit"] > MetricsConfig().series_limit
