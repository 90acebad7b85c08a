"""How the dashboards get into a Grafana, and the canary's questions into Flagger and Argo Rollouts.

Knows provisioning files, ConfigMaps as the Grafana chart's sidecar loader picks them up, and the two tools' templates. Both ask
what the canary dashboard shows, for one lane, in queries that answer with exactly one series: Flagger takes the last of several, Argo
the first. No traffic is no answer: Flagger then halts the rollout, Argo calls the measurement inconclusive; neither passes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from grafana.canary import GATE


FOLDER = "LLM"
MOUNTED = "/var/lib/grafana/dashboards/llm"
PROMETHEUS = "http://prometheus:9090"
_HEADER = "# Written by `python -m grafana`; change the code beside it, not this file.\n"


class _Block(str):
    """Text that stands in a block of its own, without escapes."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Long text as blocks."""


def _block(dumper: yaml.SafeDumper, text: _Block) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|")


_Dumper.add_representer(_Block, _block)


def _yaml(*documents: Mapping[str, Any], why: str) -> str:
    text = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return f"{_HEADER}# {why}\n{text}"


def config_maps(dashboards: Mapping[str, str]) -> Mapping[str, str]:
    """One ConfigMap for each dashboard (1 MiB is a ConfigMap's limit). `dashboards`: file name to text."""
    made = {}
    for name, text in dashboards.items():
        uid = name.removesuffix(".json")
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"grafana-dashboard-{uid}",
                "labels": {"app.kubernetes.io/name": "llm-phase-sidecar", "grafana_dashboard": "1"},
                "annotations": {"grafana_folder": FOLDER},
            },
            "data": {name: _Block(text)},
        }
        made[f"kubernetes/{uid}.yaml"] = _yaml(config_map, why="For the sidecar loader of the Grafana chart.")
    return made


def provisioning() -> Mapping[str, str]:
    """Files for /etc/grafana/provisioning."""
    provider = {
        "name": "llm-phase-sidecar",
        "orgId": 1,
        "folder": FOLDER,
        "type": "file",
        "disableDeletion": True,
        "allowUiUpdates": False,
        "options": {"path": MOUNTED},
    }
    prometheus = {
        "name": "Prometheus",
        "uid": "prometheus",
        "type": "prometheus",
        "access": "proxy",
        "url": PROMETHEUS,
        "isDefault": True,
        "jsonData": {
            "httpMethod": "POST",
            # The scrape interval: $__rate_interval is at least four of it.
            "timeInterval": "15s",
            "exemplarTraceIdDestinations": [{"name": "trace_id", "datasourceUid": "tempo"}],
        },
    }
    tempo = {"name": "Tempo", "uid": "tempo", "type": "tempo", "access": "proxy", "url": "http://tempo:3200"}
    return {
        "provisioning/dashboards/llm.yml": _yaml(
            {"apiVersion": 1, "providers": [provider]}, why=f"Mount grafana/dashboards at {MOUNTED}."
        ),
        "provisioning/datasources/prometheus.yml": _yaml(
            {"apiVersion": 1, "datasources": [prometheus, tempo]},
            why="Exemplars lead to traces in Tempo; Prometheus needs --enable-feature=exemplar-storage. No traces: leave Tempo out.",
        ),
    }


@dataclass(frozen=True, slots=True)
class Question:
    """One question about a canary: `query` with CANARY and BASELINE for a selector, RANGE for a window; it passes up to `limit`."""

    name: str
    query: str
    limit: float


def _p99(histogram: str, version: str) -> str:
    return f"histogram_quantile(0.99, sum by (le) (rate({histogram}_bucket{{{version}}}[RANGE])))"


def _regression(histogram: str) -> str:
    return f"{_p99(histogram, 'CANARY')} / {_p99(histogram, 'BASELINE')} - 1"


def _share(part: str, version: str, more: str = "") -> str:
    return f"sum(rate({part}{{{version}{more}}}[RANGE])) / sum(rate(llm_requests_total{{{version}}}[RANGE]))"


