"""The Helm chart of the monitoring half, as Helm's own engines read it: its objects are those that `sidecar export` writes."""

import base64
import gzip
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sidecar import __version__
from sidecar.commands.export.rules.rulers import RULERS, Ruler
from sidecar.config.quick_yaml import read_yaml
from tests.commands.export.written import export, texts_below
from tests.support.artefacts import artefact
from tests.support.helm import VERSIONS, Helm, RefusedByHelmError
from tests.support.imports import CHECKOUT
from tests.support.kustomize import DEPLOY, keyed, made, objects_in
from tests.support.schemas import refused
from tests.support.tools import need_tool


pytestmark = pytest.mark.long

CHART = DEPLOY / "chart"
RULES = CHECKOUT / "alert_rules"
OURS = "llm-phase-sidecar"
HELMS_OWN = {"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"}
"""Labels that the chart adds to every object."""
TEAM = (
    *("--namespace=inference", "--release=prom", "--severity.page=critical"),
    *("--severity.ticket=warning", "--receivers=slack", "--runbook-base=https://r.example.org", "--datasource=mimir"),
    "--secrets=/etc/alertmanager/secrets/llm-alert-receivers",
)
SECRET_BYTES = 1 << 20
"""The most bytes that Kubernetes takes in one Secret, in which Helm keeps a release."""
ALL_OF_IT = {
    "engines": {"namespaces": ["chat", "code"]},
    "scrape": {"by": "annotations"},
    "rules": {"as": "ConfigMap", "forDashboards": True},
    "routes": {"as": "AlertmanagerConfig"},
    "networkPolicy": {
        "enabled": True,
        "clientNamespaces": ["gateway", "eval"],
        "prometheusNamespaces": ["prom"],
        "trafficPorts": [8000, 8900],
    },
}
"""Values that make what the defaults do not make."""


@pytest.fixture(scope="module")
def helm() -> Iterator[Helm]:
    with Helm() as running:
        yield running


@pytest.fixture(scope="module")
def default(helm: Helm) -> list[Any]:
    return helm.objects(CHART)


def as_exported(objects: list[Any]) -> dict[tuple[str, str], Any]:
    """Without what the chart adds to each object: the namespace of the release, and Helm's labels."""
    found = keyed(json.loads(json.dumps(objects)))
    for one in found.values():
        del one["metadata"]["namespace"]
        for label in HELMS_OWN:
            del one["metadata"]["labels"][label]
    return found


def committed(path: str) -> Any:
    return read_yaml((CHECKOUT / path).read_text())


