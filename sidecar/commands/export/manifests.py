"""The Kubernetes objects: manifests, rules, routes and dashboards as folders for `kubectl apply -k`, with a namespace if one is given,
and the same texts inside the Helm chart of the monitoring half.

The folders stand to each other as in the repository, because kustomizations name each other by relative paths. In the repository the
chart's `files/` are links to the texts; Helm packs no link, so here they are files. It knows which lines of a manifest a parameter
changes, and no object.
"""

import json
import re
from pathlib import PurePosixPath

from sidecar.commands.export.dashboards import dashboard_files
from sidecar.commands.export.parameters import Parameters
from sidecar.commands.export.routes import route_files
from sidecar.commands.export.rules.operator import RELEASE
from sidecar.commands.export.rules.rule_files import files
from sidecar.commands.export.shipped_files import ALERT_RULES, DEPLOY, GRAFANA, shipped
from sidecar.commands.export.substitution import Substitution, substituted, word


KUSTOMIZATION = "kustomization.yaml"
_OBJECTS = ("kubernetes/", "templates/")
_CHART = f"{DEPLOY}/chart/"
_CHART_LINKS = {
    "": (
        f"{ALERT_RULES}/alertmanager.yml",
        f"{ALERT_RULES}/kubernetes/*.yaml",
        f"{ALERT_RULES}/llm-*.yml",
        f"{ALERT_RULES}/templates/*.tmpl",
        f"{DEPLOY}/base/admin-service.yaml",
        f"{DEPLOY}/components/network-policy/network-policy.yaml",
        f"{DEPLOY}/components/scaling/hpa/horizontal-pod-autoscaler.yaml",
        f"{DEPLOY}/components/scaling/keda/scaled-object.yaml",
        f"{DEPLOY}/monitoring/pod-monitor/pod-monitor.yaml",
    ),
    "dashboards/": (f"{GRAFANA}/dashboards/*",),
}
"""Folder below the chart's files/ to what is linked there. Messages that `--receivers` has inlined are not."""
_COMPONENT = re.compile(r"^kind: Component$", re.MULTILINE)
_NAMESPACE = re.compile(r"^namespace: .*\n", re.MULTILINE)
_RULES_LISTED = re.compile(r"^  - kubernetes/prometheus-rule\.yaml\n", re.MULTILINE)
_MESSAGES_FOLDER = f"{ALERT_RULES}/templates"
"""Its ConfigMap belongs into the Alertmanager's namespace, so it gets none here."""


def rule_texts(given: Parameters) -> dict[str, str]:
    """Path below alert_rules/ to text: the rules, as files and as an object."""
    bases = (given.runbooks, given.dashboards)
    texts = _released(
        files(
            bases,
            given.severities,
            identity=given.identity,
            ruler=given.evaluated_by,
            interval_seconds=given.interval_seconds,
            keep_firing=given.keeps_firing,
            classic_histograms=given.classic_histograms,
        ),
        given,
    )
    has_objects = given.evaluated_by.reads_objects
    return {name: text for name, text in texts.items() if has_objects or not name.startswith(_OBJECTS)}


def route_texts(given: Parameters) -> dict[str, str]:
    """The same of Alertmanager's routes."""
    return _released(route_files(given), given)


def placed_dashboards(given: Parameters) -> dict[str, str]:
    """Path below grafana/ to text: the dashboards, with the namespace of their objects if one is given."""
    return {path: _placed(path, text, given.namespace) for path, text in dashboard_files(given).items()}


def chart_files(given: Parameters) -> dict[str, str]:
    """Path below the chart's folder to text."""
    texts = {path: text for path, text in all_files(given).items() if path.startswith(_CHART)}
    return {path.removeprefix(_CHART): text for path, text in texts.items()}


def kubernetes_files(given: Parameters) -> dict[str, str]:
    """Path to text: the folders deploy/, alert_rules/ and grafana/dashboards/, with what a cluster takes."""
    return {path: text for path, text in _deployed(given).items() if not path.startswith(_CHART)}


def _deployed(given: Parameters) -> dict[str, str]:
    """The same, with the chart's own files."""
    listed = (shipped(ALERT_RULES) / KUSTOMIZATION).read_text()
    alerting = {KUSTOMIZATION: listed if given.evaluated_by.reads_objects else _RULES_LISTED.sub("", listed)}
    alerting |= {
        name: text for name, text in (rule_texts(given) | route_texts(given)).items() if name.startswith(_OBJECTS)
    }
    boards = {name: text for name, text in placed_dashboards(given).items() if name.startswith("dashboards/")}
    texts = _below(DEPLOY, _manifests(given)) | _below(ALERT_RULES, alerting) | _below(GRAFANA, boards)
    return {path: _placed(path, text, given.namespace) for path, text in texts.items()}


def all_files(given: Parameters) -> dict[str, str]:
    """The same folders, with the chart, and with the files for those who run no Kubernetes."""
    files_too = _below(ALERT_RULES, rule_texts(given) | route_texts(given)) | _below(GRAFANA, dashboard_files(given))
    texts = files_too | _deployed(given)
    return texts | _linked(texts)


def _linked(texts: dict[str, str]) -> dict[str, str]:
    """The files to which the chart has links, at the links' places."""
    return {
        f"{_CHART}files/{place}{PurePosixPath(path).name}": text
        for place, patterns in _CHART_LINKS.items()
        for path, text in texts.items()
        if any(PurePosixPath(path).match(pattern) for pattern in patterns)
    }


def _manifests(given: Parameters) -> dict[str, str]:
    folder = shipped(DEPLOY)
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    texts = {str(path.relative_to(folder)): path.read_text() for path in paths}
    return substituted(texts, [_label(given), *_no_object_of_rules(given)])


def _released(texts: dict[str, str], given: Parameters) -> dict[str, str]:
    return substituted(texts, [_label(given)])


def _label(given: Parameters) -> Substitution:
    return word("--release", rf"(?<=\brelease: ){re.escape(RELEASE)}(?![\w.-])", given.release)


def _no_object_of_rules(given: Parameters) -> list[Substitution]:
    """The chart's default where the ruler takes files alone: there is no object for it to render."""
    if given.evaluated_by.reads_objects:
        return []
    return [Substitution("--ruler", r"^  as: PrometheusRule$", lambda _match: "  as: none")]


def _below(folder: str, texts: dict[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in texts.items()}


def _placed(path: str, text: str, namespace: str) -> str:
    """A kustomization that puts all its objects into the namespace; any other file, and a Component, as it is.

    A Component would put the user's own objects there as well.
    """
    where = PurePosixPath(path)
    if not namespace or where.name != KUSTOMIZATION or str(where.parent) == _MESSAGES_FOLDER or _COMPONENT.search(text):
        return text
    return f"{_NAMESPACE.sub('', text)}namespace: {json.dumps(namespace)}\n"