_FAILED = ',outcome=~"engine_.*|rejected|sidecar_error"'
QUESTIONS = (
    Question("ttft-p99-regression", _regression("llm_time_to_first_token_seconds"), GATE),
    Question("tpot-p99-regression", _regression("llm_time_per_output_token_seconds"), GATE),
    Question(
        "goodput-lost",
        f"({_share('llm_good_requests_total', 'BASELINE')}) - ({_share('llm_good_requests_total', 'CANARY')})",
        0.05,
    ),
    Question(
        "errors-added",
        f"({_share('llm_requests_total', 'CANARY', _FAILED)}) - ({_share('llm_requests_total', 'BASELINE', _FAILED)})",
        0.01,
    ),
)


def asked(query: str, *, canary: str, baseline: str, window: str) -> str:
    """A question with the selectors of the two versions and the window put in."""
    return query.replace("CANARY", canary).replace("BASELINE", baseline).replace("RANGE", window)


def canary_templates() -> Mapping[str, str]:
    """A MetricTemplate for each question, and one AnalysisTemplate with them all."""
    who = 'namespace="{{ namespace }}",lane="{{ variables.lane }}"'
    # Flagger names the pods of the old version TARGET-primary-HASH-ID, those of the new one TARGET-HASH-ID.
    flagger = [
        {
            "apiVersion": "flagger.app/v1beta1",
            "kind": "MetricTemplate",
            "metadata": {"name": f"llm-{question.name}"},
            "spec": {
                "provider": {"type": "prometheus", "address": PROMETHEUS},
                "query": _Block(
                    asked(
                        question.query,
                        canary=f'{who},pod=~"{{{{ target }}}}-[0-9a-z]+-[0-9a-z]+"',
                        baseline=f'{who},pod=~"{{{{ target }}}}-primary-[0-9a-z]+-[0-9a-z]+"',
                        window="{{ interval }}",
                    )
                    + "\n"
                ),
            },
        }
        for question in QUESTIONS
    ]
    who = 'namespace="{{args.namespace}}",lane="{{args.lane}}"'
    metrics = [
        {
            "name": question.name,
            "interval": "5m",
            "count": 3,
            "failureLimit": 0,
            # NaN and no series fulfil neither condition: inconclusive, which pauses the rollout for a person.
            "inconclusiveLimit": 1,
            "successCondition": f"len(result) == 1 && !isNaN(result[0]) && result[0] <= {question.limit}",
            "failureCondition": f"len(result) == 1 && !isNaN(result[0]) && result[0] > {question.limit}",
            "provider": {
                "prometheus": {
                    "address": "{{args.prometheus}}",
                    "query": _Block(
                        asked(
                            question.query,
                            canary=f'{who},pod=~".+-{{{{args.canary-hash}}}}-.+"',
                            baseline=f'{who},pod=~".+-{{{{args.stable-hash}}}}-.+"',
                            window="5m",
                        )
                        + "\n"
                    ),
                }
            },
        }
        for question in QUESTIONS
    ]
    argo = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AnalysisTemplate",
        "metadata": {"name": "llm-canary"},
        "spec": {
            "args": [
                {"name": "namespace"},
                {"name": "lane"},
                {"name": "canary-hash"},
                {"name": "stable-hash"},
                {"name": "prometheus", "value": PROMETHEUS},
            ],
            "metrics": metrics,
        },
    }
    limits = ", ".join(f"llm-{question.name} max {question.limit}" for question in QUESTIONS)
    return {
        "canary/flagger-metric-template.yaml": _yaml(
            *flagger, why=f"thresholdRange of the Canary's metrics: {limits}. templateVariables: lane."
        ),
        "canary/argo-analysis-template.yaml": _yaml(
            argo,
            why="In the Rollout: canary-hash from valueFrom.podTemplateHashValue Latest, stable-hash from Stable.",
        ),
    }
