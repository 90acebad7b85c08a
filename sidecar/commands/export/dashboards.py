"""Grafana's dashboards and provisioning, and the canary's questions: the committed files with named substitutions.

Knows which text of a dashboard a parameter changes, and no panel: the dashboards are drawn by `grafana/` in a checkout. It needs no
library of Grafana's.
"""

import json
import re

from sidecar.commands.export.parameters import Parameters
from sidecar.commands.export.rules.annotations import RUNBOOKS
from sidecar.commands.export.shipped_files import GRAFANA, shipped
from sidecar.commands.export.substitution import Substitution, same, substituted
from sidecar.metrics.histogram_forms import classic_only


_BOARDS = "dashboards/*.json"
_AS_THEY_ARE = ("dashboards/kustomization.yaml", "provisioning/*/*.yml", "canary/*.yaml")
_PANEL_PROMQL = r'(?<="expr": )"(?:[^"\\]|\\.)*"'
"""The PromQL of a panel, in JSON."""
_CHOICE = '"query": "prometheus",'
"""In the variable that chooses the data source. Without a choice Grafana takes its default one of this type."""


def dashboard_files(given: Parameters) -> dict[str, str]:
    """Path below grafana/ to text."""
    return substituted(_texts(_BOARDS), _changes(given)) | _texts(*_AS_THEY_ARE)


def _texts(*patterns: str) -> dict[str, str]:
    folder = shipped(GRAFANA)
    paths = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def _changes(given: Parameters) -> list[Substitution]:
    named = given.severities.named
    choice = {"current": {"text": given.datasource, "value": given.datasource}}
    chosen = f"{json.dumps(choice)[1:-1]}, {_CHOICE}" if given.datasource else _CHOICE
    classic = [Substitution("--classic-histograms", _PANEL_PROMQL, _of_classic)] if given.classic_histograms else []
    return [
        *classic,
        *given.identity.in_dashboards(),
        same("--runbook-base", RUNBOOKS, given.runbooks),
        same("--datasource", _CHOICE, chosen),
        Substitution("--severity", r'(?<=\bseverity=\\")(page|ticket)(?=\\")', lambda match: named(match[0])),
    ]


def _of_classic(match: re.Match[str]) -> str:
    return json.dumps(classic_only(json.loads(match[0])), ensure_ascii=False)