@pytest.mark.parametrize("version", VERSIONS)
def test_helm_finds_nothing_to_say_against_it(version: str, helm: Helm) -> None:
    told = json.loads(helm.call("lint", version, paths=[str(CHART)], strict=True))

    assert told["passed"] is True
    assert [one["message"] for one in told["messages"]] == ["icon is recommended"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_package_holds_what_export_writes(version: str, helm: Helm, tmp_path: Path) -> None:
    """Byte by byte, Chart.yaml as data: Helm writes it anew. What is a link in the repository is a file there."""
    packed = helm.call("package", version, path=str(CHART), destination=str(tmp_path)).strip()
    with tarfile.open(packed) as archive:
        texts = {
            each.name.removeprefix(f"{OURS}/"): archive.extractfile(each).read().decode()  # type: ignore[union-attr]
            for each in archive.getmembers()
            if each.isfile()
        }
    exported = export(tmp_path / "exported", "chart")

    assert Path(packed).name == f"{OURS}-{__version__}.tgz"
    assert read_yaml(texts.pop("Chart.yaml")) == read_yaml(exported.pop("Chart.yaml"))
    assert texts == exported == {name: text for name, text in texts_below(CHART).items() if name != "Chart.yaml"}


@pytest.mark.release
def test_the_chart_of_the_release_renders_as_the_checkouts(helm: Helm) -> None:
    chart = artefact(f"{OURS}-VERSION.tgz")

    assert helm.template(chart) == helm.template(CHART)
    assert helm.template(chart, ALL_OF_IT) == helm.template(CHART, ALL_OF_IT)


@pytest.mark.parametrize("ruler", RULERS.values(), ids=lambda ruler: ruler.name)
def test_the_chart_of_each_ruler_renders_and_has_the_object_that_the_ruler_reads(
    ruler: Ruler, helm: Helm, tmp_path: Path
) -> None:
    """Google's belongs to no namespace. A ConfigMap has the files for each."""
    export(tmp_path, "chart", f"--ruler={ruler.name}")
    rules = [one for one in helm.objects(tmp_path) if one["kind"] in ("PrometheusRule", "ClusterRules", "Rules")]
    (as_files,) = helm.objects(tmp_path, {**OFF, "rules": {"as": "ConfigMap"}})

    assert [(one["apiVersion"], one["kind"]) for one in rules] == [ruler.rules_object] * ruler.reads_objects
    assert [one["metadata"].get("namespace") for one in rules if one["kind"] == "ClusterRules"] in ([], [None])
    assert set(as_files["data"]) == {"llm-recording.yml", "llm-alerts.yml"}


def test_both_engines_render_the_same(helm: Helm) -> None:
    assert helm.template(CHART, ALL_OF_IT, "v3") == helm.template(CHART, ALL_OF_IT, "v4")


def test_rules_scraping_and_dashboards_are_the_exported_ones(default: list[Any]) -> None:
    """Messages with their braces among them. The dashboards are as kustomize makes them of grafana/dashboards."""
    objects = as_exported(default)
    routes = objects.pop(("Secret", "llm-phase-sidecar-alertmanager"))

    assert objects == made(CHECKOUT / "grafana/dashboards") | keyed(
        [
            committed("alert_rules/kubernetes/prometheus-rule.yaml"),
            committed("deploy/monitoring/pod-monitor/pod-monitor.yaml"),
            committed("deploy/base/admin-service.yaml"),
        ]
    )
    assert set(routes["stringData"]) == {"alertmanager.yaml", "llm.tmpl"}


def test_the_secret_holds_the_exported_routes(default: list[Any], tmp_path: Path) -> None:
    """With the folders in which prometheus-operator puts a Secret's keys: amtool reads both files in folders of that kind."""
    folder, secrets = tmp_path / "config", "/etc/alertmanager/secrets/llm-alert-receivers"
    texts = export(tmp_path / "exported", "routes", f"--secrets={secrets}")
    routes = as_exported(default)["Secret", "llm-phase-sidecar-alertmanager"]["stringData"]
    config = read_yaml(routes["alertmanager.yaml"])
    folder.mkdir()
    (folder / "llm.tmpl").write_text(routes["llm.tmpl"])
    file = tmp_path / "alertmanager.yaml"
    file.write_text(routes["alertmanager.yaml"].replace("/etc/alertmanager/config", str(folder)))
    checked = subprocess.run(
        [need_tool("amtool"), "check-config", file], capture_output=True, text=True, check=False, timeout=60
    )

    assert config.pop("templates") == ["/etc/alertmanager/config/*.tmpl"]
    assert {**config, "templates": ["templates/*.tmpl"]} == read_yaml(texts["alertmanager.yml"])
    assert routes["llm.tmpl"] == texts["templates/llm.tmpl"]
    assert (checked.returncode, "1 templates" in checked.stdout) == (0, True), checked.stdout + checked.stderr


def test_a_teams_own_texts_are_those_that_export_writes(helm: Helm, tmp_path: Path) -> None:
    """`sidecar export chart` takes the flags; values take none of them."""
    export(tmp_path / "chart", "chart", *TEAM)
    texts = export(tmp_path / "all", "all", *TEAM)
    values = {"routes": {"as": "AlertmanagerConfig"}, "rules": {"forDashboards": True}}
    objects = as_exported(helm.objects(tmp_path / "chart", values))
    secret = as_exported(helm.objects(tmp_path / "chart"))["Secret", "llm-phase-sidecar-alertmanager"]["stringData"]
    boards = made(tmp_path / "all/grafana/dashboards")
    for board in boards.values():
        del board["metadata"]["namespace"]

    assert {key: one for key, one in objects.items() if key[0] != "Service"} == boards | keyed(
        [
            read_yaml(texts[f"alert_rules/kubernetes/{name}.yaml"])
            for name in ("prometheus-rule", "dashboard-rule", "alertmanager-config")
        ]
        + [read_yaml(texts["deploy/monitoring/pod-monitor/pod-monitor.yaml"])]
    )
    assert {name: read_yaml(text) for name, text in secret.items()} == {
        "alertmanager.yaml": read_yaml(texts["alert_rules/alertmanager.yml"])
    }


def test_every_object_is_valid_strictly(default: list[Any], helm: Helm) -> None:
    objects = [*default, *helm.objects(CHART, ALL_OF_IT)]
    kinds = {one["kind"] for one in objects}

    assert kinds == {
        *("PodMonitor", "PrometheusRule", "Secret", "AlertmanagerConfig", "NetworkPolicy", "Service", "ConfigMap"),
    }
    assert {one["metadata"]["name"]: found for one in objects if (found := refused(one))} == {}


def test_what_stands_once_for_each_namespace_of_the_engines(helm: Helm) -> None:
    objects = helm.objects(CHART, ALL_OF_IT)
    places = {kind: [one["metadata"]["namespace"] for one in of_kind(kind, objects)] for kind in PLACES}
    annotated = [one["metadata"]["annotations"] for one in of_kind("Service", objects)]

    assert places == PLACES
    assert annotated == 2 * [
        {"prometheus.io/scrape": "true", "prometheus.io/port": "9901", "prometheus.io/path": "/metrics"}
    ]


PLACES = {
    "Service": ["chat", "code"],
    "AlertmanagerConfig": ["chat", "code"],
    "NetworkPolicy": ["chat", "code"],
    "PodMonitor": [],
}


def of_kind(kind: str, objects: list[Any]) -> list[Any]:
    return [one for one in objects if one["kind"] == kind]


@pytest.mark.parametrize(
    ("namespaces", "selector"),
    [([], None), (["chat", "code"], {"matchNames": ["chat", "code"]}), (["*"], {"any": True})],
)
def test_prometheus_scrapes_the_namespaces_of_the_engines(namespaces: list[str], selector: Any, helm: Helm) -> None:
    values = {"engines": {"namespaces": namespaces}, "scrape": {"interval": "30s"}, "labels": {"release": "prom"}}
    (monitor,) = of_kind("PodMonitor", helm.objects(CHART, values))

    assert monitor["metadata"]["labels"]["release"] == "prom"
    assert monitor["spec"].get("namespaceSelector") == selector
    assert monitor["spec"]["podMetricsEndpoints"][0]["interval"] == "30s"
    assert not refused(monitor)


def test_a_policy_without_names_is_the_shipped_one_and_names_replace_its(helm: Helm) -> None:
    shipped = committed("deploy/components/network-policy/network-policy.yaml")
    (given,) = of_kind("NetworkPolicy", helm.objects(CHART, {"networkPolicy": {"enabled": True}}))
    changed = of_kind("NetworkPolicy", helm.objects(CHART, ALL_OF_IT))[0]["spec"]["ingress"]

    assert as_exported([given]) == keyed([shipped])
    assert changed == [
        {"from": [*map(named, ("gateway", "eval")), {"podSelector": {}}], "ports": [*map(tcp, (8000, 8900))]},
        {"from": [named("prom")], "ports": [tcp(9901)]},
    ]


def named(namespace: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}


def tcp(port: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": port}


SCALED = {"ScaledObject": "keda/scaled-object", "HorizontalPodAutoscaler": "hpa/horizontal-pod-autoscaler"}
SHIPPED_WORKLOAD = {"name": "mistral-7b", "namespace": "default", "requestsPerReplica": 32, "maxReplicas": 4}
"""The workload of the shipped objects."""


@pytest.mark.parametrize(("kind", "file"), SCALED.items(), ids=SCALED)
def test_autoscaling_is_the_shipped_object_with_each_workloads_own_words(kind: str, file: str, helm: Helm) -> None:
    own = {"name": "qwen-3", "kind": "StatefulSet", "requestsPerReplica": 8, "minReplicas": 2, "maxReplicas": 9}
    scaling = {"as": kind, "workloads": [SHIPPED_WORKLOAD, own], "prometheusUrl": "http://thanos:9090"}
    shipped, other = helm.objects(CHART, {**OFF, "autoscaling": scaling})
    expected = committed(f"deploy/components/scaling/{file}.yaml")
    for trigger in expected["spec"].get("triggers", ()):
        trigger["metadata"]["serverAddress"] = "http://thanos:9090"

    assert as_exported([shipped]) == keyed([expected])
    assert (other["metadata"]["name"], other["metadata"]["namespace"]) == ("qwen-3", "monitoring")
    assert other["spec"]["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "qwen-3"}
    assert {value for key, value in other["spec"].items() if key.startswith(("min", "max"))} == {2, 9}
    assert "mistral" not in json.dumps(other)
    assert queries([other]) == [
        query.replace('namespace="default"', 'namespace="monitoring"')
        .replace("mistral-7b", "qwen-3")
        .replace("/ 32", "/ 8")
        for query in queries([shipped])
    ]
    assert refused(shipped) == refused(other) == []


@pytest.mark.parametrize(
    ("namespaces", "place"), [([], "monitoring"), (["inference"], "inference"), (["chat", "code"], None), (["*"], None)]
)
def test_a_workload_is_looked_for_where_the_engines_are(namespaces: list[str], place: str | None, helm: Helm) -> None:
    """A single namespace is taken; where there are several it must be said, because a wrong one would be asked in silence."""
    workload = {"name": "llama", "requestsPerReplica": 8, "maxReplicas": 9}
    values = {
        **OFF,
        "engines": {"namespaces": namespaces},
        "autoscaling": {"as": "ScaledObject", "workloads": [workload]},
    }

    if place is None:
        with pytest.raises(RefusedByHelmError, match=r"autoscaling\.workloads: llama has no namespace"):
            helm.objects(CHART, values)
    else:
        (one,) = helm.objects(CHART, values)
        (query,) = queries([one])
        assert one["metadata"]["namespace"] == place
        assert set(re.findall(r'namespace="([^"]*)"', query)) == {place}


def queries(objects: list[Any]) -> list[str]:
    return [trigger["metadata"]["query"] for one in objects for trigger in one["spec"].get("triggers", ())]


OFF = {
    "scrape": {"by": "none", "adminService": False},
    "rules": {"as": "none"},
    "routes": {"as": "none"},
    "dashboards": {"enabled": False},
}


def test_files_for_a_prometheus_without_an_operator_are_the_exported_ones(helm: Helm) -> None:
    (rules,) = helm.objects(CHART, {**OFF, "rules": {"as": "ConfigMap", "forDashboards": True}})

    assert rules["data"] == {file.name: file.read_text() for file in RULES.glob("llm-*.yml")}


def test_each_part_can_be_left_out(helm: Helm) -> None:
    left = {part: len(helm.objects(CHART, {**OFF, part: {}})) for part in OFF}

    assert helm.objects(CHART, OFF) == []
    assert left == {"scrape": 2, "rules": 1, "routes": 1, "dashboards": 7}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"routes": {"as": "secret"}}, "at '/routes/as': value must be one of 'Secret', 'AlertmanagerConfig', 'none'"),
        ({"scraping": {}}, "at '': additional properties 'scraping' not allowed"),
        ({"dashboards": {"label": "x"}}, "at '/dashboards': additional properties 'label' not allowed"),
        ({"scrape": {"interval": "2m"}}, "at '/scrape/interval': '2m' does not match pattern"),
        ({"networkPolicy": {"trafficPorts": [0]}}, "at '/networkPolicy/trafficPorts/0': minimum: got 0, want 1"),
        ({"engines": {"namespaces": ["*", "a"]}}, "at '/engines/namespaces"),
        ({"rules": {"forDashboards": "yes"}}, "at '/rules/forDashboards': got string, want boolean"),
        ({"autoscaling": {"as": "ScaledObject"}}, "autoscaling.workloads is empty, and autoscaling.as is ScaledObject"),
        (
            {"autoscaling": {"as": "HorizontalPodAutoscaler"}},
            "autoscaling.workloads is empty, and autoscaling.as is HorizontalPodAutoscaler",
        ),
        (
            {"autoscaling": {"workloads": [{"name": "a", "requestsPerReplica": 1, "maxReplicas": 2}]}},
            "autoscaling.workloads is given, and autoscaling.as is none",
        ),
        (
            {"networkPolicy": {"clientNamespaces": ["gateway"]}},
            "networkPolicy.clientNamespaces is given, and networkPolicy.enabled is false",
        ),
        ({"networkPolicy": {"trafficPorts": [8000]}}, "networkPolicy.trafficPorts is given, and networkPolicy.enabled"),
        ({"rules": {"as": "none", "forDashboards": True}}, "rules.forDashboards is true, and rules.as is none"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(values: Any, told: str, version: str, helm: Helm) -> None:
    with pytest.raises(RefusedByHelmError) as refusal:
        helm.template(CHART, values, version)

    assert told in str(refusal.value)


def test_a_folder_whose_links_were_not_followed_is_refused_with_what_to_do(helm: Helm, tmp_path: Path) -> None:
    """As Flux takes the folder out of a Git repository."""
    shutil.copytree(CHART, tmp_path / "chart", ignore=shutil.ignore_patterns("files"))
    with pytest.raises(RefusedByHelmError, match=r"is empty or absent: .*`sidecar export chart --out=DIR` and"):
        helm.template(tmp_path / "chart")


def test_the_schema_knows_every_value_and_no_other() -> None:
    """Each object of it is closed, and has the keys of values.yaml; `global` is any chart's."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = read_yaml((CHART / "values.yaml").read_text())

    def keys(described: Mapping[str, Any]) -> Any:
        return {name: keys(one) for name, one in described.get("properties", {}).items()}

    def shape(value: Any) -> Any:
        return {name: shape(one) for name, one in value.items()} if isinstance(value, dict) else {}

    def open_ones(described: Any) -> list[Any]:
        inner = [found for one in described.values() if isinstance(one, dict) for found in open_ones(one)]
        return inner + (
            [described] if "properties" in described and described.get("additionalProperties") is not False else []
        )

    assert keys(schema) == {"global": {}, **shape(values)}
    assert [one for one in open_ones(schema) if one.get("type") == "object"] == []


def test_the_version_is_the_packages() -> None:
    chart = committed("deploy/chart/Chart.yaml")

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_a_release_fits_into_the_secret_in_which_helm_keeps_it(helm: Helm) -> None:
    """The chart, its files in base64, and the manifests, as JSON, through gzip, in base64, and that in base64 again as a Secret's data."""
    files = [{"name": name, "data": encoded(text.encode())} for name, text in texts_below(CHART).items()]
    release = {"chart": {"files": files}, "manifest": helm.template(CHART, {"routes": {"as": "AlertmanagerConfig"}})}
    kept = encoded(encoded(gzip.compress(json.dumps(release).encode(), 9)).encode())

    assert 100_000 < len(kept) < SECRET_BYTES / 2


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


# --- what Helm says at install -------------------------------------------------------------------------------------------


def notes(helm: Helm, folder: Path, version: str, values: Any) -> str:
    """A dry run asks no cluster, but a file that would say where one is."""
    access = folder / "access"
    access.write_text("{apiVersion: v1, kind: Config, clusters: [], contexts: [], users: []}")
    told = {"release_name": "llm", "namespace": "monitoring", "dry_run": "client", "kubeconfig": str(access)}
    return str(json.loads(helm.call("install", version, chart=str(CHART), values=values, **told))["notes"])


HIDDEN = "no page is sent of engines outside"
OTHER_NAMESPACES = {
    "the release's own alone": ({"routes": {"as": "AlertmanagerConfig"}}, True),
    "any": ({"routes": {"as": "AlertmanagerConfig"}, "engines": {"namespaces": ["*"]}}, True),
    "an object in each": ({"routes": {"as": "AlertmanagerConfig"}, "engines": {"namespaces": ["chat", "code"]}}, False),
    "no matcher": (
        {"routes": {"as": "AlertmanagerConfig", "alertmanagerConfig": {"seesEveryNamespace": True}}},
        False,
    ),
    "a Secret": ({"engines": {"namespaces": ["*"]}}, False),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("values", "warned"), OTHER_NAMESPACES.values(), ids=OTHER_NAMESPACES)
def test_an_object_that_cannot_see_the_engines_is_told_at_install(
    values: Any, warned: bool, version: str, helm: Helm, tmp_path: Path
) -> None:
    told = notes(helm, tmp_path, version, values)

    assert (HIDDEN in told, "WARNING" in told) == (warned, warned)


def test_one_object_stands_in_alertmanagers_namespace_where_it_sees_all(helm: Helm) -> None:
    values = {
        "engines": {"namespaces": ["chat", "code"]},
        "routes": {
            "as": "AlertmanagerConfig",
            "namespace": "alerting",
            "alertmanagerConfig": {"seesEveryNamespace": True},
        },
    }
    (config,) = of_kind("AlertmanagerConfig", helm.objects(CHART, values))

    assert config["metadata"]["namespace"] == "alerting"


def test_how_to_make_alertmanager_read_the_secret_is_told_as_values_of_its_chart(helm: Helm, tmp_path: Path) -> None:
    told = notes(helm, tmp_path, "v4", {"routes": {"secret": {"name": "routes"}}})
    block = told.partition("kube-prometheus-stack:\n\n")[2].partition("\n\n")[0]

    assert objects_in(block) == [
        {
            "alertmanager": {
                "alertmanagerSpec": {
                    "useExistingSecret": True,
                    "configSecret": "routes",
                    "secrets": ["llm-alert-receivers"],
                }
            }
        }
    ]
